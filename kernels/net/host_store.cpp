#include "kernels/net/host_store.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>
#include <utility>

namespace sluice {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

c10::Event HostStore::copy_behind(const at::Tensor& to, const at::Tensor& from, at::Device device) {
  if (!copies_)
    copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  c10::Event before(device.type()), after(device.type());
  before.record(current_stream(device));
  before.block(*copies_);
  const c10::StreamGuard guard(*copies_);
  to.copy_(from, /*non_blocking=*/true);
  after.record(*copies_);
  return after;
}

void HostStore::let_go(std::size_t left) {
  for (; going_.size() > left; going_.erase(going_.begin()))
    going_.front().done.block(current_stream(going_.front().there.device()));
}

void HostStore::put(int value, at::Tensor t) {
  const at::Device device = t.device();
  const auto on_host = t.options().device(at::kCPU).pinned_memory(!device.is_cpu());
  at::Tensor host = at::empty_like(t, on_host, at::MemoryFormat::Preserve);
  if (device.is_cpu()) {
    host.copy_(t);
    if (t.use_count() == 1 && t.storage().use_count() == 1)
      t.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    c10::Event done = copy_behind(host, t, device);
    going_.push_back({std::move(t), std::move(done)});
    let_go(in_flight);
  }
  waiting_.insert_or_assign(value, Waiting{std::move(host), device});
}

at::Tensor HostStore::fetch(int value) {
  Waiting w = std::move(waiting_.at(value));
  waiting_.erase(value);
  if (w.from.is_cpu()) return w.host;
  let_go(0);
  at::Tensor back = at::empty_like(w.host, w.host.options().device(w.from).pinned_memory(false),
                                   at::MemoryFormat::Preserve);
  c10::Event there = copy_behind(back, w.host, w.from);
  coming_.insert_or_assign(value, Coming{std::move(w.host), std::move(there)});
  return back;
}

void HostStore::await(int value) {
  const auto it = coming_.find(value);
  if (it == coming_.end()) return;
  it->second.there.block(current_stream(it->second.there.device()));
  coming_.erase(it);
}

void HostStore::clear() {
  let_go(0);
  while (!coming_.empty()) await(coming_.begin()->first);
  waiting_.clear();
}

}  // namespace sluice
