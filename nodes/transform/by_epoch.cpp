// by_epoch: transforms that change as training goes on, for schedules of augmentation: little at
// first, more from some epoch on.
#include <algorithm>

#include "engine/run/registry.h"
#include "nodes/transform/inner_nodes.h"

namespace sluice {
namespace {

struct ByEpoch final : FusedNode {
  struct Params {
    Json transforms;
    std::vector<std::int64_t> from;
  } p;

  static Spec spec() {
    return Spec("by_epoch", "Does the transforms of the epoch's stage.")
        .in("sample")
        .out("sample")
        .param("transforms", &Params::transforms,
               "A stage each: a node {\"type\": ..., parameters}, or a list of nodes that are done "
               "in a row; an empty list changes nothing.")
        .required()
        .param("from", &Params::from,
               "The first epoch of each stage, counted from 0; the first stage's is 0.")
        .required()
        .at_least(0)
        .random();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    inner_.open(p.transforms, context);
    if (p.from.size() != inner_.size() || p.from.front() != 0 ||
        std::adjacent_find(p.from.begin(), p.from.end(), std::greater_equal<>()) != p.from.end())
      throw Error(Exit::usage, "from needs a number for each of the " +
                                   std::to_string(inner_.size()) + " stages, rising from 0");
  }

  void process(Firing& f) override {
    const auto later =
        std::upper_bound(p.from.begin(), p.from.end(), static_cast<std::int64_t>(f.stamp().epoch));
    const auto stage = static_cast<std::size_t>(later - p.from.begin()) - 1;
    if (const SamplePtr out = inner_.run(stage, f.ptr(), f)) finish(f, *out);
  }

 private:
  InnerNodes inner_;
};

const Register<ByEpoch> registered;

}  // namespace
}  // namespace sluice
