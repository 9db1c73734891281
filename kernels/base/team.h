// The training step's own threads. Work is assigned by index alone, threads sleep between
// regions that do not follow each other at once, and LibTorch's calls inside a body run on that
// body's thread.
//
// Invariant: body(i) always runs on thread i, so what a thread sums up is the same in every run;
// results depend on the number of threads only where a caller lets them.
//
//   caller   body(0) ............ waits, then rethrows the lowest failing thread's exception
//   thread 1 body(1) ......
//
// Not OpenMP: its threads spin at barriers for milliseconds, and a step lost a factor of ten where
// another process took one core. Here a thread spins for as long as a sleep and a wake take, some
// 50 us: a step of a U-Net with batch norm and two threads took 700 ms without, 440 with.
#pragma once

#include <cstdint>
#include <functional>

namespace sluice {

// How many threads this thread may use: what at::set_num_threads() was last told on it, and 1
// inside a team's body. Data threads are told 1, the step lane the run's step threads.
int team_size();

// body(0) .. body(threads - 1), each on its thread. One region runs at a time in the process;
// one that finds the team busy runs its bodies in turn on the calling thread.
void team_run(int threads, const std::function<void(int)>& body);

// The same, with LibTorch's calls on one thread also where there is no team: what they give does
// not depend on the number of threads then.
void one_thread_each(int threads, const std::function<void(int)>& body);

// body(begin, end) over [0, n), cut into team_size() even ranges.
void team_for(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace sluice
