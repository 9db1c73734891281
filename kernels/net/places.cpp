#include "kernels/net/places.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/base/team.h"

namespace sluice {
namespace {

// What `later` is given from now on waits for what `before` was given.
void wait(const c10::Stream& later, const c10::Stream& before) {
  c10::Event event(before.device_type());
  event.record(before);
  event.block(later);
}

// The stream in which the thread's device works now.
c10::Stream current_stream(at::DeviceType type) {
  const c10::impl::VirtualGuardImpl guard(type);
  return guard.getStream(guard.getDevice());
}

// These streams, and the device of the first of them, are the thread's current ones for a while.
class Entered {
 public:
  Entered(const c10::Stream& own, const c10::Stream& on_first)
      : guard_(own.device_type()),
        device_(guard_.exchangeDevice(own.device())),
        before_on_first_(guard_.exchangeStream(on_first)),
        before_(guard_.exchangeStream(own)) {}
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    guard_.exchangeStream(before_);
    guard_.exchangeStream(before_on_first_);
    guard_.uncheckedSetDevice(device_);
  }

 private:
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Device device_;
  const c10::Stream before_on_first_, before_;
};

}  // namespace

Places::Places(std::vector<at::Device> devices) : devices_(std::move(devices)) {
  if (devices_.empty() || devices_[0].is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(devices_[0].type());
  for (int place = 1; place < size(); ++place) {
    const c10::Stream own = guard.getStreamFromGlobalPool(device(place), true);
    const bool same = device(place) == devices_[0];
    streams_.push_back({own, same ? own : guard.getStreamFromGlobalPool(devices_[0], true)});
  }
}

std::vector<std::int64_t> Places::bounds(std::int64_t n) const {
  const std::int64_t each = std::max<std::int64_t>(1, (n + size() - 1) / size());
  std::vector<std::int64_t> at{0};
  while (at.back() < n) at.push_back(std::min(n, at.back() + each));
  return at;
}

void Places::run(int count, const std::function<void(int)>& body, Order order) const {
  const auto place_of = [&](int thread) {
    return order == Order::from_first ? thread : count - 1 - thread;
  };
  if (streams_.empty()) return team_run(count, [&](int thread) { body(place_of(thread)); });
  const c10::Stream first = c10::impl::VirtualGuardImpl(devices_[0].type()).getStream(devices_[0]);
  const auto task = [&](int thread) {
    const int place = place_of(thread);
    const Streams s =
        place == 0 ? Streams{first, first} : streams_[static_cast<std::size_t>(place - 1)];
    const Entered entered(s.own, s.on_first);
    body(place);
  };
  const auto each_stream = [&](const auto& call) {
    for (auto s = streams_.begin(); s != streams_.begin() + (count - 1); ++s) {
      call(s->own);
      if (s->on_first != s->own) call(s->on_first);
    }
  };
  each_stream([&](const c10::Stream& s) { wait(s, first); });
  std::exception_ptr error;
  try {
    team_run(count, task);
  } catch (...) {
    error = std::current_exception();
  }
  // Also where a place failed: the others may still read the caller's memory.
  each_stream([&](const c10::Stream& s) { wait(first, s); });
  if (error) std::rethrow_exception(error);
}

StreamMark::StreamMark(at::DeviceType type) {
  if (type == at::kCPU) return;
  event_.emplace(type);
  event_->record(current_stream(type));
}

void StreamMark::await() const {
  if (event_) event_->block(current_stream(event_->device_type()));
}

at::Tensor copied_to(const at::Tensor& t, at::Device device) {
  at::Tensor copy = at::empty_like(t, t.options().device(device));
  return copy.copy_(t, /*non_blocking=*/true);
}

// LibTorch copies, and before that packs where it must, in the stream that this thread has on the
// source's device.
at::Tensor taken_over(const at::Tensor& t, at::Device device) {
  if (device.is_cpu()) return copied_to(t, device);
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream reads = guard.getStream(t.device());
  wait(reads, guard.getStream(device));  // which has waited for t
  guard.recordDataPtrOnStream(t.storage().data_ptr(), reads);
  return copied_to(t, device);
}

Packed Packed::like(const std::vector<at::Tensor>& tensors, at::Device device) {
  constexpr std::int64_t line = 64;  // each begins where memory of its own would: 256 bytes
  std::int64_t size = 0;
  std::vector<std::int64_t> begin;
  for (const auto& t : tensors) {
    begin.push_back(size);
    if (t.defined()) size += (t.numel() + line - 1) / line * line;
  }
  Packed p{at::empty({size}, at::dtype(at::kFloat).device(device)), {}};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    p.views.push_back(tensors[i].defined()
                          ? p.flat.narrow(0, begin[i], tensors[i].numel()).view(tensors[i].sizes())
                          : at::Tensor());
  return p;
}

void Packed::fill(const std::vector<at::Tensor>& from) const {
  std::vector<at::Tensor> to, of;
  for (std::size_t i = 0; i < views.size(); ++i)
    if (views[i].defined()) {
      to.push_back(views[i]);
      of.push_back(from[i]);
    }
  if (!to.empty()) at::_foreach_copy_(to, of);
}

}  // namespace sluice
