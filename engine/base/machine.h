// The machine that this process runs on.
#pragma once

#include <string>

namespace sluice {

std::string host_name();
// Of the kernel, since it started: who has the same id reads the same clocks. "": not known.
std::string boot_id();

}  // namespace sluice
