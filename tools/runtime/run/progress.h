// What stderr shows while a run goes on: on a terminal a block of lines redrawn five times a
// second, elsewhere a plain line every ten seconds; nothing where it is to be quiet. Nothing ever
// goes to stdout. tools/live/ has the texts and the terminal, this gathers the numbers. The run's
// folder has them as live.json, quiet or not, anew once a second, until the run has ended.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "engine/session/process_use.h"
#include "tools/live/console.h"
#include "tools/live/pace.h"
#include "tools/live/rows.h"

namespace sluice {

class Session;

class ProgressDisplay {
 public:
  // `stopping`: a signal asked for the end.
  ProgressDisplay(const Session& session, bool quiet, std::function<bool()> stopping);
  ~ProgressDisplay();

 private:
  void loop();
  void measure();
  live::View view(live::Rows& rows, std::size_t most);
  void write_live();
  void plain_line();
  void tell_stop();

  const Session& session_;
  const std::function<bool()> stopping_;
  std::optional<live::Console> console_;
  live::Pace pace_;
  live::Rows rows_, all_rows_;
  std::filesystem::path live_;  // live.json; empty: nobody keeps one
  ProcessUse before_ = ProcessUse::now();
  Verdict verdict_;
  double judged_s_ = 0;
  bool told_stop_ = false;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace sluice
