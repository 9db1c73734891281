// Progress on stderr: on a terminal one line redrawn five times a second, otherwise a plain line
// every ten seconds. Nothing ever goes to stdout.
#pragma once

#include <atomic>
#include <thread>

namespace sluice {

class Session;

class ProgressDisplay {
 public:
  ProgressDisplay(const Session& session, bool quiet);
  ~ProgressDisplay();

 private:
  void loop();
  void line(bool terminal);
  const Session& session_;
  std::atomic<bool> done_{false};
  double begin_ = 0;
  std::thread thread_;
};

}  // namespace sluice
