// A session among other processes: who it is, which nodes it needs in another form for that, and
// what ranks tell each other before, between and after the steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/spec.h"
#include "engine/group/ranks.h"
#include "engine/plan/plan.h"
#include "engine/run/node.h"

namespace sluice {

// This process's place, from its environment; read once.
const World& this_world();

// Joins the world's others, once in a process; `signal` as in Options, `lost` is told where one of
// them is gone.
void join(Ranks& ranks, const RunSettings& run, std::function<int()> signal,
          std::function<void(const std::string&)> lost);

// When what a rank alone knows goes to rank 0: at the run's end.
constexpr const char* at_end = "cut";

// Of a node whose state of an epoch is spread over the ranks: at the epoch's end every rank puts it
// together from all parts, so all report the same; nothing where a rank was cut before that.
class Parted final : public Node {
 public:
  Parted(std::unique_ptr<Node> node, std::string path, std::shared_ptr<Ranks> ranks)
      : node_(std::move(node)), path_(std::move(path)), ranks_(std::move(ranks)) {}

  void process(Firing& f) override { node_->process(f); }
  void observe(const Observation& o) override { node_->observe(o); }
  void flush(Flush& end) override;
  // Where the run is saved: hand_over() on every rank, then save() on rank 0. `when` is new each
  // time; at_end is the last.
  void hand_over(const std::string& when);
  void save(State& state) const override;
  void load(const State& state) override;

 private:
  void unite(const std::string& when) const;
  bool all_ended(const std::string& epoch) const;
  std::string name(const std::string& when, int rank) const;

  const std::unique_ptr<Node> node_;
  const std::string path_;
  const std::shared_ptr<Ranks> ranks_;
  std::string given_;   // the epoch of the part that is in the store
  std::string handed_;  // when the part was handed over last
};

// The node as this rank needs it: Parted, or passing samples on where rank 0 alone writes.
std::unique_ptr<Node> of_rank(std::unique_ptr<Node> node, const PlanNode& plan,
                              const std::shared_ptr<Ranks>& ranks);

// Collective: throws Error(usage) naming what this rank has otherwise than rank 0.
void require_same(Ranks& ranks, const Json& what);
// Collective, where a checkpoint is due: throws Error(peer) where a rank has other weights than
// rank 0, which nothing else would ever tell.
void require_same_weights(Ranks& ranks, const std::string& digest);
// Collective, between two turns: whether any rank wishes to end.
bool any_wish(Ranks& ranks);
// Collective: by how many ns rank 0's now_ns() is ahead of this rank's. Processes of one machine
// read one clock; that of another machine is compared to within the time of a collective.
std::int64_t behind_first(Ranks& ranks);
// What every rank says, in ranks' order; on rank 0, elsewhere nothing.
std::vector<Json> told(Ranks& ranks, const std::string& name, const Json& mine);

}  // namespace sluice
