// How long nothing has moved: the watchdog's clock. Time in which a thread of this process was
// ready to run and got no processor does not count, so a run on a machine that has none to spare is
// slow and not stalled.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace sluice {

class Standstill {
 public:
  // To be asked now and then, with a number that any progress changes: whether there was none for
  // more than `limit_s` seconds. Then it begins anew.
  bool longer_than(double limit_s, std::uint64_t progress);
  void restart();

 private:
  using Clock = std::chrono::steady_clock;
  using Waits = std::map<int, std::uint64_t>;  // ns that a thread waited for a processor, by its id
  static Waits waits();
  double starved_s() const;  // the thread that waited most, since `before_`

  std::uint64_t progress_ = 0;
  Clock::time_point since_ = Clock::now();
  std::optional<Waits> before_;
  double late_s_ = 0, not_before_s_ = 0;  // until then it need not look again
};

}  // namespace sluice
