#include "engine/run/station_times.h"

#include <atomic>

namespace sluice {

StationTimes::StationTimes(Scheduler& scheduler, Station& station, const Firing& firing)
    : BodyTimes(scheduler.position_in_run(station.index_)),
      scheduler_(scheduler),
      counters_(station.counters),
      firing_(firing),
      index_(station.index_) {
  if (position() < 0) return;
  run_ = &scheduler.plan_.runs[static_cast<std::size_t>(station.plan_.run)].nodes;
  for (std::size_t k = 0; k < of_.size() && k < run_->size(); ++k) of_[k] = 0;
}

int StationTimes::node_at(int position) const {
  const auto k = static_cast<std::size_t>(position);
  return position >= 0 && run_ && k < run_->size() && k < of_.size() ? (*run_)[k] : -1;
}

Counters* StationTimes::borrower(const Owners& owners) const {
  const int node = node_at(owners.first);
  return node < 0 || node == index_
             ? nullptr
             : &scheduler_.stations_[static_cast<std::size_t>(node)]->counters;
}

void StationTimes::pass_begins(const Owners& owners, std::int64_t now) {
  Counters* to = borrower(owners);
  if (!to) return;
  counters_.lent.begin(now);
  to->borrowed.begin(now);
}

void StationTimes::pass_ends(const Owners& owners, std::int64_t began, std::int64_t now) {
  const int node = node_at(owners.first);
  if (node < 0) return;
  if (Counters* to = borrower(owners)) {
    to->borrowed.end(now);
    counters_.lent.end(now);
  }
  Counters& booked = scheduler_.stations_[static_cast<std::size_t>(node)]->counters;
  std::atomic_ref(of_[static_cast<std::size_t>(owners.first)])
      .fetch_add(now - began, std::memory_order_relaxed);
  if (owners.several()) {
    booked.shared_ns.fetch_add(now - began, std::memory_order_relaxed);
    booked.with.fetch_or(owners.all, std::memory_order_relaxed);
  }
  if (node == index_ || !scheduler_.rings_.on()) return;
  Event e = event_of(firing_.stamp(), index_, began, now);
  e.kind = Event::Kind::pass;
  e.owner = node;
  scheduler_.rings_.record(e);
}

std::int64_t StationTimes::lent() const {
  std::int64_t sum = 0;
  for (int k = 0; node_at(k) >= 0; ++k)
    if (node_at(k) != index_) sum += of(k);
  return sum;
}

}  // namespace sluice
