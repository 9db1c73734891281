#include "tools/runtime/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "tools/runtime/session.h"

namespace sluice {

static double seconds() { return static_cast<double>(now_ns()) * 1e-9; }

static std::string duration(double s) {
  const auto t = static_cast<long>(s + 0.5);
  if (t < 60) return fmt::format("{} s", t);
  if (t < 3600) return fmt::format("{} min {:02d} s", t / 60, t % 60);
  return fmt::format("{} h {:02d} min", t / 3600, t / 60 % 60);
}

static std::string bar(double share, int width) {
  std::string s;
  for (int i = 0; i < width; ++i) s += i < share * width ? "━" : "─";
  return s;
}

ProgressDisplay::ProgressDisplay(const Session& session, bool quiet) : session_(session) {
  begin_ = seconds();
  if (!quiet) thread_ = std::thread([this] { loop(); });
}

ProgressDisplay::~ProgressDisplay() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
}

void ProgressDisplay::loop() {
  const bool terminal = isatty(2);
  const int ticks = terminal ? 2 : 100;  // of 0.1 s
  for (int i = 1; !done_; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (i % ticks == 0 && !done_) line(terminal);
  }
  if (terminal) std::fputs("\r\033[K", stderr);
}

void ProgressDisplay::line(bool terminal) {
  const Progress p = session_.progress();
  const double wall = seconds() - begin_;
  std::string text = fmt::format("epoch {}/{}", p.epoch + 1, p.epochs);
  if (terminal) text += fmt::format("  {}  {:3.0f}%", bar(p.share, 20), 100 * p.share);
  text += fmt::format("  {:.1f} samples/s", static_cast<double>(p.samples) / wall);
  if (p.loss) text += fmt::format("  loss {:.4f}", *p.loss);
  if (p.metric_value) text += fmt::format("  {} {:.4f}", p.metric, *p.metric_value);
  if (p.bad) text += fmt::format("  bad {}", p.bad);
  if (p.share > 0.01) text += fmt::format("  eta {}", duration(wall / p.share - wall));
  if (terminal) {
    fmt::print(stderr, "\r\033[K{}", text);
  } else {
    char stamp[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(stamp, sizeof stamp, "%FT%TZ", std::gmtime(&now));
    fmt::print(stderr, "{}  {}\n", stamp, text);
  }
  std::fflush(stderr);
}

}  // namespace sluice
