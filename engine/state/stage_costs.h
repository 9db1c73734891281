// What the parts of a network in stages (kernels/net/stages.h) have cost, for `profile`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// Bytes of the last training pass, seconds of all passes so far.
struct StageCosts {
  struct Stage {
    std::string first, last;           // layers
    double forward = 0, backward = 0;  // seconds a sample
    double kept = 0, peak = 0;         // bytes at most at a time: between the passes, in all
    double comes = 0;                  // bytes a micro-batch, from other stages
  };
  std::vector<Stage> stages;
  std::vector<std::string> balanced;  // what would begin stages that take equally long
  std::int64_t micro_batches = 0;
  double expected_bubble = 0, bubble = -1;  // -1: one device does them all
};

// A network that may be in stages is one of these, too.
class Staged {
 public:
  virtual ~Staged() = default;
  virtual StageCosts stage_costs() const = 0;  // without stages: it is in one part
};

}  // namespace sluice
