// One step whose batch is computed in shards, here or by other processes: their gradients, weighted
// by their samples, are added along one tree (engine/group/ordered_sum.h).
//
// Invariants:
//  - every shard is computed from the same weights and buffers: what a pass changed in the buffers
//    (a batch norm's running statistics) is taken out after it, and the weighted sum of the changes
//    goes in once a step;
//  - all ranks call finish() for the same steps, and leave it with the same bits.
#pragma once

#include <memory>
#include <vector>

#include "engine/group/ordered_sum.h"
#include "engine/group/ranks.h"
#include "engine/group/shards.h"
#include "engine/state/resource.h"

namespace sluice {

class ShardedStep {
 public:
  ShardedStep(const Division& division, std::shared_ptr<Ranks> ranks,
              std::shared_ptr<Network> network);

  std::int64_t shard(std::uint64_t packet) const {
    return static_cast<std::int64_t>(packet) % division_.parts;
  }
  bool ends(std::uint64_t packet) const { return division_.ends_step(packet); }
  // What a shard's mean loss is multiplied with.
  double share(std::int64_t samples) const {
    return samples / static_cast<double>(division_.samples);
  }

  // After the shard's backward pass: takes the gradients out of the network.
  void add(std::int64_t shard, std::int64_t samples, double loss);

  struct Sum {
    std::int64_t samples = 0;
    double loss = 0;    // the mean over samples
    bool wish = false;  // some rank's, to end the run
  };
  // Collective: gives the network the step's gradients and buffers; where there were no samples at
  // all, nothing.
  Sum finish();

  // The buffers are what the next step begins with.
  void take_buffers();

 private:
  struct Shard {
    std::int64_t samples = 0;
    double loss = 0;
  };
  std::vector<Shard> all_shards(bool& wish);

  const Division division_;
  const std::shared_ptr<Ranks> ranks_;
  const std::shared_ptr<Network> network_;
  std::vector<at::Tensor> buffers_;  // as the step began
  std::vector<Shard> mine_;
  OrderedSum sum_;
};

}  // namespace sluice
