// Who wants a parameter's gradient as soon as it is whole, while the backward pass goes on.
//
//   backward   step 9 ▶ step 8 ▶ step 7 ▶ ...
//   told       weights of 9    of 8 ...         by the last of the threads to pass the step
//
// Invariant: what is told is all of the gradient. So nothing is told where a network's weights are
// read by two passes at once, or by several devices; nor from other threads than the scope's.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace sluice {

// For backward passes that this thread begins during its life.
class ReadyScope {
 public:
  // Called by any of the pass's threads, for several parameters at once, for none twice. The
  // gradient is undefined where there is none.
  using Tell = std::function<void(const at::Tensor& parameter, const at::Tensor& grad)>;
  explicit ReadyScope(Tell tell);
  ~ReadyScope();
  ReadyScope(const ReadyScope&) = delete;
  ReadyScope& operator=(const ReadyScope&) = delete;

  static const Tell* current();  // null: nobody asks

 private:
  const Tell tell_;
  const Tell* const before_;
};

}  // namespace sluice
