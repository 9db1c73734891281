// What networks share that can be in stages (kernels/net/stages.h): the file's parameters, and the
// figures.
#pragma once

#include <algorithm>

#include "engine/state/stage_costs.h"
#include "kernels/net/stages.h"
#include "nodes/network/built_network.h"

namespace sluice {

struct InStages {
  Json stages;
  std::optional<std::int64_t> chunks;
  std::string recompute = "none";
};

template <class Params>
Spec add_stages(Spec s) {
  using Any = Json Params::*;
  using Number = std::optional<std::int64_t> Params::*;
  using Text = std::string Params::*;
  s.param("stages", Any{&InStages::stages},
          "The network in parts, done one after the other, each on a device of its own with "
          "run.devices (several GPUs have not been tried yet): so many, of about the same cost, or "
          "the first layers of all but the first, as [\"model.1.submodule.0\"]. The result is the "
          "same to the bit. null: one.");
  s.param("chunks", Number{&InStages::chunks},
          "Micro-batches that a training batch is cut into (torchgpipe's chunks); batch norm takes "
          "the statistics of each. null: by the samples' size; batch norm's of the whole batch.")
      .at_least(1);
  s.param("recompute", Text{&InStages::recompute},
          "stage: a stage keeps what comes into it and is done again in the backward pass "
          "(torchgpipe's checkpoint \"always\"). The result is the same to the bit.")
      .choices({"none", "stage"});
  return s;
}

// Of the parameters as they are given. Throws Error(usage) for what is no number and no list.
inline NetDivision division_of(const InStages& given) {
  NetDivision d;
  d.chunks = static_cast<int>(given.chunks.value_or(0));
  d.recompute = given.recompute == "stage";
  const Json& stages = given.stages;
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (stages.is_number_integer() && stages >= 1)
    d.stages = static_cast<int>(std::min<std::int64_t>(stages.get<std::int64_t>(), 1 << 20));
  else if (stages.is_array() && !stages.empty() &&
           std::all_of(stages.begin(), stages.end(), is_text))
    d.layers = stages.get<std::vector<std::string>>();
  else if (!stages.is_null())
    throw Error(Exit::usage,
                "stages is a number from 1, or a list of layers' names, found " + stages.dump());
  return d;
}

inline StageCosts stage_costs_of(const Net& net) {
  StageCosts all;
  const std::vector<StepCost> costs = net.costs();
  const auto called = [&](int step, int by) {  // the nearest one that has a name
    for (int n = step; n >= 0 && n < static_cast<int>(net.steps.size()); n += by)
      if (!net.steps[n]->name.empty()) return net.steps[n]->name;
    return net.steps[step]->kind();
  };
  for (const StageFigures& f : stage_figures(net)) {
    StageCosts::Stage stage{called(f.first, 1), called(f.last, -1)};
    for (int n = f.first; n <= f.last; ++n) {
      stage.forward += costs[n].forward;
      stage.backward += costs[n].backward;
    }
    stage.kept = static_cast<double>(f.kept);
    stage.peak = static_cast<double>(f.peak);
    stage.comes = static_cast<double>(f.comes);
    all.stages.push_back(std::move(stage));
  }
  if (all.stages.empty()) return all;
  const auto count = static_cast<std::int64_t>(all.stages.size());
  all.micro_batches = micro_batches(net);
  all.expected_bubble = expected_bubble(count, all.micro_batches);
  all.bubble = measured_bubble(net).value_or(-1);
  all.balanced = measured_balance(net, static_cast<int>(count));
  return all;
}

// An ImageNetwork whose Params are InStages as well, and have add_stages() in their Spec.
template <class T>
class StagedNetwork : public ImageNetwork<T>, public Staged {
 public:
  void open(const Spec& spec) {
    ImageNetwork<T>::open(spec);
    try {
      divide(this->net(), division_of(static_cast<const T&>(*this).p));
    } catch (const Error& e) {
      throw Error(e.exit, spec.name + ": " + e.what());
    }
  }
  StageCosts stage_costs() const override { return stage_costs_of(this->net()); }
};

}  // namespace sluice
