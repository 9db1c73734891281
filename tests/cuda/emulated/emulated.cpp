// The fibers behind emulated/cuda_runtime.h.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/cuda/emulated/cuda_runtime.h"

namespace emulated {

uint3 thread, block;
dim3 threads, blocks;

namespace {

constexpr std::size_t stack = 64 * 1024;

enum class State { ready, at_block, at_warp, done };
struct Fiber {
  jmp_buf place;
  State state = State::ready;
  bool begun = false;
};

std::vector<Fiber> fibers;
std::vector<char> stacks;
jmp_buf scheduler;
const std::function<void()>* body;
alignas(16) char slots[32][16];

void wait(State s) {
  Fiber& f = fibers[thread.x];
  f.state = s;
  if (_setjmp(f.place) == 0) _longjmp(scheduler, 1);
}

// A fiber outlives its block: the next block's thread of the same number goes on with it.
void entry() {
  for (;;) {
    (*body)();
    wait(State::done);
  }
}

// A context is made once; from then on _longjmp switches, which makes no system call.
[[gnu::noinline]] void resume(std::size_t i) {
  thread.x = static_cast<unsigned>(i);
  Fiber& f = fibers[i];
  if (_setjmp(scheduler) != 0) return;
  if (f.begun) _longjmp(f.place, 1);
  f.begun = true;
  ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = stacks.data() + i * stack;
  first.uc_stack.ss_size = stack;
  first.uc_link = nullptr;
  makecontext(&first, entry, 0);
  setcontext(&first);
}

// Runs fibers [begin, end) until each waits or is done; those at a warp's barrier go on together.
void run_warp(std::size_t begin, std::size_t end) {
  for (;;) {
    std::size_t at_warp = 0, live = 0;
    for (std::size_t i = begin; i < end; ++i) {
      Fiber& f = fibers[i];
      if (f.state == State::ready) resume(i);
      at_warp += f.state == State::at_warp;
      live += f.state != State::done;
    }
    if (at_warp == 0) return;
    if (at_warp != live || live != end - begin) {
      std::fprintf(stderr, "emulated: %zu of %zu lanes at a warp's barrier\n", at_warp,
                   end - begin);
      std::abort();
    }
    for (std::size_t i = begin; i < end; ++i) fibers[i].state = State::ready;
  }
}

void run_block() {
  const std::size_t n = fibers.size();
  for (Fiber& f : fibers) f.state = State::ready;
  for (;;) {
    std::size_t waiting = 0, done = 0;
    for (std::size_t w = 0; w < n; w += 32) run_warp(w, w + 32 < n ? w + 32 : n);
    for (const Fiber& f : fibers) {
      waiting += f.state == State::at_block;
      done += f.state == State::done;
    }
    if (done == n) return;
    if (waiting != n) {
      std::fprintf(stderr, "emulated: %zu of %zu threads at a block's barrier, %zu done\n", waiting,
                   n, done);
      std::abort();
    }
    for (Fiber& f : fibers) f.state = State::ready;
  }
}

}  // namespace

void wait_block() { wait(State::at_block); }
void wait_warp() { wait(State::at_warp); }
void* slot(unsigned lane) { return slots[lane]; }

void run(dim3 grid, int count, const std::function<void()>& f) {
  if (fibers.size() != static_cast<std::size_t>(count)) {
    fibers.assign(static_cast<std::size_t>(count), {});
    stacks.assign(fibers.size() * stack, 0);
  }
  threads = dim3(static_cast<unsigned>(count));
  blocks = grid;
  body = &f;
  for (block.z = 0; block.z < grid.z; ++block.z)
    for (block.y = 0; block.y < grid.y; ++block.y)
      for (block.x = 0; block.x < grid.x; ++block.x) run_block();
}

}  // namespace emulated

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  std::memset(*memory, 0xa5, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
