// Nodes inside a node, for those that choose between transforms: `"transforms": [{"type": ...},
// ...]`.
//
// Why inside and not as branches of the graph: an edge carries every stamp, and a node behind two
// branches waits for both, so a choice between branches would need a second kind of join. Inside
// one node a choice is a loop; the inner nodes' parameters are checked with the graph's.
//
// Invariant: an inner node's draws depend on its place ("augment/1") and the stamp, so they are the
// same whatever is chosen beside it. Inner nodes that can leave their work to the next one do, and
// what the last leaves is the outer node's to do, or to leave (fused.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/run/inner_node.h"
#include "nodes/transform/fused.h"

namespace sluice {

class InnerNodes {
 public:
  // An entry is a node, or a list of nodes that are done one after the other (an empty one changes
  // nothing).
  void open(const Json& entries, const OpenContext& context) {
    lazy_ = context.lazy;
    if (!entries.is_array() || entries.empty())
      throw Error(Exit::usage, "transforms needs a list of at least one node");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries_.emplace_back();
      const std::string path = context.node + "/" + std::to_string(i);
      if (entries[i].is_object()) {
        entries_.back().push_back(InnerNode::make(entries[i], path, context));
        continue;
      }
      for (std::size_t k = 0; k < entries[i].size(); ++k)
        entries_.back().push_back(
            InnerNode::make(entries[i][k], path + "/" + std::to_string(k), context));
    }
  }

  std::size_t size() const { return entries_.size(); }

  // The sample after an entry; null where one of its nodes keeps it back, and says why on `f`.
  SamplePtr run(std::size_t entry, SamplePtr sample, Firing& f) const {
    for (const InnerNode& inner : entries_[entry]) {
      if (!inner.fuses) sample = settled(std::move(sample));
      sample = inner.run(std::move(sample), f);
      if (!sample) break;
    }
    return sample;
  }

 private:
  SamplePtr settled(SamplePtr sample) const {
    const auto& fields = sample->fields();
    if (std::none_of(fields.begin(), fields.end(),
                     [](const auto& f) { return !!f.second.pending; }))
      return sample;
    Sample done = *sample;
    for (auto& [key, field] : done.fields()) settle(field, lazy_);
    return std::make_shared<const Sample>(std::move(done));
  }

  std::vector<std::vector<InnerNode>> entries_;
  bool lazy_ = false;
};

// Shares that sum to 1: those given, or equal ones.
inline std::vector<double> shares(const std::vector<double>& weights, std::size_t entries) {
  std::vector<double> out = weights;
  if (out.empty()) out.assign(entries, 1.0);
  double sum = 0;
  for (double w : out) sum += w;
  if (out.size() != entries || !(sum > 0))
    throw Error(Exit::usage, "weights needs one number for each of the " + std::to_string(entries) +
                                 " transforms, and one above 0");
  for (double& w : out) w /= sum;
  return out;
}

// An entry by its share; those with share 0 never.
inline std::size_t choose(const std::vector<double>& shares, Random& random) {
  double sum = 0, rest = 0;
  for (double w : shares) sum += w;
  rest = random.uniform() * sum;
  std::size_t last = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] <= 0) continue;
    last = i;
    if (rest < shares[i]) return i;
    rest -= shares[i];
  }
  return last;
}

struct ChoiceParams {
  Json transforms;
  std::vector<double> weights;
};

// `P` is ChoiceParams and what the node adds.
template <class P>
Spec choice_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      .param("transforms", &P::transforms,
             "Nodes {\"type\": ..., parameters}, or lists of nodes that are done in a row.")
      .required()
      .length(1)
      .param("weights", &P::weights, "How likely each is, in any scale; none: all equally.")
      .at_least(0)
      .random();
  return s;
}

// A node that chooses between inner nodes by shares that sum to 1.
struct ChoiceNode : FusedNode {
 protected:
  void open_choice(const ChoiceParams& p, const OpenContext& context) {
    FusedNode::open(context);
    inner_.open(p.transforms, context);
    shares_ = shares(p.weights, inner_.size());
  }

  InnerNodes inner_;
  std::vector<double> shares_;
};

}  // namespace sluice
