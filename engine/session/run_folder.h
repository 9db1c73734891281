// The run folder: run.json (whose run it is), graph.json (resolved), graph.dot, environment.json,
// metrics.jsonl, quarantine.jsonl, sessions.jsonl (the processes that worked on it), timeline.json,
// summary.json, profile.json, ranks/N/ (profile and trace of another process of the run),
// checkpoints/, cases/ (metrics of each case), and what output nodes
// write; live.json while it runs.
//
// Invariants: whole files are replaced by rename; the .jsonl files only grow by whole lines. One
// process works in it, which holds `.lock` locked. Nothing of an older run is taken for this one's:
// run.json names the new run before anything of the older one is removed, and a checkpoint counts
// only with the same id. A run whose folder is taken from it ends, and leaves what is there alone.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

class File;  // engine/base/durable_file.h

// run.json. A folder of an earlier version has none: then the id is "", as in its checkpoints. One
// that cannot be read is an IoError: with no id every checkpoint would be another run's, and go.
struct RunId {
  std::string id;                   // random, 128 bits
  std::string graph_sha256;         // of graph.json as the run has it
  std::vector<std::string> graphs;  // the files it was made from
  int step_threads = 0;             // the weights' bits depend on it
};
RunId read_run_id(const std::filesystem::path& folder);
std::string new_run_id();

// Whether a run left anything there that another would have to replace.
bool holds_run(const std::filesystem::path& folder);
bool holds_checkpoint(const std::filesystem::path& folder);  // of any run

class RunFolder {
 public:
  enum class Use {
    fresh,      // the folder must be free
    overwrite,  // begin() removes what another run left there
    resume,     // goes on with the run that is there
  };
  // Makes the folder, but for a resume, and locks it. Throws Error(usage) where it is not free or
  // where another process works in it, IoError where it cannot be made or written to.
  RunFolder(std::filesystem::path folder, Use use);
  // The first free one of BASE-1, BASE-2, ...
  static std::unique_ptr<RunFolder> numbered(const std::string& base);
  // Removes a folder that it made itself and in which no run began.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  struct Lengths {
    std::int64_t metrics = 0, quarantine = 0;  // bytes of these .jsonl files
  };
  // Says whose folder it is from here on, and opens its files. `lengths`: what they were at the
  // checkpoint that a resumed run goes on from, to which they are cut back; without, the run is at
  // its beginning, and what an older one left is removed.
  void begin(const RunId& run, const std::optional<Lengths>& lengths);

  void write(const std::string& name, const std::string& text);  // atomic
  void metric_line(const Json& line);
  // But where it stands there already: data threads run ahead of a checkpoint, and a resumed run
  // meets these samples again.
  void quarantine_line(const Json& line);
  void session_line(const Json& line);
  Lengths lengths() const;
  // Since begin(): what was taken away that the run cannot do without, or the lock, without which
  // another process may work here; "": nothing. Then nothing more is to be kept there.
  std::string taken() const;
  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }

 private:
  void lock();
  void cut_back_to(const Lengths& lengths);
  void append(std::unique_ptr<File>& file, const char* name, const std::string& line);
  const std::filesystem::path folder_;
  const Use use_;
  bool made_ = false, begun_ = false;
  int lock_ = -1;
  mutable std::mutex mutex_;
  std::unique_ptr<File> metrics_, quarantine_, sessions_;
  std::set<std::string> quarantined_before_;  // lines, of a run that was resumed
};

}  // namespace sluice
