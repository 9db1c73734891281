// A device that holds tensors. LibTorch's own, device-neutral streams and events do it, so nothing
// of CUDA is linked: its half of LibTorch is loaded at run time, where there is a GPU.
//
// Invariant: a lane's stream is taken from LibTorch's pool once and is the current one of the
// lane's thread from then on, so whatever a body calls is queued there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/device.h"

namespace sluice {

// Work that was queued once and can be queued again as one piece: a CUDA graph.
class Recording {
 public:
  using Tensors = std::vector<at::Tensor>;
  virtual ~Recording() = default;
  // Queues it on the calling thread's stream. Returns the tensors that its body returned: the same
  // memory each time, whose values are undefined until a mark after this call is done.
  virtual const Tensors& repeat(Stream& stream) = 0;
};

class TensorDevice : public Device {
 public:
  virtual at::Device place() const = 0;
  // All of this kind that are there, place() first: those that can share a batch.
  virtual std::vector<at::Device> places() const { return {place()}; }
  // Bytes on the host that copies may read or fill while the host goes on.
  virtual at::Tensor host_memory(std::int64_t bytes) const = 0;
  // Queued on the calling thread's stream. Until a mark after it is done, `from` must not change
  // and the values of `to` are undefined.
  virtual void copy(const at::Tensor& to, const at::Tensor& from, Stream& stream) = 0;
  // Records what `body` queues on the calling thread's stream, without doing it; the body may be
  // called now or at each repeat. What it reads and writes and does not make must stay where it is
  // as long as the recording lives.
  virtual std::unique_ptr<Recording> record(std::function<Recording::Tensors()> body,
                                            Stream& stream) = 0;
  virtual std::string name() const = 0;                         // "cuda:0"
  virtual std::optional<std::uint64_t> free_bytes() const = 0;  // of place(); nullopt: unknown
  virtual double peak_bytes() const = 0;  // of one place's memory in tensors at once, the most
};

// This process's: what SLUICE_DEVICE says ("none" or "cpu", "simulated", "gpu"; others throw an
// Error), else a GPU: of several processes on a machine each takes the next. Null where there is
// none. "simulated:3" and "gpu:3" are one that stands for three places.
std::shared_ptr<TensorDevice> find_device();

// All `count` GPUs of a machine, that of its process number `local_rank` first.
std::vector<at::Device> gpus_from(int local_rank, int count);

// Tensors of the host that arrive late: NaN until a copy that a thread does some time later.
std::shared_ptr<TensorDevice> simulated_tensors(std::size_t places = 1);

}  // namespace sluice
