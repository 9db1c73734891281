#include "tools/runtime/run/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

#include "engine/base/machine.h"
#include "engine/base/stop_signals.h"
#include "engine/session/session.h"
#include "tools/live/live_file.h"
#include "tools/runs/files.h"

namespace sluice {

namespace {
constexpr int ticks_block = 2, ticks_live = 10, ticks_line = 100;  // of 0.1 s
constexpr double busy_window_s = 5, verdict_window_s = 15, verdict_from_s = 3;
constexpr std::size_t most_rows = 8;
}  // namespace

ProgressDisplay::ProgressDisplay(const Session& session, bool quiet, std::function<bool()> stopping)
    : session_(session),
      stopping_(std::move(stopping)),
      pace_(session.plan(), session.thread_counts(), session.epoch_sizes()),
      rows_(session.plan()),
      all_rows_(session.plan()) {
  if (!session.out_dir().empty() && session.ranks().world.rank == 0)
    live_ = session.out_dir() / "live.json";
  std::error_code ignored;
  if (!live_.empty()) std::filesystem::remove(live_, ignored);  // a killed process's
  if (!quiet) console_.emplace();
  if (quiet && live_.empty()) return;
  thread_ = std::thread([this] { loop(); });
}

ProgressDisplay::~ProgressDisplay() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  if (!live_.empty()) std::filesystem::remove(live_, ignored);
}

void ProgressDisplay::loop() {
  const bool block = console_ && console_->redraws();
  for (int tick = 1; !done_; ++tick) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (done_) break;
    tell_stop();
    if (tick % ticks_block == 0) measure();
    if (block && tick % ticks_block == 0)
      console_->draw(live::block(view(rows_, most_rows), console_->style()));
    else if (console_ && !block && tick % ticks_line == 0)
      plain_line();
    if (!live_.empty() && tick % ticks_live == 0 && session_.running()) write_live();
  }
  tell_stop();
  if (console_) console_->clear();
}

// Instead of the signal's handler, which must not write into the block.
void ProgressDisplay::tell_stop() {
  if (told_stop_ || !console_ || !console_->redraws() || !stopping_()) return;
  told_stop_ = true;
  console_->say(stop_notice(session_.ends_with_checkpoint()).substr(1));
}

void ProgressDisplay::measure() {
  const Scheduler* scheduler = session_.running();
  if (!scheduler) return;
  pace_.add(scheduler->readings(), scheduler->turn());
  const double now = pace_.seconds();
  if (now < verdict_from_s || now - judged_s_ < 1) return;
  judged_s_ = now;
  verdict_ = judge(session_.plan(), pace_.recent(verdict_window_s));
}

live::View ProgressDisplay::view(live::Rows& rows, std::size_t most) {
  const Progress p = session_.progress();
  live::View v;
  v.epoch = pace_.epoch() + 1;
  v.epochs = p.epochs;
  v.validating = pace_.validating();
  v.steps = p.steps;
  v.bad = p.bad;
  v.share = pace_.share();
  v.rate = pace_.rate();
  v.loss = p.loss;
  v.metric = p.metric;
  v.metric_last = p.metric_last;
  v.metric_best = p.metric_best;
  v.metric_mode = p.metric_mode;
  v.eta_s = pace_.eta_s();
  if (verdict_.node >= 0)
    v.bottleneck = session_.plan().nodes[static_cast<std::size_t>(verdict_.node)].path();
  v.advice = verdict_.advice;
  v.rows = rows.pick(pace_.recent(busy_window_s), verdict_, most);
  if (stopping_()) {
    v.state = "stopping";
    v.eta_s.reset();
  }
  return v;
}

// A disk that is full, or a folder that is gone, ends no run for this.
void ProgressDisplay::write_live() {
  const ProcessUse now = ProcessUse::now();
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  const Json process = {
      {"pid", ::getpid()},
      {"host", host_name()},
      {"wall_s", pace_.seconds()},
      {"rss_mb", static_cast<double>(resident * ::sysconf(_SC_PAGESIZE)) / 1e6},
      {"cores", (now.cpu_s - before_.cpu_s) / std::max(now.at_s - before_.at_s, 1e-3)}};
  before_ = now;
  try {
    runs::write_whole(live_,
                      live::live_text(view(all_rows_, session_.plan().nodes.size()), process));
  } catch (const Error&) {
    return;
  }
}

void ProgressDisplay::plain_line() {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(stamp, sizeof stamp, "%FT%TZ", gmtime_r(&now, &utc));
  console_->say(live::plain_line(view(rows_, most_rows), stamp) + "\n");
}

}  // namespace sluice
