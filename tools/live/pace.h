// How far a run is, how quick, and how long it still takes, from readings of its counters taken
// now and then.
//
// Invariant: rates are of the last seconds and of the time only in which the stream had its turn,
// so validation does not make training look slow; nothing is said before there is something to
// say it from. Pure: the readings carry the time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/judge/figures.h"

namespace sluice::live {

class Pace {
 public:
  // `epoch_sizes`: samples an epoch of each stream's source, where it knows.
  Pace(const Plan& plan, Threads threads, std::vector<std::optional<std::uint64_t>> epoch_sizes);

  // Times do not run backwards. `turn`: who holds the networks.
  void add(std::vector<Reading> now, std::optional<Turn> turn);

  int stream() const { return stream_; }  // the one whose turn it is, or the pace stream
  std::uint64_t epoch() const;            // of training, from 0
  bool validating() const;
  std::optional<double> share() const;   // of that stream's epoch
  std::optional<double> rate() const;    // samples of its source a second
  std::optional<double> eta_s() const;   // of the whole run
  Figures recent(double seconds) const;  // of about the last so many seconds
  double seconds() const;                // since the first reading

 private:
  // One stream's clock, which runs while it has its turn, and what it has done.
  struct Track {
    double active_s = 0, samples = 0;
  };
  struct Moment {
    std::vector<Reading> readings;
    std::vector<Track> tracks;  // by stream
  };
  double samples_done(const std::vector<Reading>& at, int stream) const;
  std::optional<double> rate_of(int stream) const;
  std::optional<double> epoch_samples(int stream) const;
  double epochs_left(int stream) const;
  bool has_too_old() const;

  const Plan& plan_;
  const Threads threads_;
  const std::vector<std::optional<std::uint64_t>> sizes_;
  std::vector<int> ends_;                     // by stream: its last node
  std::vector<double> each_;                  // by stream: samples a packet at that node; 0: varies
  std::vector<std::optional<double>> known_;  // by stream: its rate when it last had its turn
  std::deque<Moment> past_;  // about one a second, the newest last; of a minute, or some packets
  std::optional<Turn> turn_;
  int stream_ = 0;
  std::int64_t first_ns_ = 0;
};

}  // namespace sluice::live
