// Devices that share the batches of a network, or its stages: each takes a part, and has a thread,
// a stream and copies of the tensors for it. The first is where the network is: it works in the
// stream that is current on the thread that calls.
//
//   the caller's stream    pack the weights ─┬─ its own part ─────────────────┬─ add up
//   a place's stream                         └─ copy, its part, copy back ────┘
//
// Invariant: streams wait for each other at this fork and this join, and where a place awaits
// another's mark. Memory that the caller and a place touch is the caller's, from before the fork
// until after the join. What a place allocates it alone uses, but for what another one takes over:
//
//   place 0    make x ── StreamMark ── let go of x, go on
//   place 1        await() └─ taken_over(x) ── use the copy
//
// A place takes over in its own streams, after it awaited a mark that was set after x was made; the
// allocator knows of it, and gives x's memory to nobody before it is read.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sluice {

class Places {
 public:
  // Of one type. A device that is named twice is two places, with a stream for each.
  explicit Places(std::vector<at::Device> devices);

  int size() const { return static_cast<int>(devices_.size()); }
  const at::Device& device(int place) const { return devices_[static_cast<std::size_t>(place)]; }

  // Where parts of n samples begin and end, as torch.chunk cuts them: even but for the last, and
  // fewer than there are places where that is enough.
  std::vector<std::int64_t> bounds(std::int64_t n) const;

  // body(0) .. body(count - 1), each on its place's thread, whose device and stream are current. A
  // body may wait for those that the order has before it: without threads they are done in turn.
  enum class Order { from_first, from_last };
  void run(int count, const std::function<void(int)>& body, Order order = Order::from_first) const;

 private:
  std::vector<at::Device> devices_;
  struct Streams {
    c10::Stream own, on_first;  // the other one for copies from the first and to it
  };
  std::vector<Streams> streams_;  // by place, the first left out; none without devices' streams
};

// All that the thread's place has been given so far, for another place to wait for. On the host,
// whose calls end when their work is done, it is nothing.
class StreamMark {
 public:
  explicit StreamMark(at::DeviceType type);
  void await() const;  // what the thread's place is given from now on does

 private:
  std::optional<c10::Event> event_;
};

// t on the device, in memory of its own even where it was there already.
at::Tensor copied_to(const at::Tensor& t, at::Device device);
// The same of another place's tensor, on the thread of the device's place.
at::Tensor taken_over(const at::Tensor& t, at::Device device);

// Tensors of float32 in one piece of memory, which one copy moves. Undefined ones stay so.
struct Packed {
  at::Tensor flat;
  std::vector<at::Tensor> views;
  // Room for tensors like these.
  static Packed like(const std::vector<at::Tensor>& tensors, at::Device device);
  void fill(const std::vector<at::Tensor>& from) const;
};

}  // namespace sluice
