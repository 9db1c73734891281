// What the process used of the machine since a moment: processor time, page faults, memory.
#pragma once

#include <cstdint>

#include "engine/graph/spec.h"

namespace sluice {

struct ProcessUse {
  double at_s = 0, cpu_s = 0;
  std::int64_t minor_faults = 0, major_faults = 0;  // pages given by memory, by disk
  double most_mb = 0;                               // resident, since the process began
  static ProcessUse now();
  // {"cores", "minor_faults", "major_faults", "most_mb"} since `begin`.
  Json since(const ProcessUse& begin) const;
};

}  // namespace sluice
