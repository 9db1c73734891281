#include "engine/plan/turn_order.h"

#include <algorithm>
#include <utility>

namespace sluice {

TurnOrder::TurnOrder(int train_stream, std::uint32_t epochs, std::vector<Validation> validations)
    : train_stream_(train_stream), epochs_(epochs), validations_(std::move(validations)) {}

bool TurnOrder::is_due(const Validation& v, std::uint32_t train_epoch) const {
  return (train_epoch + 1) % v.every == 0 || train_epoch + 1 == epochs_;
}

std::uint32_t TurnOrder::done(const Validation& v, std::uint32_t e) const {
  const bool extra = e == epochs_ && e % v.every != 0;  // after the last training epoch
  return e / v.every + (extra ? 1 : 0);
}

std::size_t TurnOrder::begin_of(std::uint32_t train_epoch) const {
  std::size_t n = train_epoch;
  for (const Validation& v : validations_) n += done(v, train_epoch);
  return n;
}

std::uint32_t TurnOrder::train_epoch_at(std::size_t i) const {
  std::uint32_t low = 0, high = epochs_;  // begin_of(low) <= i < begin_of(high)
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (begin_of(middle) <= i ? low : high) = middle;
  }
  return low;
}

Turn TurnOrder::operator[](std::size_t i) const {
  const std::uint32_t e = train_epoch_at(i);
  std::size_t left = i - begin_of(e);
  for (const Validation& v : validations_) {
    if (left == 0) break;
    if (is_due(v, e) && --left == 0) return {v.stream, done(v, e), e};
  }
  return {train_stream_, e, e};
}

std::uint32_t TurnOrder::epochs_before(int stream, std::size_t i) const {
  if (i >= size()) i = size();
  const std::uint32_t e = i == size() ? epochs_ : train_epoch_at(i);
  const std::size_t within = i - begin_of(e);  // turns of training epoch e that end before
  if (stream == train_stream_) return e + (within > 0 ? 1 : 0);
  std::size_t place = 1;
  for (const Validation& v : validations_) {
    const bool due = e < epochs_ && is_due(v, e);
    place += due ? 1 : 0;
    if (v.stream == stream) return done(v, e) + (due && place <= within ? 1 : 0);
  }
  return 0;
}

std::uint32_t TurnOrder::train_epoch(int stream, std::uint32_t epoch) const {
  for (const Validation& v : validations_)
    if (v.stream == stream)
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>((std::uint64_t{epoch} + 1) * v.every, epochs_) - 1);
  return epoch;
}

}  // namespace sluice
