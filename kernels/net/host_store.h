// Where a pass's values wait while nothing reads them: the host's memory, so that a GPU has room
// for more. Copies run beside the GPU's work, on a stream of their own, from and to pinned memory.
//
//   put(v, t)    t is on its way to the host; whoever gave it lets go of it
//   fetch(v)     the tensor that it comes back into
//   await(v)     from here on it may be read
//
// On the CPU the same calls copy within its memory, which saves none: so that all but the streams
// is tested. What was put there reads as NaN afterwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <map>
#include <optional>

namespace sluice {

class HostStore {
 public:
  void put(int value, at::Tensor t);
  bool holds(int value) const { return waiting_.count(value) > 0; }
  at::Tensor fetch(int value);
  void await(int value);
  void clear() { waiting_.clear(), coming_.clear(); }

 private:
  struct Waiting {
    at::Tensor host;
    at::Device from;
  };
  struct Coming {
    at::Tensor host;  // until it was read
    c10::Event there;
  };
  // Copies behind all that the current stream has been given so far.
  void copy_behind(const at::Tensor& to, const at::Tensor& from, at::Device device);

  std::map<int, Waiting> waiting_;
  std::map<int, Coming> coming_;
  std::optional<c10::Stream> copies_;
};

}  // namespace sluice
