// A loop that may use the other cores. Off by default in every kernel: the scheduler already runs
// one volume a thread, and splitting those again would only add overhead.
//
// Isolated, so that a thread that waits inside never picks up another node's body.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstdint>
#include <thread>

#include "engine/base/borrowed_time.h"

namespace sluice {

template <class Fn>  // fn(begin, end)
void for_range(std::int64_t n, bool parallel, Fn&& fn) {
  if (!parallel || n < 2) {
    fn(std::int64_t{0}, n);
    return;
  }
  const auto caller = std::this_thread::get_id();
  tbb::this_task_arena::isolate([&, body = the_body] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, n), [&](const auto& r) {
      const HelpTimer timer(std::this_thread::get_id() == caller ? nullptr : body);
      fn(r.begin(), r.end());
    });
  });
}

}  // namespace sluice
