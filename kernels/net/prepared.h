// What a network's passes share from one to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/net/stages.h"

namespace sluice {

struct Prepared {
  // The network's own tensors with what steps made of them, for passes that need no gradients.
  std::mutex mutex;
  std::shared_ptr<const Replica> replica;
  std::uint64_t version = 0;

  Parts parts;

  // Passes whose backward one is still to come; and whether there were several at once since there
  // was none, so that a gradient is the sum of several passes.
  std::mutex passes_mutex;
  int passes = 0;
  bool overlapped = false;
};

// A pass whose backward one is still to come, while it lives.
class OpenPass {
 public:
  explicit OpenPass(std::shared_ptr<Prepared> shared) : shared_(std::move(shared)) {
    std::lock_guard lock(shared_->passes_mutex);
    if (++shared_->passes > 1) shared_->overlapped = true;
  }
  ~OpenPass() {
    std::lock_guard lock(shared_->passes_mutex);
    if (--shared_->passes == 0) shared_->overlapped = false;
  }
  OpenPass(const OpenPass&) = delete;
  OpenPass& operator=(const OpenPass&) = delete;
  bool is_alone() const {
    std::lock_guard lock(shared_->passes_mutex);
    return !shared_->overlapped;
  }

 private:
  const std::shared_ptr<Prepared> shared_;
};

}  // namespace sluice
