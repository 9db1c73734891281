#include "engine/run/standstill.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/seconds_since.h"

namespace sluice {

namespace fs = std::filesystem;

void Standstill::restart() {
  since_ = Clock::now();
  before_.reset();
  not_before_s_ = 0;
}

// Of a system that does not say it nothing is known to have waited.
Standstill::Waits Standstill::waits() {
  Waits all;
  std::error_code none;
  for (fs::directory_iterator thread("/proc/self/task", none), end; thread != end;
       thread.increment(none)) {
    std::uint64_t ran = 0, waited = 0;
    std::ifstream(thread->path() / "schedstat") >> ran >> waited;
    all[std::atoi(thread->path().filename().c_str())] = waited;
  }
  return all;
}

double Standstill::starved_s() const {
  std::uint64_t most = 0;
  for (const auto& [thread, waited] : waits()) {
    const auto was = before_->find(thread);
    const std::uint64_t until_then = was == before_->end() ? 0 : was->second;
    most = std::max(most, std::max(waited, until_then) - until_then);
  }
  return 1e-9 * static_cast<double>(most);
}

bool Standstill::longer_than(double limit_s, std::uint64_t progress) {
  if (progress != progress_) restart();
  progress_ = progress;
  const double passed = seconds_since(since_);
  // Looking at threads is work, so it begins when there is a reason to. Where whoever asks was kept
  // from asking until long after that, the others may have been too.
  const double look_s = std::min(1.0, limit_s / 4);
  if (!before_ && passed >= look_s) {
    before_ = waits();
    late_s_ = passed - look_s;
  }
  if (passed <= std::max(limit_s, not_before_s_)) return false;
  not_before_s_ = limit_s + late_s_ + starved_s();
  if (passed <= not_before_s_) return false;
  restart();
  return true;
}

}  // namespace sluice
