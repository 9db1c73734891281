#include "tools/web/watch.h"

#include <algorithm>
#include <chrono>

#include "tools/runs/runs.h"

namespace sluice::web {

namespace fs = std::filesystem;

Watch::Watch(Places& places, Events& events)
    : places_(places), events_(events), thread_([this] { loop(); }) {}

Watch::~Watch() {
  done_ = true;
  thread_.join();
}

void Watch::known(const std::string& graph, const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  files_[graph] = sha256;
  written_.erase(graph);  // it may have been written since it was read: it is looked at once more
}

void Watch::expect(const std::string& run) {
  const std::lock_guard lock(mutex_);
  expected_.insert(run);
}

// All runs are looked at every four seconds, or less often where that takes more than one in a
// hundred of the time.
void Watch::loop() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next{};
  while (!done_) {
    for (int i = 0; i < 10 && !done_; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (done_ || !events_.heard()) continue;
    try {
      look_at_files();
      const auto begin = Clock::now();
      const bool all = begin >= next;
      look_at_runs(all);
      const auto end = Clock::now();
      if (all) next = end + std::max<Clock::duration>(std::chrono::seconds(4), 100 * (end - begin));
    } catch (const std::exception&) {  // a folder that is gone: the next look finds what is there
      continue;
    }
  }
}

// All of them now and then; those under way each time.
void Watch::look_at_runs(bool all) {
  Json rows = Json::array();
  if (all) {
    rows = places_.runs();
  } else {
    {
      const std::lock_guard lock(mutex_);
      running_.merge(expected_);
      expected_.clear();
    }
    for (const auto& id : running_) {
      Json row = runs::row(places_.run(id), places_.run_name(id));
      row["id"] = id;
      rows.push_back(std::move(row));
    }
  }
  bool changed = false;
  std::map<std::string, std::string> now = all ? std::map<std::string, std::string>{} : runs_;
  std::set<std::string> running;
  for (const Json& row : rows) {
    const std::string id = row["id"];
    const bool begins = !all && row["started"] == "";
    if (begins) running.insert(id);
    if (row["status"] == "running") {
      running.insert(id);
      events_.send("live", {{"run", id}, {"row", row}});
    }
    const std::string said =
        row["status"].get<std::string>() + row["title"].get<std::string>() + row["started"].dump();
    const auto before = runs_.find(id);
    changed |= before == runs_.end() || before->second != said;
    if (before != runs_.end() && before->second != said)
      events_.send("live", {{"run", id}, {"row", row}});
    now[id] = said;
  }
  changed |= all && now.size() != runs_.size();
  runs_ = std::move(now);
  running_ = std::move(running);
  if (changed) events_.send("runs", Json::object());
}

void Watch::look_at_files() {
  std::map<std::string, std::string> files;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
  }
  for (const auto& [id, digest] : files) try {
      std::error_code none;
      const std::string name = places_.graph(id);
      const auto time = fs::last_write_time(places_.root() / name, none);
      {
        const std::lock_guard lock(mutex_);
        if (written_[id] == time) continue;
        written_[id] = time;
      }
      const std::string now = sha256_of(places_.read(name));
      const std::lock_guard lock(mutex_);
      if (files_[id] == now) continue;
      files_[id] = now;
      events_.send("file", {{"graph", id}, {"sha256", now}});
    } catch (const Refusal&) {
      continue;
    }
}

}  // namespace sluice::web
