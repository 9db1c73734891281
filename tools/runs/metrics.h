// metrics.jsonl of a run: what each metric was, step by step.
//
// Invariant: update() reads only what was added since the last time, and all anew where the file is
// another one (a resumed run cuts it back to its checkpoint).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace sluice::runs {

struct Series {
  std::vector<double> step, epoch, value;  // NaN where no number was measured
  std::string mode;                        // what its lines say, see less_is_better
};

// Whether less of a metric is better: its run's "min" or "max". Of a run that says neither, which
// one of an earlier version does, by its name.
bool less_is_better(const std::string& name, const std::string& mode);
// Which value is the best one; -1 where none is a number, and for learning rates.
int best_of(const std::string& name, const std::string& mode, const std::vector<double>& values);

class Metrics {
 public:
  explicit Metrics(std::filesystem::path file) : file_(std::move(file)) {}
  bool update();  // whether anything was added

  // Of whole epochs ("val_dice.mean", "step.loss"), and of steps, as nodes log them ("step.loss").
  std::map<std::string, Series, std::less<>> by_epoch, by_step;

 private:
  void take(std::string_view line);
  const std::filesystem::path file_;
  std::uint64_t read_ = 0, inode_ = 0;
};

// {"last", "best", "best_epoch", "min", "max", "n"}; best is missing for learning rates.
Json figures(const std::string& name, const Series& series);

// {"x", "y"} with at most two points a column: the least and the largest value in it.
// `x`: "step" or "epoch".
Json thinned(const Series& series, const std::string& x, std::size_t columns);

}  // namespace sluice::runs
