// Looks once a second at what may have changed on disk while a page listens, and says so: live
// figures and metrics of runs, whoever started them; new runs; graph files that another editor
// wrote.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "tools/web/events.h"
#include "tools/web/places.h"

namespace sluice::web {

class Watch {
 public:
  Watch(Places& places, Events& events);
  ~Watch();
  // A page has this text; what it wrote itself is no news.
  void known(const std::string& graph, const std::string& sha256);
  void expect(const std::string& run);  // it begins at any moment

 private:
  void loop();
  void look_at_runs(bool all);
  void look_at_files();

  Places& places_;
  Events& events_;
  std::mutex mutex_;
  std::map<std::string, std::string> files_;  // graph id -> digest
  std::map<std::string, std::filesystem::file_time_type> written_;
  std::map<std::string, std::string> runs_;  // run id -> what was said of it
  std::set<std::string> running_, expected_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace sluice::web
