// Where the time of one body of a Station goes: to its own node, and to those of its run whose work
// it does.
#pragma once

#include <array>

#include "engine/base/borrowed_time.h"
#include "engine/run/station.h"

namespace sluice {

class StationTimes final : public BodyTimes {
 public:
  StationTimes(Scheduler& scheduler, Station& station, const Firing& firing);
  void help_begins(std::int64_t now) override { counters_.helped.begin(now); }
  void help_ends(std::int64_t now) override { counters_.helped.end(now); }
  void pass_begins(const Owners& owners, std::int64_t now) override;
  void pass_ends(const Owners& owners, std::int64_t began, std::int64_t now) override;

  // In the run; -1 beyond it.
  int node_at(int position) const;
  // How long this body worked for a node of the run: of each of its `members`, if it has several.
  std::int64_t of(int position) const { return of_[static_cast<std::size_t>(position)]; }
  // How long for other nodes than its own.
  std::int64_t lent() const;

 private:
  Counters* borrower(const Owners& owners) const;  // null: its own node

  Scheduler& scheduler_;
  Counters& counters_;
  const Firing& firing_;
  const std::vector<int>* run_ = nullptr;
  const int index_;
  std::array<std::int64_t, Owners::most> of_;  // by position; as far as the run goes
};

}  // namespace sluice
