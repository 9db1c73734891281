#include "engine/session/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "engine/base/durable_file.h"
#include "engine/base/error.h"
#include "engine/base/shell_word.h"
#include "engine/base/system_call.h"
#include "engine/base/warnings.h"

namespace sluice {

namespace fs = std::filesystem;

[[noreturn]] static void fail(const fs::path& path, const char* what) {
  fail_call(path.string() + ": " + what, errno);
}

// ---- whose run it is ----------------------------------------------------------------------------

static bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

RunId read_run_id(const fs::path& folder) {
  const fs::path file = folder / "run.json";
  RunId run;
  if (!is_file(file)) return run;
  try {
    const Json j = Json::parse(read_text(file));
    run.id = j.value("id", "");
    run.graph_sha256 = j.value("graph_sha256", "");
    run.graphs = j.value("graphs", run.graphs);
    run.step_threads = j.value("step_threads", 0);
  } catch (const Json::exception& e) {
    throw IoError(file.string() + " is damaged: " + e.what());
  }
  return run;
}

std::string new_run_id() {
  unsigned char bytes[16];
  for (std::size_t have = 0; have < sizeof bytes;) {
    const ssize_t n = ::getrandom(bytes + have, sizeof bytes - have, 0);
    if (n < 0 && errno != EINTR) fail("getrandom", "no random numbers");
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  std::string id;
  for (const int byte : bytes)
    for (const int nibble : {byte >> 4, byte & 15}) id += "0123456789abcdef"[nibble];
  return id;
}

bool holds_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints", ignored))
    if (is_file(entry.path() / "state.json")) return true;
  return false;
}

bool holds_run(const fs::path& folder) {
  for (const char* name : {"run.json", "metrics.jsonl", "sessions.jsonl", "summary.json"})
    if (is_file(folder / name)) return true;
  return holds_checkpoint(folder);
}

static std::string graph_of(const fs::path& folder) try {
  std::string names;
  for (const auto& file : read_run_id(folder).graphs) names += (names.empty() ? "" : " ") + file;
  return names.empty() ? "another graph" : names;
} catch (const IoError&) {
  return "another graph";
}

static std::string refusal_of(const fs::path& folder) {
  const std::string name = folder.string(),
                    others = "--out OTHER keeps it, --overwrite replaces it";
  if (!is_file(folder / "run.json"))
    return name + " holds what a run left, but no run.json, which says whose it is: " + others;
  return name + " holds a run of " + graph_of(folder) + ": --resume " + shell_word(name) +
         " goes on with it, " + others;
}

// ---- making room for a new run ------------------------------------------------------------------

static void remove_if_empty(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) ::rmdir(folder.c_str());
}

static void remove_checkpoints(const fs::path& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = name.starts_with('.') && name.ends_with(".tmp");
    const bool ours = name.starts_with("last") || name.starts_with("best");
    if (!unfinished && !ours && !name.starts_with("epoch_")) continue;
    std::error_code cause;
    fs::remove_all(entry.path(), cause);
    if (cause) throw IoError("cannot remove " + entry.path().string() + ": " + cause.message());
  }
  remove_if_empty(folder);
}

static void remove_previews(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& epoch : fs::directory_iterator(folder, ignored)) {
    if (!epoch.path().filename().string().starts_with("epoch_")) continue;
    for (const auto& picture : fs::directory_iterator(epoch.path(), ignored))
      if (picture.path().extension() == ".png") fs::remove(picture.path(), ignored);
    remove_if_empty(epoch.path());
  }
  fs::remove(folder / "index.jsonl", ignored);
  remove_if_empty(folder);
}

// What metrics wrote of each case.
static void remove_tables(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& table : fs::directory_iterator(folder, ignored))
    if (table.path().extension() == ".csv") fs::remove(table.path(), ignored);
  remove_if_empty(folder);
}

// What ranks other than the first left.
static void remove_ranks(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& rank : fs::directory_iterator(folder, ignored)) {
    for (const char* name : {"trace.pftrace", "profile.json", "profile.json.part"})
      if (is_file(rank.path() / name)) fs::remove(rank.path() / name, ignored);
    remove_if_empty(rank.path());
  }
  remove_if_empty(folder);
}

// TensorBoard's, wherever in the folder the node was told to put them.
static void remove_event_files(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.") && name.ends_with(".sluice"))
      found.push_back(entry.path());
  }
  for (const auto& file : found) {
    fs::remove(file, ignored);
    remove_if_empty(file.parent_path());
  }
}

// All that a run writes, but for run.json and the lock; nothing else.
static void remove_run(const fs::path& folder) {
  remove_checkpoints(folder / "checkpoints");
  for (const std::string name : {"metrics.jsonl", "quarantine.jsonl", "sessions.jsonl", "live.json",
                                 "timeline.json", "summary.json", "profile.json", "graph.json",
                                 "graph.dot", "environment.json", "trace.pftrace", "report.html"})
    for (const auto& file : {folder / name, folder / (name + ".part")})
      if (is_file(file) && ::unlink(file.c_str()) != 0) fail(file, "cannot remove");
  remove_previews(folder / "previews");
  remove_tables(folder / "cases");
  remove_event_files(folder);
}

static void cut_back(const fs::path& file, std::int64_t bytes) {
  struct stat is {};
  if (::stat(file.c_str(), &is) != 0 || is.st_size <= bytes) return;
  if (::truncate(file.c_str(), static_cast<off_t>(bytes)) != 0) fail(file, "cannot write");
}

// ---- the folder ---------------------------------------------------------------------------------

RunFolder::RunFolder(fs::path folder, Use use) : folder_(std::move(folder)), use_(use) {
  std::error_code error;
  if (use == Use::resume) {
    if (!fs::is_directory(folder_, error))
      throw IoError(folder_.string() + ": there is no run to go on with" +
                    (error ? ": " + error.message() : std::string()));
  } else {
    made_ = fs::create_directories(folder_, error);
    if (error) throw IoError(folder_.string() + ": cannot make the run folder: " + error.message());
  }
  lock();
  if (use != Use::fresh || !holds_run(folder_)) return;
  ::close(lock_);
  throw Error(Exit::usage, refusal_of(folder_));
}

std::unique_ptr<RunFolder> RunFolder::numbered(const std::string& base) {
  for (int n = 1;; ++n) {
    const fs::path folder = base + "-" + std::to_string(n);
    if (holds_run(folder)) continue;
    try {
      return std::make_unique<RunFolder>(folder, Use::fresh);
    } catch (const Error& e) {
      if (e.exit != Exit::usage) throw;  // else another process was quicker
    }
  }
}

// The lock goes with the process, however that ends; the text says who it is.
void RunFolder::lock() {
  const fs::path file = folder_ / ".lock";
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) fail(file, "cannot write");
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock_, 0) != 0 || ::write(lock_, pid.data(), pid.size()) < 0) {
      ::close(lock_);
      fail(file, "cannot write");
    }
    return;
  }
  if (errno != EWOULDBLOCK)
    return warn(file.string() + ": this file system has no locks (" + std::strerror(errno) +
                "), so nothing keeps a second process out");
  char pid[32] = {};
  const ssize_t n = ::read(lock_, pid, sizeof pid - 1);
  ::close(lock_);
  throw Error(Exit::usage, folder_.string() + ": process " +
                               (n > 1 ? std::string(pid, static_cast<std::size_t>(n) - 1) : "?") +
                               " works in this folder; wait for its end, or give another --out");
}

// Errors of a disk are told by the writes that meet them.
static bool is_gone(const fs::path& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

std::string RunFolder::taken() const {
  if (!begun_) return "";
  const std::string end = ", so nothing more is kept in this folder";
  for (const char* name : {"run.json", "graph.json"})
    if (const fs::path file = folder_ / name; is_gone(file))
      return file.string() + ": was taken away while the run went on" + end;
  const fs::path file = folder_ / ".lock";
  struct stat held {
  }, there{};
  const bool is_known = ::fstat(lock_, &held) == 0 && ::stat(file.c_str(), &there) == 0;
  if (is_gone(file) || (is_known && (held.st_dev != there.st_dev || held.st_ino != there.st_ino)))
    return file.string() + ": was taken away while the run went on, and another process may work " +
           "here" + end;
  return "";
}

RunFolder::~RunFolder() {
  if (made_ && !begun_) {
    std::error_code ignored;
    fs::remove(folder_ / ".lock", ignored);
    remove_if_empty(folder_);
  }
  if (lock_ >= 0) ::close(lock_);
}

static std::unique_ptr<File> open_to_append(const fs::path& file) {
  return std::make_unique<File>(file, O_WRONLY | O_CREAT | O_APPEND);
}

// What was written after the checkpoint goes: a resumed run writes it again.
void RunFolder::cut_back_to(const Lengths& lengths) {
  cut_back(folder_ / "metrics.jsonl", lengths.metrics);
  const fs::path quarantine = folder_ / "quarantine.jsonl";
  cut_back(quarantine, lengths.quarantine);
  std::ifstream lines(quarantine);
  for (std::string line; std::getline(lines, line);) quarantined_before_.insert(line);
}

void RunFolder::begin(const RunId& run, const std::optional<Lengths>& lengths) {
  begun_ = true;
  if (!run.id.empty())
    write("run.json", Json{{"id", run.id},
                           {"graph_sha256", run.graph_sha256},
                           {"graphs", run.graphs},
                           {"step_threads", run.step_threads}}
                              .dump(2, ' ', false, Json::error_handler_t::replace) +
                          "\n");
  if (lengths)
    cut_back_to(*lengths);
  else if (use_ != Use::fresh)
    remove_run(folder_);
  remove_ranks(folder_ / "ranks");
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  if (error) throw IoError(checkpoints().string() + ": cannot make it: " + error.message());
  sync_folder(folder_);
  metrics_ = open_to_append(folder_ / "metrics.jsonl");
}

void RunFolder::write(const std::string& name, const std::string& text) {
  const std::lock_guard lock(mutex_);  // of two at once one would rename the other's half
  const fs::path path = folder_ / name, part = folder_ / (name + ".part");
  try {
    File file(part, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(text.data(), text.size());
    file.close();
    if (::rename(part.c_str(), path.c_str()) != 0) fail_io("write", path, errno);
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
}

static std::string text_of(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Whether the last line has no end: a loss of power has left half of it.
static bool is_torn(const fs::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  return in && in.tellg() > 0 && in.seekg(-1, std::ios::end) && in.get() != '\n';
}

void RunFolder::append(std::unique_ptr<File>& file, const char* name, const std::string& line) {
  std::lock_guard lock(mutex_);
  std::string text = line + "\n";
  if (!file) {
    if (is_torn(folder_ / name)) text.insert(0, "\n");
    file = open_to_append(folder_ / name);
  }
  file->write(text.data(), text.size());
}

void RunFolder::metric_line(const Json& line) { append(metrics_, "metrics.jsonl", text_of(line)); }
void RunFolder::session_line(const Json& line) {
  append(sessions_, "sessions.jsonl", text_of(line));
}
void RunFolder::quarantine_line(const Json& line) {
  const std::string text = text_of(line);
  if (!quarantined_before_.contains(text)) append(quarantine_, "quarantine.jsonl", text);
}

RunFolder::Lengths RunFolder::lengths() const {
  std::lock_guard lock(mutex_);
  std::error_code none;
  const auto quarantine = fs::file_size(folder_ / "quarantine.jsonl", none);
  return {static_cast<std::int64_t>(metrics_->size()),
          none ? 0 : static_cast<std::int64_t>(quarantine)};
}

}  // namespace sluice
