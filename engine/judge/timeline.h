// How a run went over time: each node's queue, credits and busy share, and the process's memory
// and processor use, at even distances.
//
// Invariant: however long the run, there are never more than `most` points: when they are full,
// neighbours become one point, their mean, and from then on every point stands for twice the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/judge/figures.h"

namespace sluice {

class Timeline {
 public:
  // `every_s`: the time between two calls of add(), until that is measured: a busy machine calls
  // late.
  Timeline(const Plan& plan, Threads threads, double every_s, std::size_t most = 2000);

  // The counters as they stand, and of the process: processor seconds used so far and bytes held.
  void add(const std::vector<Reading>& now, double cpu_s, double bytes);
  std::size_t points() const { return points_.size(); }

  // {"interval_s": 0.1, "cpu": [cores...], "rss_mb": [...],
  //  "nodes": {"pre/load": {"busy": [...], "queue": [...], "credits": [...], "total": 4}}}
  Json to_json() const;

 private:
  using Point = std::vector<float>;  // cpu, bytes, then busy, queue, credits of each node
  void halve();

  const Plan& plan_;
  const Threads threads_;
  const double every_s_;
  const std::size_t most_;
  std::size_t each_ = 1;  // samples that a point stands for
  std::vector<Point> points_;
  Point open_;  // the sum of those that the next point will stand for
  std::size_t in_open_ = 0;
  std::vector<Reading> last_;
  std::size_t samples_ = 0;
  std::int64_t first_ns_ = 0;
  double last_cpu_s_ = 0;
};

}  // namespace sluice
