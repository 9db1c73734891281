#include "tools/web/jobs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/read_file.h"
#include "tools/web/places.h"

extern char** environ;

namespace sluice::web {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t most_err = 1u << 20, most_out = 16u << 20;

// A session of its own, so that a terminal's Ctrl-C is for the server alone; none of the server's
// connections.
pid_t spawn(const std::vector<std::string>& words, int out, int err) {
  std::vector<std::string> copy{"sluice"};
  copy.insert(copy.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (auto& word : copy) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigdefault(&how, &usual);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  std::error_code none;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", none).string();
  const int cause = ::posix_spawn(&child, self.c_str(), &actions, &how, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&how);
  if (cause != 0) throw Refusal{500, std::string("cannot start: ") + std::strerror(cause)};
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void make_pipe(int (&ends)[2]) {
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Refusal{500, std::string("cannot make a pipe: ") + std::strerror(errno)};
}

}  // namespace

// Runs go on: nobody waits for them, and a reader of stderr that goes away costs the display alone.
Jobs::~Jobs() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  for (auto& [id, job] : jobs_)
    if (job->reader.joinable()) job->reader.join();
}

// The threads of those that have ended, which take no lock any more, and the oldest of them.
void Jobs::forget() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Job& job = *it->second;
    if (job.ended && job.reader.joinable()) job.reader.join();
    it = job.ended && jobs_.size() >= remembered ? jobs_.erase(it) : std::next(it);
  }
}

std::string Jobs::start(Job given, std::vector<std::string> words) {
  const std::lock_guard lock(mutex_);
  forget();
  std::size_t working = 0;
  for (const auto& [id, job] : jobs_) working += !job->ended;
  if (working >= most) throw Refusal{429, "four jobs are at work already"};
  int out[2], err[2];
  make_pipe(out);
  make_pipe(err);
  auto job = std::make_unique<Job>(std::move(given));
  job->id = std::to_string(next_++);
  try {
    job->pid = spawn(words, out[1], err[1]);
  } catch (...) {
    for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
    throw;
  }
  ::close(out[1]);
  ::close(err[1]);
  Job& kept = *(jobs_[job->id] = std::move(job));
  kept.reader = std::thread([this, &kept, o = out[0], e = err[0]] { attend(kept, o, e); });
  return kept.id;
}

void Jobs::attend(Job& job, int out, int err) {
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  Clock::time_point told_at{};
  bool news = true, killed = false;
  std::vector<char> buffer(1 << 16);
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    ::poll(ends, 2, 200);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t n = ::read(ends[i].fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        ::close(ends[i].fd);
        ends[i].fd = -1;
        continue;
      }
      const std::lock_guard lock(mutex_);
      std::string& to = i == 0 ? job.out : job.err;
      to.append(buffer.data(), static_cast<std::size_t>(n));
      if (i == 1 && to.size() > most_err) to.erase(0, to.size() - most_err);
      if (i == 0 && to.size() > most_out) {
        to.resize(most_out);
        job.cut_short = true;
      }
      news = true;
    }
    Json j;
    {
      const std::lock_guard lock(mutex_);
      if (leaving_) break;
      if (job.stopped && !killed && Clock::now() - *job.stopped > std::chrono::seconds(30)) {
        ::kill(job.pid, SIGTERM);
        killed = true;
      }
      if (!news || Clock::now() - told_at < std::chrono::milliseconds(250)) continue;
      j = told(job, false);
    }
    news = false;
    told_at = Clock::now();
    changed_(j);
  }
  for (const pollfd& end : ends)
    if (end.fd >= 0) ::close(end.fd);
  {
    const std::lock_guard lock(mutex_);
    if (leaving_) return;
  }
  const int code = wait_for(job.pid);
  Json j;
  {
    const std::lock_guard lock(mutex_);
    job.code = code;
    job.ended = true;
    j = told(job, false);
  }
  changed_(j);
}

void Jobs::stop(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) throw Refusal{404, "no such job"};
  Job& job = *it->second;
  if (job.ended || job.stopped) return;
  ::kill(job.pid, SIGINT);
  job.stopped = Clock::now();
}

Json Jobs::told(const Job& job, bool whole) const {
  Json j = {
      {"id", job.id},       {"kind", job.kind},
      {"title", job.title}, {"run", job.run},
      {"graph", job.graph}, {"state", job.ended ? "ended" : job.stopped ? "stopping" : "working"},
      {"code", job.code}};
  const std::size_t tail = 4096;
  j["err"] = whole || job.err.size() <= tail ? job.err : job.err.substr(job.err.size() - tail);
  if (!whole) return j;
  const Json result = Json::parse(job.out, nullptr, false);
  j["result"] = result.is_discarded() ? Json(job.out) : result;
  if (!job.before.empty()) j["before"] = job.before;
  if (!job.extra.empty() && job.ended && job.code == 0) try {
      j["text"] = read_text(job.extra);
    } catch (const std::exception&) {
      j["text"] = nullptr;
    }
  return j;
}

Json Jobs::to_json(const std::string& id, bool whole) const {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) throw Refusal{404, "no such job"};
  return told(*it->second, whole);
}

Json Jobs::all() const {
  const std::lock_guard lock(mutex_);
  Json all = Json::array();
  for (const auto& [id, job] : jobs_) all.push_back(told(*job, false));
  return all;
}

int run_and_wait(const std::vector<std::string>& words, std::string& err) {
  int ends[2];
  make_pipe(ends);
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  pid_t child = -1;
  try {
    child = spawn(words, nothing, ends[1]);
  } catch (...) {
    for (const int fd : {nothing, ends[0], ends[1]}) ::close(fd);
    throw;
  }
  ::close(nothing);
  ::close(ends[1]);
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0 && err.size() < most_err) err.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  return wait_for(child);
}

}  // namespace sluice::web
