#include "kernels/allocator.h"

#include <malloc.h>
#include <sys/prctl.h>

namespace sluice {

void tune_allocator() {
  constexpr int gibibyte = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, gibibyte);  // setting it also stops glibc from moving it
  mallopt(M_TRIM_THRESHOLD, 2147483647);
  mallopt(M_TOP_PAD, 64 << 20);
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);  // a parent may have switched huge pages off
}

}  // namespace sluice
