#include "tools/runtime/run/supervise.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/base/message.h"
#include "engine/base/seconds_since.h"
#include "engine/base/stop_signals.h"
#include "engine/group/world.h"
#include "engine/judge/reading_log.h"
#include "tools/runtime/run/progress.h"

namespace sluice {
namespace {

std::atomic<int> no_signal{0};
std::atomic<std::atomic<int>*> received{&no_signal};
std::atomic<bool> writes_checkpoint{false};  // the run that is on, at its end
std::atomic<bool> silent{false};
pid_t launcher = 0;  // 0: none, or a script that may end before its processes do
std::atomic<bool> launcher_is_missed{false};

// The first signal asks for a cut, which ends with a checkpoint; the second ends the process.
extern "C" void on_signal(int number) {
  if (received.load()->exchange(number) != 0) _exit(128 + number);
  if (silent || live::Console::drawing()) return;  // then another process, or the display says it
  const std::string_view text = stop_notice(writes_checkpoint);
  if (write(2, text.data(), text.size()) < 0) return;
}

// Readings along a run, and its end where that is to come by a signal or by the clock. A signal
// that came before there was anything to stop is obeyed as soon as there is.
class Watch {
 public:
  Watch(Session& session, double seconds, bool reads)
      : session_(session), seconds_(seconds), reads_(reads), thread_([this] { loop(); }) {}
  ~Watch() { end(); }

  Figures second_half() {
    end();
    if (log_.count() < 2) return session_.figures();
    return Figures::between(session_.plan(), session_.thread_counts(), log_.middle(), log_.last());
  }

 private:
  void end() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }

  static constexpr unsigned ticks_others = 10;

  void loop() {
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned tick = 0; !done_;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (reads_ && session_.running()) log_.add(session_.running()->readings());
      const double passed = seconds_since(begin);
      const bool over = seconds_ > 0 && passed >= seconds_;
      if (over || stopping()) session_.stop();
      if (++tick % ticks_others == 0) session_.stop_with_others();
      if (over && session_.running()) return;
    }
  }

  Session& session_;
  const double seconds_;
  const bool reads_;
  ReadingLog log_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// A launcher that was killed can tell its processes nothing any more.
void miss_launcher() {
  const bool is_left_alone = launcher != 0 && getppid() != launcher;
  if (is_left_alone && *received.load() == 0 && !launcher_is_missed.exchange(true))
    kill(getpid(), SIGTERM);
}

bool is_launched() {
  try {
    return find_world(own_variable, [](auto&) {}).launched;
  } catch (const Error&) {
    return false;  // what contradicts itself is said when the processes join
  }
}

}  // namespace

int signal_received() {
  miss_launcher();
  return *received.load();
}
bool stopping() { return signal_received() != 0; }

void obey(std::atomic<int>& signal, int parent) {
  received = &signal;
  if (is_launched()) launcher = parent;
  silent = !speaks_for_all();
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : stop_signals)
    if (!is_ignored(number)) sigaction(number, &action, nullptr);
}

Outcome run_for(Session& session, const Options& options, Figures* warm) {
  writes_checkpoint = session.ends_with_checkpoint();
  Watch watch(session, options.seconds, warm != nullptr);
  ProgressDisplay progress(session, options.quiet, stopping);
  const Outcome outcome = session.run();
  if (warm) *warm = watch.second_half();
  return outcome;
}

int finish(const Session& session, const Outcome& outcome) {
  if (outcome.status == Outcome::Status::failed) tell("error: " + outcome.failure.str());
  if (outcome.status == Outcome::Status::stalled)
    tell("error: stalled; who waits for what:\n" + outcome.stall);
  const int code = session.exit_code(outcome);
  const int signal = stopping() ? signal_received() : session.ended_by();
  return code == 0 && signal != 0 ? 128 + signal : code;
}

}  // namespace sluice
