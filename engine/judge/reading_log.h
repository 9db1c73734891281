// Readings along a run, for what its second half was like: a run begins with what is slow once.
//
// Invariant: however long the run, no more than `most` are kept, evenly spread: when they are full
// every other one goes, and from then on one of twice as many is kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/trace/trace.h"

namespace sluice {

class ReadingLog {
 public:
  explicit ReadingLog(std::size_t most = 512) : most_(std::max<std::size_t>(most, 2)) {}

  void add(std::vector<Reading> now) {
    if (count_++ % each_ == 0) kept_.push_back(now);
    last_ = std::move(now);
    if (kept_.size() < most_) return;
    for (std::size_t i = 1; 2 * i < kept_.size(); ++i) kept_[i] = std::move(kept_[2 * i]);
    kept_.resize((kept_.size() + 1) / 2);
    each_ *= 2;
  }
  std::size_t count() const { return count_; }  // that were added
  std::size_t kept() const { return kept_.size(); }
  // At half of the run, and at its end; where two were added.
  const std::vector<Reading>& middle() const { return kept_[count_ / 2 / each_]; }
  const std::vector<Reading>& last() const { return last_; }

 private:
  const std::size_t most_;
  std::size_t count_ = 0, each_ = 1;
  std::vector<std::vector<Reading>> kept_;  // every each_-th
  std::vector<Reading> last_;
};

}  // namespace sluice
