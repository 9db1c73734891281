// Memory of tensors, set for training: a step, and a batch, frees and allocates the same large
// blocks again and again; by themselves each would be mapped, page-faulted, cleared and unmapped
// every time, which for a batch of pictures takes longer than to make it.
//
// Blocks of 128 KiB and more are kept when they are freed, become one with kept neighbours, and are
// cut for the next that asks, in huge pages where the kernel has them; smaller ones stay glibc's,
// which leaves gaps between larger ones that nothing fills.
//
// Invariant: kept and used blocks together never exceed the peak of the used ones by more than a
// thirty-second and 16 MiB. Results do not depend on it.
#pragma once

#include <cstddef>
#include <memory>

namespace sluice {

// Call it once, before the first large allocation.
void tune_allocator();

// The kept blocks. Every function may be called on any thread.
class BlockPool {
 public:
  BlockPool();
  ~BlockPool();  // unmaps what is kept; what is used stays

  // Null where a new block cannot be had, or there are too many. 4 KiB aligned, or 2 MiB.
  void* take(std::size_t bytes);
  // False where the block is not of this pool.
  bool give(void* block);

  struct Held {
    std::size_t used = 0, kept = 0, most_used = 0;  // bytes
  };
  Held held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
