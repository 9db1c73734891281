#include "engine/session/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/system_call.h"

namespace sluice {

namespace fs = std::filesystem;

[[noreturn]] static void fail(const fs::path& path, const char* what) {
  fail_call(path.string() + ": " + what, errno);
}

RunFolder::RunFolder(fs::path folder, std::int64_t metrics_bytes) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_ / "checkpoints", error);
  if (error) throw IoError(folder_.string() + ": cannot make the run folder: " + error.message());
  const fs::path metrics = folder_ / "metrics.jsonl";
  if (metrics_bytes >= 0 && fs::exists(metrics))
    fs::resize_file(metrics, static_cast<std::uintmax_t>(metrics_bytes));
  else
    for (const char* name : {"metrics.jsonl", "quarantine.jsonl", "sessions.jsonl", "timeline.json",
                             "summary.json", "profile.json"})
      fs::remove(folder_ / name, error);
  metrics_ = std::fopen(metrics.c_str(), "a");
  if (!metrics_) fail(metrics, "cannot write");
}

RunFolder::~RunFolder() {
  if (metrics_) std::fclose(metrics_);
  if (quarantine_) std::fclose(quarantine_);
  if (sessions_) std::fclose(sessions_);
}

void RunFolder::write(const std::string& name, const std::string& text) {
  const fs::path path = folder_ / name, part = folder_ / (name + ".part");
  std::FILE* f = std::fopen(part.c_str(), "w");
  if (!f) fail(part, "cannot write");
  const bool ok = std::fwrite(text.data(), 1, text.size(), f) == text.size() &&
                  std::fflush(f) == 0 && fsync(fileno(f)) == 0;
  const int error = errno;
  std::fclose(f);
  if (!ok || std::rename(part.c_str(), path.c_str()) != 0) {
    if (!ok) errno = error;
    const std::string why = std::strerror(errno);
    std::remove(part.c_str());
    throw IoError(path.string() + ": cannot write: " + why);
  }
}

void RunFolder::append(std::FILE*& file, const char* name, const Json& line) {
  std::lock_guard lock(mutex_);
  if (!file) file = std::fopen((folder_ / name).c_str(), "a");
  if (!file) fail(folder_ / name, "cannot write");
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0)
    fail(folder_ / name, "cannot write");
}

void RunFolder::metric_line(const Json& line) { append(metrics_, "metrics.jsonl", line); }
void RunFolder::quarantine_line(const Json& line) { append(quarantine_, "quarantine.jsonl", line); }
void RunFolder::session_line(const Json& line) { append(sessions_, "sessions.jsonl", line); }

std::int64_t RunFolder::metrics_bytes() const {
  std::lock_guard lock(mutex_);
  return std::ftell(metrics_);
}

}  // namespace sluice
