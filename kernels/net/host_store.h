// Where a pass's values wait while nothing reads them: the host's memory, so that a GPU has room
// for more. Copies run beside the GPU's work, on a stream of their own, from and to pinned memory.
//
//   put(v, t)    t is on its way to the host; whoever gave it lets go of it
//   fetch(v)     the tensor that it comes back into
//   await(v)     from here on it may be read
//
// A value's memory on the GPU is let go of when a few more went: the GPU's work waits there until
// the copy is done, so that a pass which outruns the copies takes no more memory than its plan
// says, and the allocator gives the memory to what comes next.
//
// On the CPU the same calls copy within its memory, which saves none: so that all but the streams
// is tested. What was put there reads as NaN afterwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <map>
#include <optional>
#include <vector>

namespace sluice {

class HostStore {
 public:
  void put(int value, at::Tensor t);
  bool holds(int value) const { return waiting_.count(value) > 0; }
  at::Tensor fetch(int value);
  void await(int value);
  void clear();

 private:
  struct Waiting {
    at::Tensor host;
    at::Device from;
  };
  struct Coming {
    at::Tensor host;  // until it was read
    c10::Event there;
  };
  struct Going {
    at::Tensor there;
    c10::Event done;
  };
  static constexpr std::size_t in_flight = 2;

  // Copies behind all that the current stream has been given so far; the event is the copy's end.
  c10::Event copy_behind(const at::Tensor& to, const at::Tensor& from, at::Device device);

  // Lets go of all but the newest `left` of those on their way.
  void let_go(std::size_t left);

  std::vector<Going> going_;
  std::map<int, Waiting> waiting_;
  std::map<int, Coming> coming_;
  std::optional<c10::Stream> copies_;
};

}  // namespace sluice
