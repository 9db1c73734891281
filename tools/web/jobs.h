// Commands that a page starts: children of their own sessions, which go on when the server ends.
//
// Invariant: of stderr the last 1 MB is kept, of stdout 16 MB; at most four work at once, and the
// last 50 are remembered. stop() is SIGINT, after which a run writes its checkpoint; who has not
// ended 30 s later gets SIGTERM.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/json.h"

namespace sluice::web {

struct Job {
  std::string id, kind, title, run;  // run: its id, of those that make one
  std::string extra;                 // a file that it writes and that is told with its result
  std::string graph, before;         // advise: the graph's id, and its text when that began
  std::string out, err;
  bool ended = false, cut_short = false;
  int code = 0;
  pid_t pid = 0;
  std::optional<std::chrono::steady_clock::time_point> stopped;
  std::thread reader;  // of `out` and `err`
};

class Jobs {
 public:
  static constexpr std::size_t most = 4, remembered = 50;
  // `changed` is called with what to_json() says, from the job's thread.
  explicit Jobs(std::function<void(const Json&)> changed) : changed_(std::move(changed)) {}
  ~Jobs();

  // Throws a Refusal: 429 where four work already.
  std::string start(Job job, std::vector<std::string> words);
  void stop(const std::string& id);
  Json to_json(const std::string& id, bool whole) const;
  Json all() const;

 private:
  // "9" before "10".
  struct ByNumber {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
  };

  void forget();
  void attend(Job& job, int out, int err);
  Json told(const Job& job, bool whole) const;

  const std::function<void(const Json&)> changed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Job>, ByNumber> jobs_;
  bool leaving_ = false;
  int next_ = 1;
};

// Runs the binary and waits: its exit code; `err` gets what it said.
int run_and_wait(const std::vector<std::string>& words, std::string& err);

}  // namespace sluice::web
