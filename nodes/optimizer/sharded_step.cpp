#include "nodes/optimizer/sharded_step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>

#include "engine/trace/trace.h"

namespace sluice {
namespace {

std::size_t count(const Network::Named& all) {
  std::size_t n = 0;
  for (const auto& [name, t] : all) n += static_cast<std::size_t>(t.numel());
  return n;
}

// Of a leaf: gradients, a flag for each of those that are defined, and what buffers changed by.
std::size_t values_of(const Network& network) {
  const auto weights = network.parameters();
  return count(weights) + weights.size() + count(network.buffers());
}

// Goes through a leaf's memory tensor by tensor, each in the order of its axes.
class Cursor {
 public:
  explicit Cursor(std::span<float> values) : next_(values.data()) {}
  at::Tensor next(const at::Tensor& like) {
    const at::Tensor view = at::from_blob(next_, like.sizes(), at::kFloat);
    next_ += like.numel();
    return view;
  }
  float& next() { return *next_++; }

 private:
  float* next_;
};

}  // namespace

ShardedStep::ShardedStep(const Division& division, std::shared_ptr<Ranks> ranks,
                         std::shared_ptr<Network> network)
    : division_(division),
      ranks_(std::move(ranks)),
      network_(std::move(network)),
      mine_(static_cast<std::size_t>(division.parts)),
      sum_(division.parts, values_of(*network_), ranks_ ? ranks_->wire : nullptr,
           ranks_ && ranks_->halves) {
  take_buffers();
}

void ShardedStep::take_buffers() {
  buffers_.clear();
  for (const auto& [name, b] : network_->buffers()) buffers_.push_back(b.detach().cpu().clone());
}

void ShardedStep::add(std::int64_t shard, std::int64_t samples, double loss) {
  const at::NoGradGuard no_grad;
  mine_[static_cast<std::size_t>(shard)] = {samples, loss};
  Cursor leaf(sum_.leaf());
  const auto weights = network_->parameters();
  for (const auto& [name, w] : weights) {
    at::Tensor values = leaf.next(w);
    w.grad().defined() ? values.copy_(w.grad()) : values.zero_();
  }
  for (const auto& [name, w] : weights) {
    leaf.next() = w.grad().defined() ? 1 : 0;
    w.mutable_grad() = at::Tensor();
  }
  const auto buffers = network_->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor now = buffers[i].second.detach();
    at::Tensor change = leaf.next(now);
    if (at::equal(now.cpu(), buffers_[i])) {
      change.zero_();
      continue;
    }
    change.copy_(now.cpu() - buffers_[i]).mul_(share(samples));
    now.copy_(buffers_[i]);
  }
  sum_.add(shard);
}

// Of all ranks: what the step is made of, and whether any of them wishes to end.
std::vector<ShardedStep::Shard> ShardedStep::all_shards(bool& wish) {
  wish = ranks_ && ranks_->wish;
  std::vector<Shard> all(mine_.size());
  all.swap(mine_);
  if (!ranks_ || ranks_->alone()) return all;
  const auto size = static_cast<std::int64_t>(all.size());
  const auto ranks = static_cast<std::int64_t>(ranks_->wire->size());
  all.push_back({wish, 0});
  std::vector<Shard> theirs(all.size() * static_cast<std::size_t>(ranks));
  ranks_->wire->gather(std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(theirs)));
  const auto of = [&](std::int64_t rank, std::int64_t shard) {
    return theirs[static_cast<std::size_t>(rank * (size + 1) + shard)];
  };
  for (std::int64_t k = 0; k < size; ++k)
    all[static_cast<std::size_t>(k)] = of(part_of(k, size, ranks), k);
  all.pop_back();
  for (std::int64_t r = 0; r < ranks; ++r) wish |= of(r, size).samples != 0;
  return all;
}

ShardedStep::Sum ShardedStep::finish() {
  const at::NoGradGuard no_grad;
  Sum sum;
  std::vector<std::uint8_t> filled;
  const std::int64_t came = now_ns();
  for (const Shard& s : all_shards(sum.wish)) {
    filled.push_back(s.samples > 0);
    sum.samples += s.samples;
    sum.loss += static_cast<double>(s.samples) * s.loss;
  }
  const std::int64_t begun = now_ns();
  const std::uint64_t sent = sum_.sent();
  if (ranks_) ranks_->use.header_ns += begun - came;
  const std::span<float> values = sum_.finish(filled);
  if (ranks_) {
    ranks_->use.sum_ns += now_ns() - begun;
    ranks_->use.bytes += sum_.sent() - sent;
  }
  if (sum.samples == 0) return sum;
  sum.loss /= static_cast<double>(sum.samples);

  // A batch that is not full: the mean over the samples that there are.
  const float scale = static_cast<float>(division_.samples / static_cast<double>(sum.samples));
  if (sum.samples != division_.samples)
    for (float& v : values) v *= scale;
  Cursor from(values);
  const auto weights = network_->parameters();
  std::vector<at::Tensor> gradients;
  for (const auto& [name, w] : weights) gradients.push_back(from.next(w));
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (const at::Tensor& w = weights[i].second; from.next() > 0)
      w.mutable_grad() = w.is_cpu() ? gradients[i] : gradients[i].to(w.device());
  const auto buffers = network_->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor now = buffers[i].second.detach();
    const at::Tensor change = from.next(now);
    if (at::equal(change, at::zeros_like(change))) continue;
    buffers_[i] += now.is_floating_point() ? change : change.round().to(now.scalar_type());
    now.copy_(buffers_[i]);
  }
  return sum;
}

}  // namespace sluice
