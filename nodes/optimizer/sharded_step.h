// One step whose batch is computed in shards, here or by other processes: their gradients, weighted
// by their samples, are added along one tree (engine/group/ordered_sum.h), in buckets that go over
// the wire while the last shard's backward pass goes on (bucketed_sum.h).
//
//   bucket 0  weights of the last layers     closed first
//   bucket 1  ...
//   bucket n  weights of the first layers    closed at the end
//   the rest  which weights have a gradient, and what buffers changed by
//
// Invariants:
//  - every shard is computed from the same weights and buffers: what a pass changed in the buffers
//    (a batch norm's running statistics) is taken out after it, and the weighted sum of the changes
//    goes in once a step;
//  - all ranks call finish() for the same steps, and leave it with the same bits;
//  - where the optimizer is sharded (ZeRO-1, Rajbhandari et al. 2020) a rank has the sum of a range
//    of each weight alone, whole blocks of it, and update() gives the others what it made of that.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/group/bucketed_sum.h"
#include "engine/group/ranks.h"
#include "engine/group/shards.h"
#include "engine/state/resource.h"

namespace sluice {

// All but those that a TorchScript file keeps as they are (requires_grad false).
Network::Named trained_weights(const Network& network);

// Gradients of this network's weights alone: of a generator's loss, what a discriminator's weights
// had to do with it is not theirs to learn from.
void backward_to(const Network& network, const at::Tensor& loss);

class ShardedStep {
 public:
  // `node`: the updater's path.
  ShardedStep(const Division& division, std::shared_ptr<Ranks> ranks,
              std::shared_ptr<Network> network, const std::string& node);

  std::int64_t shard(std::uint64_t packet) const {
    return static_cast<std::int64_t>(packet) % division_.parts;
  }
  bool ends(std::uint64_t packet) const { return division_.ends_step(packet); }
  // What a shard's mean loss is multiplied with.
  double share(std::int64_t samples) const {
    return samples / static_cast<double>(division_.samples);
  }

  // Does the shard's backward pass from `begin`, its loss, and takes the gradients.
  void backward(const at::Tensor& begin, std::int64_t shard, std::int64_t samples, double loss);

  struct Sum {
    std::int64_t samples = 0;
    double loss = 0;                        // the mean over samples
    bool wish = false, pause_wish = false;  // some rank's, for the run behind this step
  };
  // Collective: gives the network the step's gradients and buffers; where there were no samples at
  // all, nothing. Of a sharded optimizer gradients are ranges as in range().
  Sum finish();

  // The buffers are what the next step begins with.
  void take_buffers();

  // ---- a sharded optimizer

  bool in_parts() const { return in_parts_; }
  // What this rank updates of a weight, counted as it lies in memory.
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  Range range(std::size_t weight) const { return ranges_[weight]; }
  at::Tensor gradient(std::size_t weight) const { return gradients_[weight]; }
  // Collective: everybody's ranges to everybody; ranges[i] of weight i goes out, wholes[i] comes
  // in.
  void spread(const std::vector<float*>& ranges, const std::vector<float*>& wholes);
  // Collective: the sum over ranks of numbers of which all but one rank have 0.
  void unite(std::vector<double>& numbers);

 private:
  struct Shard {
    std::int64_t samples = 0;
    double loss = 0;
  };
  struct Place {  // of a weight's gradient
    std::size_t bucket = 0, begin = 0, size = 0;
  };
  // Of all ranks: what the step is made of, and what any of them wishes.
  struct Agreed {
    std::vector<Shard> shards;
    bool wish = false, pause_wish = false;
  };
  void lay_out();
  bool is_my_last(std::int64_t shard) const;
  void begin();
  static void agree(Collectives& wire, Agreed& agreed);
  void count_bytes();
  void take(std::size_t weight, const at::Tensor& gradient);
  void close(std::size_t bucket);
  void take_rest(std::int64_t samples);
  void give(float scale);

  const Division division_;
  const std::shared_ptr<Ranks> ranks_;
  Collectives* const wire_;  // null: there are no other ranks
  const std::shared_ptr<Network> network_;
  const bool in_parts_;
  std::vector<at::Tensor> buffers_;  // as the step began
  std::vector<Shard> mine_;

  const Network::Named weights_;
  std::vector<Place> places_;  // by weight
  std::vector<Range> ranges_;
  std::vector<BucketedSum::Bucket> buckets_;  // the last: the rest; alone, or behind weights
  std::size_t rest_ = 0;                      // where it begins there
  std::vector<at::Tensor> gradients_;         // of ranges
  std::unordered_map<const void*, std::size_t> numbers_;  // by the weight's tensor

  // Of the shard under way.
  std::int64_t shard_ = 0;
  bool closes_ = false;
  std::vector<float*> leaves_;
  std::vector<std::atomic<bool>> taken_;  // by weight
  std::vector<std::atomic<int>> open_;    // by bucket: weights that are to come, and the rest

  const std::shared_ptr<Agreed> agreed_ = std::make_shared<Agreed>();
  std::uint64_t counted_ = 0;  // bytes
  std::unique_ptr<BucketedSum> sums_;
};

}  // namespace sluice
