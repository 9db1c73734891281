#include "nodes/optimizer/sharded_step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/trace/trace.h"
#include "kernels/net/ready.h"
#include "kernels/optim/optim.h"

namespace sluice {
namespace {

// Values as they lie in a weight's memory.
at::Tensor like(float* values, const at::Tensor& weight) {
  return weight.is_non_overlapping_and_dense()
             ? at::from_blob(values, weight.sizes(), weight.strides(), at::kFloat)
             : at::from_blob(values, weight.sizes(), at::kFloat);
}

// Goes through memory tensor by tensor, each in the order of its axes.
class Cursor {
 public:
  explicit Cursor(float* values) : next_(values) {}
  at::Tensor next(const at::Tensor& like) {
    const at::Tensor view = at::from_blob(next_, like.sizes(), at::kFloat);
    next_ += like.numel();
    return view;
  }
  float& next() { return *next_++; }

 private:
  float* next_;
};

std::size_t count(const at::Tensor& t) { return static_cast<std::size_t>(t.numel()); }

// Pieces of about even size that end where a block of some weight does.
std::vector<std::size_t> cuts_at_blocks(const std::vector<std::size_t>& weights, std::size_t values,
                                        std::size_t ranks) {
  std::vector<std::size_t> cuts{0};
  std::size_t begin = 0;
  for (const std::size_t weight : weights) {
    for (std::size_t b = 0; b < weight; b += optim_block) {
      const std::size_t end = begin + std::min(weight, b + optim_block);
      while (cuts.size() < ranks && end * ranks >= cuts.size() * values) cuts.push_back(end);
    }
    begin += weight;
  }
  while (cuts.size() < ranks) cuts.push_back(values);
  cuts.push_back(values);
  return cuts;
}

}  // namespace

Network::Named trained_weights(const Network& network) {
  Network::Named all = network.parameters();
  std::erase_if(all, [](const auto& named) { return !named.second.requires_grad(); });
  return all;
}

void backward_to(const Network& network, const at::Tensor& loss) {
  torch::autograd::variable_list weights;
  for (const auto& [name, weight] : trained_weights(network)) weights.push_back(weight);
  torch::autograd::backward({loss}, {}, std::nullopt, false, weights);
}

ShardedStep::ShardedStep(const Division& division, std::shared_ptr<Ranks> ranks,
                         std::shared_ptr<Network> network, const std::string& node)
    : division_(division),
      ranks_(std::move(ranks)),
      wire_(ranks_ ? ranks_->channel(node) : nullptr),
      network_(std::move(network)),
      in_parts_(wire_ && ranks_->shard_optimizer),
      mine_(static_cast<std::size_t>(division.parts)),
      weights_(trained_weights(*network_)) {
  lay_out();
  taken_ = std::vector<std::atomic<bool>>(places_.size());
  open_ = std::vector<std::atomic<int>>(buckets_.size());
  sums_ = std::make_unique<BucketedSum>(division.parts, buckets_, wire_, ranks_ && ranks_->halves);
  take_buffers();
}

// Weights from the last to the first, as the backward pass comes to them.
void ShardedStep::lay_out() {
  places_.resize(weights_.size());
  ranges_.resize(weights_.size());
  gradients_.resize(weights_.size());
  const std::size_t most = ranks_ ? ranks_->bucket_values : 0;  // 0: all in one
  std::vector<std::vector<std::size_t>> sizes;                  // by bucket
  for (std::size_t i = weights_.size(); i-- > 0;) {
    const std::size_t size = count(weights_[i].second);
    if (buckets_.empty() || (most > 0 && buckets_.back().values >= most)) {
      buckets_.emplace_back();
      sizes.emplace_back();
    }
    places_[i] = {buckets_.size() - 1, buckets_.back().values, size};
    buckets_.back().values += size;
    sizes.back().push_back(size);
    numbers_[weights_[i].second.unsafeGetTensorImpl()] = i;
  }
  if (in_parts_) {
    const auto rank = static_cast<std::size_t>(wire_->rank());
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      buckets_[b].in_parts = true;
      buckets_[b].cuts =
          cuts_at_blocks(sizes[b], buckets_[b].values, static_cast<std::size_t>(wire_->size()));
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& p = places_[i];
      const auto& cuts = buckets_[p.bucket].cuts;
      const auto inside = [&](std::size_t cut) {
        return static_cast<std::int64_t>(std::clamp(cut, p.begin, p.begin + p.size) - p.begin);
      };
      ranges_[i] = {inside(cuts[rank]), inside(cuts[rank + 1])};
    }
    buckets_.emplace_back();  // all ranks need the rest
  }
  if (buckets_.empty()) buckets_.emplace_back();
  rest_ = buckets_.back().values;
  buckets_.back().values += weights_.size();
  for (const auto& [name, b] : network_->buffers()) buckets_.back().values += count(b);
}

void ShardedStep::take_buffers() {
  buffers_.clear();
  for (const auto& [name, b] : network_->buffers()) buffers_.push_back(b.detach().cpu().clone());
}

// ---- a shard ------------------------------------------------------------------------------------

bool ShardedStep::is_my_last(std::int64_t shard) const {
  return wire_ && shard + 1 == first_shard(wire_->rank() + 1, wire_->size(), division_.parts);
}

void ShardedStep::backward(const at::Tensor& begin, std::int64_t shard, std::int64_t samples,
                           double loss) {
  mine_[static_cast<std::size_t>(shard)] = {samples, loss};
  shard_ = shard;
  closes_ = is_my_last(shard);
  leaves_.clear();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    leaves_.push_back(sums_->leaf(b).data());
    open_[b] = 0;
  }
  ++open_.back();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    taken_[i] = false;
    ++open_[places_[i].bucket];
  }
  if (closes_ && ranks_->bucket_values > 0) {
    this->begin();
    const ReadyScope scope([this](const at::Tensor& weight, const at::Tensor& gradient) {
      const auto found = numbers_.find(weight.unsafeGetTensorImpl());
      if (found != numbers_.end()) take(found->second, gradient);
    });
    backward_to(*network_, begin);
  } else {
    backward_to(*network_, begin);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (!taken_[i]) take(i, weights_[i].second.grad());
  take_rest(samples);
  for (const auto& [name, w] : weights_) w.mutable_grad() = at::Tensor();
  if (closes_) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) sums_->add(b, shard);
}

// From any thread of a backward pass.
void ShardedStep::take(std::size_t weight, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const Place& p = places_[weight];
  float* to = leaves_[p.bucket] + p.begin;
  if (gradient.defined())
    like(to, weights_[weight].second).copy_(gradient);
  else
    std::fill_n(to, p.size, 0.0f);
  taken_[weight] = true;
  close(p.bucket);
}

void ShardedStep::close(std::size_t bucket) {
  if (--open_[bucket] == 0 && closes_) {
    if (!sums_->has_begun()) begin();
    sums_->close(bucket, shard_);
  }
}

void ShardedStep::take_rest(std::int64_t samples) {
  Cursor rest(leaves_.back() + rest_);
  for (const auto& [name, w] : weights_) rest.next() = w.grad().defined() ? 1 : 0;
  const auto buffers = network_->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor now = buffers[i].second.detach();
    at::Tensor change = rest.next(now);
    if (at::equal(now.cpu(), buffers_[i])) {
      change.zero_();
      continue;
    }
    change.copy_(now.cpu() - buffers_[i]).mul_(share(samples));
    now.copy_(buffers_[i]);
  }
  close(buckets_.size() - 1);
}

// ---- the step -----------------------------------------------------------------------------------

void ShardedStep::begin() {
  sums_->begin([wire = wire_, agreed = agreed_, all = mine_, wish = ranks_ && ranks_->wish,
                pause_wish = ranks_ && ranks_->pause_wish] {
    *agreed = {all, wish, pause_wish};
    if (wire) agree(*wire, *agreed);
    std::vector<std::uint8_t> filled;
    for (const Shard& s : agreed->shards) filled.push_back(s.samples > 0);
    return filled;
  });
}

void ShardedStep::agree(Collectives& wire, Agreed& agreed) {
  std::vector<Shard> mine = agreed.shards;
  const auto size = static_cast<std::int64_t>(mine.size());
  const auto ranks = static_cast<std::int64_t>(wire.size());
  mine.push_back({(agreed.wish ? 1 : 0) + (agreed.pause_wish ? 2 : 0), 0});
  std::vector<Shard> theirs(mine.size() * static_cast<std::size_t>(ranks));
  wire.gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(theirs)));
  const auto of = [&](std::int64_t rank, std::int64_t shard) {
    return theirs[static_cast<std::size_t>(rank * (size + 1) + shard)];
  };
  for (std::int64_t k = 0; k < size; ++k)
    agreed.shards[static_cast<std::size_t>(k)] = of(part_of(k, size, ranks), k);
  for (std::int64_t r = 0; r < ranks; ++r) {
    agreed.wish |= (of(r, size).samples & 1) != 0;
    agreed.pause_wish |= (of(r, size).samples & 2) != 0;
  }
}

void ShardedStep::count_bytes() {
  if (ranks_) ranks_->use.bytes += sums_->sent() - counted_;
  counted_ = sums_->sent();
}

ShardedStep::Sum ShardedStep::finish() {
  const at::NoGradGuard no_grad;
  const std::int64_t came = now_ns();
  if (!sums_->has_begun()) {  // the last shard here is empty, or there is no wire
    begin();
    for (std::size_t b = 0; b < buckets_.size(); ++b) sums_->close(b);
  }
  const std::int64_t on_wire = sums_->wire_ns();
  sums_->await_agreement();
  const std::int64_t begun = now_ns();
  sums_->await();
  if (ranks_) {
    ranks_->use.header_ns += begun - came;
    ranks_->use.sum_ns += now_ns() - begun;
    ranks_->use.wire_ns += sums_->wire_ns() - on_wire;
  }
  count_bytes();
  std::fill(mine_.begin(), mine_.end(), Shard{});
  Sum sum;
  sum.wish = agreed_->wish;
  sum.pause_wish = agreed_->pause_wish;
  for (const Shard& s : agreed_->shards) {
    sum.samples += s.samples;
    sum.loss += static_cast<double>(s.samples) * s.loss;
  }
  if (sum.samples == 0) return sum;
  sum.loss /= static_cast<double>(sum.samples);
  // A batch that is not full: the mean over the samples that there are.
  const bool full = sum.samples == division_.samples;
  give(full ? 1 : static_cast<float>(division_.samples / static_cast<double>(sum.samples)));
  return sum;
}

void ShardedStep::give(float scale) {
  const std::size_t rest = buckets_.size() - 1;
  if (scale != 1)
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      for (float& v : sums_->sum(b)) v *= scale;
  Cursor from(sums_->sum(rest).data() + rest_);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor& w = weights_[i].second;
    const Place& p = places_[i];
    const bool has_gradient = from.next() > 0;
    gradients_[i] = at::Tensor();
    if (!has_gradient) continue;
    float* sum = sums_->sum(p.bucket).data();
    if (in_parts_) {
      const std::size_t first = p.begin + static_cast<std::size_t>(ranges_[i].begin);
      const std::int64_t size = ranges_[i].end - ranges_[i].begin;
      float* values = size > 0 ? sum + (first - sums_->of(p.bucket).begin()) : sum;
      gradients_[i] = at::from_blob(values, {size}, at::kFloat);
      continue;
    }
    const at::Tensor values = like(sum + p.begin, w);
    w.mutable_grad() = w.is_cpu() ? values : values.to(w.device());
  }
  const auto buffers = network_->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor now = buffers[i].second.detach();
    const at::Tensor change = from.next(now);
    if (at::equal(change, at::zeros_like(change))) continue;
    buffers_[i] += now.is_floating_point() ? change : change.round().to(now.scalar_type());
    now.copy_(buffers_[i]);
  }
}

// ---- a sharded optimizer ------------------------------------------------------------------------

void ShardedStep::spread(const std::vector<float*>& ranges, const std::vector<float*>& wholes) {
  for (std::size_t b = 0; b + 1 < buckets_.size(); ++b) {
    OrderedSum& sum = sums_->of(b);
    std::vector<float> piece(sum.end() - sum.begin());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& p = places_[i];
      const auto size = static_cast<std::size_t>(ranges_[i].end - ranges_[i].begin);
      if (p.bucket != b || size == 0) continue;
      const std::size_t at = p.begin + static_cast<std::size_t>(ranges_[i].begin) - sum.begin();
      std::memcpy(piece.data() + at, ranges[i], size * sizeof(float));
    }
    const auto whole = sum.gather(piece);
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (const Place& p = places_[i]; p.bucket == b)
        std::memcpy(wholes[i], whole.data() + p.begin, p.size * sizeof(float));
  }
  count_bytes();
}

void ShardedStep::unite(std::vector<double>& numbers) {
  const std::size_t n = numbers.size();
  std::vector<double> all(n * static_cast<std::size_t>(wire_->size()));
  wire_->gather(std::as_bytes(std::span(numbers)), std::as_writable_bytes(std::span(all)));
  std::fill(numbers.begin(), numbers.end(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) numbers[i % n] += all[i];
}

}  // namespace sluice
