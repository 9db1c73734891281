// to_device: moves every field's tensor to where the training region runs, or back to the host.
//
//   sample ─▶ slot of pinned memory ─▶ (copy stream) ─▶ the device's memory
//             ^ free again when the copy is done: as many as samples may be in flight
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "engine/state/tensor_device.h"
#include "kernels/augment/pending.h"
#include "kernels/base/inner_parallel.h"

namespace sluice {
namespace {

// Bytes as a tensor of the same type, sizes and strides as `like`, which is dense.
at::Tensor shaped(const at::Tensor& bytes, const at::Tensor& like) {
  return bytes.view(like.scalar_type()).as_strided(like.sizes(), like.strides());
}

// By several threads where that is long: one fills a seventh of what a PCIe link of 50 GB/s takes.
void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  constexpr std::int64_t part = 1 << 20;
  const auto bytes = static_cast<std::int64_t>(from.nbytes());
  char* const target = static_cast<char*>(to.mutable_data_ptr());
  const char* const source = static_cast<const char*>(from.const_data_ptr());
  const std::int64_t parts = (bytes + part - 1) / part;
  for_range(parts, parts > 4, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin * part, source + begin * part,
                static_cast<std::size_t>(std::min(end * part, bytes) - begin * part));
  });
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Pinned memory is dear to allocate: buffers as large as the largest sample so far, used again.
class Slots {
 public:
  std::shared_ptr<const at::Tensor> take(const TensorDevice& device, std::int64_t bytes) {
    at::Tensor slot;
    {
      std::lock_guard lock(free_->mutex);
      largest_ = std::max(largest_, bytes);
      if (!free_->all.empty()) {
        slot = std::move(free_->all.back());
        free_->all.pop_back();
      }
    }
    if (!slot.defined() || slot.numel() < bytes) slot = device.host_memory(largest_);
    return {new at::Tensor(std::move(slot)), [free = free_](const at::Tensor* done) {
              std::lock_guard lock(free->mutex);
              free->all.push_back(*done);
              delete done;
            }};
  }

 private:
  struct Free {
    std::mutex mutex;
    std::vector<at::Tensor> all;
  };
  std::shared_ptr<Free> free_ = std::make_shared<Free>();
  std::int64_t largest_ = 0;
};

struct ToDevice final : Node {
  struct Params {
    std::string device = "auto";
    std::int64_t ahead = 2;
  } p;

  static Spec spec() {
    return Spec("to_device",
                "Moves every field to the device but those that nodes behind it read on the host "
                "(the voxels of fg_bg_to_indices).")
        .in("sample")
        .out("sample")
        .param("device", &Params::device, "auto: the GPU where there is one, else the CPU.")
        .choices({"auto", "cpu", "cuda"})
        .param("ahead", &Params::ahead,
               "How many samples may be in flight behind it. Not given: so many beside those that "
               "nodes behind it hold back for a batch, and on the host as many as elsewhere.")
        .at_least(1)
        .lane(LaneKind::copy)
        .gate("ahead")
        .moves("device")
        .any_device();
  }

  void open(const OpenContext& context) override {
    stays_ = context.stays;
    device_ = context.device;
    if (p.device == "cuda" && !device_)
      throw Error(Exit::gpu, "no CUDA device here; say \"device\": \"auto\" or \"cpu\"");
  }

  void process(Firing& f) override {
    if (!device_) return f.emit_ptr(f.ptr());
    const bool back = p.device == "cpu";
    Sample out = f.in();
    const auto moved = moved_fields(out, back ? at::kCPU : device_->place().type());
    if (moved.empty()) return f.emit_ptr(f.ptr());
    for (Field* field : moved) field->tensor = dense(field->tensor);
    if (!f.stream())
      move(moved, back ? at::Device(at::kCPU) : device_->place());
    else if (back)
      fetch(f, moved);
    else
      send(f, moved);
    for (Field* field : moved)  // of a cache's narrow volumes (Plan's `narrow`)
      if (field->pending)
        field->pending = std::make_shared<Pending>(field->tensor, field->pending->dtype());
    f.emit(std::move(out));
  }

 private:
  bool moves(const std::string& key, const Field& field) const {
    return field.tensor.defined() && std::find(stays_.begin(), stays_.end(), key) == stays_.end();
  }
  // A simulated device has the host's memory, so there it is not seen where a tensor is.
  bool is_at(const Field& field, at::DeviceType there) const {
    return !device_->place().is_cpu() && field.tensor.device().type() == there;
  }
  std::vector<Field*> moved_fields(Sample& sample, at::DeviceType there) const {
    std::vector<Field*> all;
    for (auto& [key, field] : sample.fields())
      if (moves(key, field) && !is_at(field, there)) all.push_back(&field);
    return all;
  }

  static at::Tensor dense(const at::Tensor& t) {
    return t.is_non_overlapping_and_dense() ? t : t.contiguous();
  }

  // On a lane without a stream (the graph may say so).
  static void move(const std::vector<Field*>& fields, at::Device to) {
    for (Field* field : fields) field->tensor = field->tensor.to(to);
  }

  void send(Firing& f, const std::vector<Field*>& fields) {
    std::int64_t bytes = 0;
    for (const Field* field : fields)
      bytes += aligned(static_cast<std::int64_t>(field->tensor.nbytes()));
    const auto slot = slots_.take(*device_, bytes);
    f.stream()->keep(slot);
    std::int64_t at = 0;
    for (Field* field : fields) {
      const at::Tensor from = field->tensor;
      const auto size = static_cast<std::int64_t>(from.nbytes());
      const at::Tensor pinned = slot->narrow(0, at, size);
      copy_bytes(pinned, from);
      field->tensor =
          at::empty_strided(from.sizes(), from.strides(), from.options().device(device_->place()));
      device_->copy(field->tensor, shaped(pinned, from), *f.stream());
      at += aligned(size);
    }
  }

  void fetch(Firing& f, const std::vector<Field*>& fields) const {
    for (Field* field : fields) {
      const at::Tensor from = field->tensor;
      f.stream()->keep(std::make_shared<const at::Tensor>(from));
      field->tensor = shaped(device_->host_memory(static_cast<std::int64_t>(from.nbytes())), from);
      device_->copy(field->tensor, from, *f.stream());
    }
  }

  std::vector<std::string> stays_;
  std::shared_ptr<TensorDevice> device_;
  Slots slots_;
};

const Register<ToDevice> registered;

}  // namespace
}  // namespace sluice
