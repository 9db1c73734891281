#include "engine/run/turnstile.h"

#include <algorithm>

namespace sluice {

static std::vector<int> trainers(const Plan& plan) {
  std::vector<int> nodes = training_region(plan);
  nodes.insert(nodes.end(), plan.turns->updaters.begin(), plan.turns->updaters.end());
  return nodes;
}

Turnstile::Turnstile(const Plan& plan, std::size_t first, std::function<bool(const Turn&)> between)
    : plan_(plan),
      turns_(*plan.turns),
      sequence_(plan.sequence()),
      trainers_(trainers(plan)),
      between_(std::move(between)),
      position_(first),
      closed_(plan.nodes.size(), 0) {
  for (std::size_t n = 0; n < plan.nodes.size(); ++n)
    closed_[n] = sequence_.epochs_before(plan.nodes[n].stream, first);
}

bool Turnstile::open(int stream, std::uint32_t epoch) const {
  std::lock_guard lock(mutex_);
  return !advancing_ && !stopped_ && position_ < sequence_.size() &&
         sequence_[position_].stream == stream && sequence_[position_].epoch == epoch;
}

static bool is_in(const std::vector<int>& nodes, int node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

bool Turnstile::ends(int node) const { return is_in(trainers_, node) || is_in(turns_.sinks, node); }

bool Turnstile::complete(const Turn& turn) const {
  const auto& enders = turn.stream == turns_.train_stream ? trainers_ : turns_.sinks;
  return std::all_of(enders.begin(), enders.end(), [&](int n) {
    return plan_.nodes[n].stream != turn.stream ||
           closed_[n] > static_cast<std::int64_t>(turn.epoch);
  });
}

bool Turnstile::closed(int node, std::uint32_t epoch, bool cut) {
  // Whether an epoch of training was cut is the updaters' to say.
  if (cut && (is_in(turns_.updaters, node) || is_in(turns_.sinks, node))) return false;
  std::unique_lock lock(mutex_);
  // Not simply set: two ends of one free-running node may be told in either order.
  closed_[node] = std::max(closed_[node], static_cast<std::int64_t>(epoch) + 1);
  if (advancing_) return false;  // whoever advances looks again
  bool changed = false;
  while (!stopped_ && position_ < sequence_.size() && complete(sequence_[position_])) {
    advancing_ = true;
    const Turn ended = sequence_[position_];
    lock.unlock();
    const bool stop = between_(ended);
    lock.lock();
    stopped_ = stop;
    ++position_;
    advancing_ = false;
    changed = true;
  }
  return changed;
}

std::size_t Turnstile::position() const {
  std::lock_guard lock(mutex_);
  return position_;
}

}  // namespace sluice
