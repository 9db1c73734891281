// reduce_on_plateau: the learning rate falls where a metric stands still
// (torch.optim.lr_scheduler.ReduceLROnPlateau 2.11).
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "engine/graph/spec.h"
#include "engine/run/node.h"
#include "nodes/optimizer/schedule.h"

namespace sluice {

// One base after the other: Spec::param takes a pointer to any of them for a pointer to the first.
struct PlateauParams : ScheduleParams {
  std::string metric, threshold_mode = "rel";
  std::optional<std::string> mode;  // null: as the metric is better
  double factor = 0.1, threshold = 1e-4, min_lr = 0;
  std::int64_t patience = 10, cooldown = 0;
};

Spec& add_plateau_params(Spec& s);

class Plateau {
 public:
  // Does nothing where the schedule is another one. `lr`: the optimizer's own rate; `others`: those
  // of its groups and layers.
  void open(const PlateauParams& p, bool is_used, double lr, const std::vector<double>& others);
  void observe(const Observation& o);
  // By each of these, what has become of it as of the last epoch whose metric is known.
  std::map<double, double> rates() const;
  Json save() const;
  void load(const Json& state);

 private:
  PlateauParams p_;
  bool is_used_ = false, less_ = true;  // is better
  double lr_ = 0;
  mutable std::mutex mutex_;  // what follows; observe() is called from any thread
  std::map<double, double> rates_;
  std::optional<double> best_;
  std::int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace sluice
