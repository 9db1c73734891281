// The machine that this process runs on, and its part of it.
#pragma once

#include <string>

namespace sluice {

std::string host_name();
// Of the kernel, since it started: who has the same id reads the same clocks. "": not known.
std::string boot_id();

// That this process may run on: a launcher may bind it to some. At least 1.
int own_cores();

}  // namespace sluice
