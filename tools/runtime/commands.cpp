// `sluice run` and `sluice profile`.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <thread>

#include "tools/runtime/progress.h"
#include "tools/runtime/session.h"

namespace sluice {

namespace {

std::atomic<Session*> running{nullptr};
std::atomic<int> received{0};

// The first signal asks for a cut, which ends with a checkpoint; the second ends the process.
extern "C" void on_signal(int number) {
  if (received.exchange(number) != 0) _exit(128 + number);
  static const char text[] =
      "\nstopping: finishing the step, writing a checkpoint (again: at once)\n";
  // Where a block is on the screen the display says it.
  if (!live::Console::drawing() && write(2, text, sizeof text - 1) < 0) return;
  if (Session* s = running.load()) s->stop();
}

struct Signals {
  explicit Signals(Session* s) {
    running = s;
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
  }
  ~Signals() { running = nullptr; }
};

bool stopping() { return received != 0; }

int finish(const Session& session, const Outcome& outcome) {
  if (outcome.status == Outcome::Status::failed)
    std::cerr << "error: " << outcome.failure.str() << "\n";
  if (outcome.status == Outcome::Status::stalled)
    std::cerr << "error: stalled; who waits for what:\n" << outcome.stall;
  const int code = session.exit_code(outcome);
  if (code == 0 && received != 0) return 128 + received;
  return code;
}

void print_result(const Session& session, const Outcome& outcome, const Options& options) {
  const Json summary = session.summary(outcome);
  if (options.json) {
    std::cout << summary.dump(2) << "\n";
    return;
  }
  if (options.quiet) return;
  fmt::print("{}: {} epochs, {} steps, {:.1f} s\n", summary["status"].get<std::string>(),
             summary["epochs"].get<int>(), summary["steps"].get<std::uint64_t>(),
             summary["wall_s"].get<double>());
  for (const auto& [name, m] : summary["metrics"].items())
    if (!m["last"].is_null())
      fmt::print("  {:<28} {:.4f}   best {:.4f} (epoch {})\n", name, m["last"].get<double>(),
                 m["best"].get<double>(), m["best_epoch"].get<int>() + 1);
  fmt::print("  samples:");
  for (const auto& [name, n] : summary["samples"].items())
    if (n != 0) fmt::print(" {} {}", n.get<std::uint64_t>(), name);
  fmt::print("\n");
  if (!session.out_dir().empty()) fmt::print("  results in {}\n", session.out_dir().string());
}

void print_table(const Json& profile) {
  std::vector<std::pair<std::string, Json>> rows;
  for (const auto& [name, j] : profile["nodes"].items()) rows.emplace_back(name, j);
  std::size_t width = 4;
  for (const auto& [name, j] : rows) width = std::max(width, name.size());
  fmt::print("{:<{}}  {:>8} {:>8} {:>10} {:>6} {:>8} {:>8} {:>9} {:>9} {:>6}\n", "node", width,
             "fired", "passed", "rate/s", "busy", "starved", "blocked", "p50 ms", "p99 ms",
             "queue");
  const auto percent = [](const Json& j) { return fmt::format("{:.0f}%", 100 * j.get<double>()); };
  for (const auto& [name, j] : rows)
    fmt::print("{:<{}}  {:>8} {:>8} {:>10.1f} {:>6} {:>8} {:>8} {:>9.3f} {:>9.3f} {:>6}\n", name,
               width, j["items"].get<std::uint64_t>(), j["passed"].get<std::uint64_t>(),
               j["rate"].get<double>(), percent(j["busy"]), percent(j["starved"]),
               percent(j["blocked"]), j["p50_ms"].get<double>(), j["p99_ms"].get<double>(),
               j["queue_max"].get<std::uint64_t>());
  if (const std::string verdict = profile["verdict"]; !verdict.empty())
    fmt::print("\n{}\n", verdict);
}

}  // namespace

int run_command(const Options& options) {
  auto session = Session::open(options);
  if (!session) return static_cast<int>(Exit::usage);
  Outcome outcome;
  {
    Signals signals(session.get());
    ProgressDisplay progress(*session, options.quiet, stopping);
    outcome = session->run();
  }
  print_result(*session, outcome, options);
  return finish(*session, outcome);
}

int profile_command(const Options& options) {
  auto session = Session::open(options);
  if (!session) return static_cast<int>(Exit::usage);
  std::atomic<bool> done{false};
  std::thread timer([&] {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
    while (!done && options.seconds > 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!done && options.seconds > 0) session->stop();
  });
  Outcome outcome;
  {
    Signals signals(session.get());
    ProgressDisplay progress(*session, options.quiet, stopping);
    outcome = session->run();
  }
  done = true;
  timer.join();
  const Json profile = session->profile();
  if (options.json)
    std::cout << profile.dump(2) << "\n";
  else
    print_table(profile);
  return finish(*session, outcome);
}

}  // namespace sluice
