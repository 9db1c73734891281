// The fixed order of turns: training epoch 0, the validations that are due after it, training epoch
// 1, ... After the last epoch every validation is due.
//
//   every: 1, 2    train 0 | a 0 | train 1 | a 1 | b 0 | train 2 | a 2 | b 1
//
// Invariant: each turn is computed when it is asked for, so a run of a billion epochs takes as much
// memory as one of ten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// One holding of the networks: a stream's epoch.
struct Turn {
  int stream = -1;
  std::uint32_t epoch = 0;        // ordinal within that stream
  std::uint32_t train_epoch = 0;  // the training epoch it is or follows
  friend bool operator==(const Turn&, const Turn&) = default;
};

class TurnOrder {
 public:
  struct Validation {
    int stream;
    std::uint32_t every;  // training epochs
  };
  TurnOrder(int train_stream, std::uint32_t epochs, std::vector<Validation> validations);

  std::size_t size() const { return begin_of(epochs_); }
  Turn operator[](std::size_t i) const;
  // How many epochs of a stream end before turn `i`.
  std::uint32_t epochs_before(int stream, std::size_t i) const;
  // The training epoch that a stream's epoch is or follows.
  std::uint32_t train_epoch(int stream, std::uint32_t epoch) const;

 private:
  std::size_t begin_of(std::uint32_t train_epoch) const;  // the number of its first turn
  std::uint32_t train_epoch_at(std::size_t i) const;      // of turn `i`
  bool is_due(const Validation& v, std::uint32_t train_epoch) const;
  // How many of its epochs end before training epoch `e` begins.
  std::uint32_t done(const Validation& v, std::uint32_t e) const;

  int train_stream_;
  std::uint32_t epochs_;
  std::vector<Validation> validations_;
};

}  // namespace sluice
