#include "tools/live/pace.h"

#include <algorithm>
#include <cmath>

namespace sluice::live {

namespace {
constexpr double kept_s = 60, spacing_s = 1;
constexpr double few = 4, kept_for_few_s = 900;  // packets; where no more come, more is kept
constexpr double window_s = 5;   // of rates, and longer where fewer packets than this come:
constexpr double enough = 10;    // packets
constexpr double settled_s = 2;  // before that a rate is noise

double at_s(const std::vector<Reading>& r) {
  return r.empty() ? 0 : static_cast<double>(r.front().at_ns) * 1e-9;
}
std::size_t index(int i) { return static_cast<std::size_t>(i); }
}  // namespace

Pace::Pace(const Plan& plan, Threads threads, std::vector<std::optional<std::uint64_t>> epoch_sizes)
    : plan_(plan),
      threads_(threads),
      sizes_(std::move(epoch_sizes)),
      known_(plan.streams.size()),
      stream_(pace_stream(plan)) {
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    ends_.push_back(pace_node(plan, static_cast<int>(s)));
    each_.push_back(ends_.back() < 0 ? 0 : samples_each(plan, ends_.back()));
  }
}

// Where one packet at the end stands for a varying number of samples, the source's are counted.
double Pace::samples_done(const std::vector<Reading>& at, int stream) const {
  const bool varies = each_[index(stream)] <= 0;
  const Reading& r = at[index(varies ? plan_.streams[index(stream)].source : ends_[index(stream)])];
  return static_cast<double>(r.fired + r.passed + r.skipped) * (varies ? 1 : each_[index(stream)]);
}

void Pace::add(std::vector<Reading> now, std::optional<Turn> turn) {
  if (now.size() != plan_.nodes.size() || now.empty()) return;
  Moment m{std::move(now), std::vector<Track>(plan_.streams.size())};
  if (past_.empty()) first_ns_ = m.readings.front().at_ns;
  for (std::size_t s = 0; s < plan_.streams.size(); ++s) {
    Track& t = m.tracks[s];
    t.samples = samples_done(m.readings, static_cast<int>(s));
    if (past_.empty()) continue;
    const bool active =
        !plan_.streams[s].takes_turns || !turn_ || turn_->stream == static_cast<int>(s);
    t.active_s = past_.back().tracks[s].active_s +
                 (active ? at_s(m.readings) - at_s(past_.back().readings) : 0);
  }
  turn_ = turn;
  stream_ = turn ? turn->stream : pace_stream(plan_);
  // The newest replaces the one before it unless that one is to be kept.
  if (past_.size() >= 2 &&
      at_s(past_.back().readings) - at_s(past_[past_.size() - 2].readings) < spacing_s)
    past_.pop_back();
  past_.push_back(std::move(m));
  while (has_too_old()) past_.pop_front();
  for (std::size_t s = 0; s < known_.size(); ++s)
    if (const auto rate = rate_of(static_cast<int>(s))) known_[s] = rate;
}

bool Pace::has_too_old() const {
  const double age = at_s(past_.back().readings) - at_s(past_.front().readings);
  if (age <= kept_s || age > kept_for_few_s) return age > kept_s;
  const double came =
      past_.back().tracks[index(stream_)].samples - past_[1].tracks[index(stream_)].samples;
  return came >= few * each_[index(stream_)];
}

double Pace::seconds() const {
  return past_.empty()
             ? 0
             : static_cast<double>(past_.back().readings.front().at_ns - first_ns_) * 1e-9;
}

bool Pace::validating() const { return turn_ && !plan_.streams[index(stream_)].trains; }

std::uint64_t Pace::epoch() const {
  if (turn_) return turn_->train_epoch;
  if (past_.empty() || ends_[index(stream_)] < 0) return 0;
  const auto last = std::max<std::int64_t>(plan_.streams[index(stream_)].epochs - 1, 0);
  return std::min<std::uint64_t>(past_.back().readings[index(ends_[index(stream_)])].epoch,
                                 static_cast<std::uint64_t>(last));
}

// ---- how far ------------------------------------------------------------------------------------

// Samples an epoch: as many as the last one had at the stream's end, else what the source says.
std::optional<double> Pace::epoch_samples(int stream) const {
  const double each = each_[index(stream)];
  const int node = each > 0 ? ends_[index(stream)] : plan_.streams[index(stream)].source;
  const Reading& r = past_.back().readings[index(node)];
  if (r.epoch_size > 0) return static_cast<double>(r.epoch_size) * (each > 0 ? each : 1);
  if (index(stream) < sizes_.size() && sizes_[index(stream)].value_or(0) > 0)
    return static_cast<double>(*sizes_[index(stream)]);
  return std::nullopt;
}

std::optional<double> Pace::share() const {
  if (past_.empty() || ends_[index(stream_)] < 0) return std::nullopt;
  const auto all = epoch_samples(stream_);
  if (!all) return std::nullopt;
  const double each = each_[index(stream_)];
  const int node = each > 0 ? ends_[index(stream_)] : plan_.streams[index(stream_)].source;
  const Reading& r = past_.back().readings[index(node)];
  const std::uint64_t now = turn_ ? turn_->epoch : epoch();
  if (r.epoch != now) return r.epoch > now ? 1.0 : 0.0;
  return std::min(1.0, static_cast<double>(r.epoch_done) * (each > 0 ? each : 1) / *all);
}

// ---- how quick ----------------------------------------------------------------------------------

std::optional<double> Pace::rate_of(int stream) const {
  if (past_.size() < 2) return std::nullopt;
  const Track& now = past_.back().tracks[index(stream)];
  const double packet = std::max(each_[index(stream)], 1e-9);
  for (auto it = past_.rbegin() + 1; it != past_.rend(); ++it) {
    const Track& then = it->tracks[index(stream)];
    const double s = now.active_s - then.active_s, n = now.samples - then.samples;
    const bool oldest = it + 1 == past_.rend();
    if (!oldest && (s < window_s || n < enough * packet)) continue;
    if (s < std::min(settled_s, 0.5 * window_s) || n < 2 * packet) return std::nullopt;
    return n / s;
  }
  return std::nullopt;
}

std::optional<double> Pace::rate() const { return rate_of(stream_); }

// ---- how long still -----------------------------------------------------------------------------

double Pace::epochs_left(int stream) const {
  const PlanStream& s = plan_.streams[index(stream)];
  const Reading& r = past_.back().readings[index(std::max(ends_[index(stream)], 0))];
  double left = static_cast<double>(s.epochs) - r.epoch;
  if (stream == stream_) left -= share().value_or(0);
  return std::max(left, 0.0);
}

// Streams that take turns one after the other, beside them those that run freely.
std::optional<double> Pace::eta_s() const {
  if (past_.empty() || !share()) return std::nullopt;
  double turns = 0, free = 0;
  for (int s = 0; s < static_cast<int>(plan_.streams.size()); ++s) {
    const bool in_turn = plan_.streams[index(s)].takes_turns;
    const double left = ends_[index(s)] < 0 ? 0 : epochs_left(s);
    if (left <= 0) continue;
    auto rate = known_[index(s)];
    // A validation that has not been yet is taken to be as quick as training.
    if (!rate && in_turn) rate = known_[index(stream_)];
    const auto all = epoch_samples(s);
    if (!rate || *rate <= 0 || !all) {
      if (s == stream_) return std::nullopt;
      continue;
    }
    const double time = left * *all / *rate;
    if (in_turn)
      turns += time;
    else
      free = std::max(free, time);
  }
  return std::max(turns, free);
}

Figures Pace::recent(double seconds) const {
  if (past_.size() < 2) return {};
  const Moment& now = past_.back();
  const Moment* then = &past_.front();
  for (const Moment& m : past_) {
    if (at_s(now.readings) - at_s(m.readings) < seconds) break;
    then = &m;
  }
  return Figures::between(plan_, threads_, then->readings, now.readings);
}

}  // namespace sluice::live
