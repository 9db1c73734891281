// The run folder: graph.json (resolved), graph.dot, environment.json, metrics.jsonl,
// quarantine.jsonl, sessions.jsonl (the processes that worked on it), timeline.json, summary.json,
// profile.json, checkpoints/, and what output nodes write.
//
// Invariant: whole files are replaced by rename; the .jsonl files only grow by whole lines. Nothing
// that stands in it is of an older run than the one that goes on in it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>

#include "engine/graph/spec.h"

namespace sluice {

class RunFolder {
 public:
  // Throws IoError where the folder cannot be made or written to. `metrics_bytes` >= 0 cuts
  // metrics.jsonl back to what it was at the checkpoint that a resumed run goes on from; else the
  // run is a new one and what an older one left is removed.
  RunFolder(std::filesystem::path folder, std::int64_t metrics_bytes);
  ~RunFolder();

  void write(const std::string& name, const std::string& text);  // atomic
  void metric_line(const Json& line);
  void quarantine_line(const Json& line);
  void session_line(const Json& line);
  std::int64_t metrics_bytes() const;
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }

 private:
  void append(std::FILE*& file, const char* name, const Json& line);
  const std::filesystem::path folder_;
  mutable std::mutex mutex_;
  std::FILE* metrics_ = nullptr;
  std::FILE* quarantine_ = nullptr;
  std::FILE* sessions_ = nullptr;
};

}  // namespace sluice
