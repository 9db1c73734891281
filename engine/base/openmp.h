// LibTorch's OpenMP threads (libgomp) spin for milliseconds after each operation unless told
// otherwise: time that the team (kernels/base/team.h) and the data threads lack. With two step
// threads a step of densenet121 took 1.4 times as long, one of a small U-Net 1.3 times.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace sluice {

// Lets them sleep at once; true where this changed anything. A user's own setting stays. libgomp
// reads it when it is loaded, so this is called before that.
inline bool let_openmp_sleep() {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return false;
  return ::setenv("GOMP_SPINCOUNT", "0", 1) == 0;
}

// For a program that is linked to LibTorch: starts it again with the setting that `sluice` has.
inline void start_again_with_sleeping_openmp(char** argv) {
  if (let_openmp_sleep()) ::execv("/proc/self/exe", argv);
}

}  // namespace sluice
