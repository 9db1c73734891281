// What a run ran on: processor, memory, system, versions, command line.
#pragma once

#include <string>

#include "engine/graph/spec.h"

namespace sluice {

Json environment();
std::string utc_now();      // "2026-11-21T09:18:04Z"
std::string itk_version();  // "5.2.1", of what reads DICOM

}  // namespace sluice
