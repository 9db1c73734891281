// The signals that ask a run for its end, and what is said when the first one comes.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <string_view>

namespace sluice {

constexpr std::initializer_list<int> stop_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// Begins a line of its own. `checkpoint`: one is written before the end.
constexpr std::string_view stop_notice(bool checkpoint) {
  return checkpoint ? "\nstopping: finishing the step, writing a checkpoint (again: at once)\n"
                    : "\nstopping: finishing what has begun (again: at once)\n";
}

// nohup ignores SIGHUP, and means it. SIGINT counts all the same: shells ignore it for what they
// start with `&`, which `kill -INT` is to end.
inline bool is_ignored(int number) {
  struct sigaction now {};
  return number == SIGHUP && sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace sluice
