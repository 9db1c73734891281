// How often each intensity was drawn, and the statistics of that as numpy would give them of the
// draws one after the other, in less memory: a whole-number image has few different values.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/nnunet/fingerprint.h"

namespace sluice::nnunet {

class ValueCounts {
 public:
  struct Count {
    float value;
    std::uint32_t times;
  };

  // In any order, a value any number of times; less than 2^32 times in all.
  void add(const std::vector<Count>& counts);
  std::uint64_t draws() const { return draws_; }
  // All of them 0 where nothing was drawn. Percentiles are linear, the deviation is the
  // population's; float32, as nnU-Net writes them.
  Intensities statistics();

 private:
  std::vector<Count> counts_;  // by value, each once, as far as `compacted_`
  std::size_t compacted_ = 0;
  std::uint64_t draws_ = 0;

  float at(std::uint64_t draw) const;  // of the sorted draws
  double percentile(double q) const;
};

// Sorts by value and joins equal ones.
void compact(std::vector<ValueCounts::Count>& counts);

}  // namespace sluice::nnunet
