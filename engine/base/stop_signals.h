// The signals that ask a run for its end.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace sluice {

constexpr std::initializer_list<int> stop_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// nohup ignores SIGHUP, and means it. SIGINT counts all the same: shells ignore it for what they
// start with `&`, which `kill -INT` is to end.
inline bool is_ignored(int number) {
  struct sigaction now {};
  return number == SIGHUP && sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace sluice
