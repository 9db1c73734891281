// glibc's allocator, set for training: a step frees and allocates the same large blocks again and
// again, and with the defaults each of them is mapped, page-faulted and unmapped every time.
//
// Invariant: call it once, before the first large allocation; it changes speed and never results.
#pragma once

namespace sluice {

// Keeps freed blocks of any size in the process (no mmap, no trim), grows the heap in large steps
// and asks for huge pages where the kernel leaves that to the program.
void tune_allocator();

}  // namespace sluice
