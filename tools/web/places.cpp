#include "tools/web/places.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "engine/base/durable_file.h"
#include "tools/runs/runs.h"

namespace sluice::web {
namespace {

namespace fs = std::filesystem;

constexpr int deepest = 5;
constexpr std::size_t most_entries = 50'000, most_graphs = 2'000;

// Names that are short, the same after a restart, and say nothing.
std::string id_of(const std::string& kind, const std::string& relative) {
  return sha256_of(kind + '\n' + relative).substr(0, 16);
}

bool looks_like_a_graph(const std::string& text) {
  return text.find("\"nodes\"") != text.npos || text.find("\"parts\"") != text.npos ||
         text.find("graph.schema.json") != text.npos;
}

}  // namespace

std::string sha256_of(const std::string& text) {
  Sha256 digest;
  digest.update(text.data(), text.size());
  return digest.hex();
}

Places::Places(fs::path root)
    : root_(fs::canonical(root)), fd_(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) fail_call("cannot open " + root_.string(), errno);
}

Places::~Places() { ::close(fd_); }

int Places::open(const std::string& relative, int flags) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, fd_, relative.c_str(), &how, sizeof how));
}

std::string Places::read(const std::string& relative, std::size_t most) const {
  const int fd = open(relative, O_RDONLY | O_NONBLOCK);
  if (fd < 0) throw Refusal{errno == ENOENT ? 404 : 403, relative + ": " + std::strerror(errno)};
  struct stat s {};
  std::string text;
  const bool fits =
      ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && static_cast<std::size_t>(s.st_size) <= most;
  if (fits) {
    text.resize(static_cast<std::size_t>(s.st_size));
    std::size_t at = 0;
    for (ssize_t n; at < text.size() && (n = ::read(fd, &text[at], text.size() - at)) > 0;)
      at += static_cast<std::size_t>(n);
    text.resize(at);
  }
  ::close(fd);
  if (!fits) throw Refusal{403, relative + ": is no regular file of at most 16 MiB"};
  return text;
}

namespace {

// What errno says, or 0. The file is new.
int write_new(int folder, const std::string& name, const std::string& text, mode_t mode) {
  const int fd =
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
  if (fd < 0) return errno;
  int cause = 0;
  for (std::size_t at = 0; cause == 0 && at < text.size();) {
    const ssize_t n = ::write(fd, &text[at], text.size() - at);
    if (n < 0 && errno != EINTR) cause = errno;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  if (cause == 0 && ::fsync(fd) != 0) cause = errno;
  ::close(fd);
  if (cause != 0) ::unlinkat(folder, name.c_str(), 0);
  return cause;
}

std::string folder_of(const std::string& relative) {
  const std::string folder = fs::path(relative).parent_path();
  return folder.empty() ? "." : folder;
}

}  // namespace

void Places::write(const std::string& relative, const std::string& text,
                   const std::string& expected) {
  const std::lock_guard lock(mutex_);
  const std::string now = read(relative);
  if (sha256_of(now) != expected)
    throw Refusal{
        409, "the file was changed by somebody else", {{"text", now}, {"sha256", sha256_of(now)}}};
  const std::string name = fs::path(relative).filename(), part = "." + name + ".part";
  const int folder = open(folder_of(relative), O_PATH | O_DIRECTORY);
  if (folder < 0) throw Refusal{403, relative + ": " + std::strerror(errno)};
  struct stat s {};
  int cause = ::fstatat(folder, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
  if (cause == 0 && !S_ISREG(s.st_mode)) cause = ELOOP;
  if (cause == 0) {
    ::unlinkat(folder, part.c_str(), 0);
    cause = write_new(folder, part, text, s.st_mode);
  }
  if (cause == 0 && ::renameat(folder, part.c_str(), folder, name.c_str()) != 0) cause = errno;
  ::close(folder);
  if (cause != 0) throw Refusal{403, "cannot write " + relative + ": " + std::strerror(cause)};
}

std::string Places::create(const std::string& beside, const std::string& name,
                           const std::string& text) {
  const bool plain = name.size() < 200 && name.ends_with(".json") && !name.starts_with('.') &&
                     std::none_of(name.begin(), name.end(),
                                  [](unsigned char c) { return c == '/' || std::iscntrl(c); });
  if (!plain) throw Refusal{422, "a graph is called like name.json, without folders"};
  const std::string folder_name = folder_of(graph(beside));
  const int folder = open(folder_name, O_PATH | O_DIRECTORY);
  const int cause = folder < 0 ? errno : write_new(folder, name, text, 0644);
  if (folder >= 0) ::close(folder);
  if (cause != 0) throw Refusal{cause == EEXIST ? 409 : 403, name + ": " + std::strerror(cause)};
  return add_graph(root_ / folder_name / name);
}

Json Places::graphs() {
  std::vector<std::string> found;
  std::error_code none;
  std::size_t seen = 0;
  fs::recursive_directory_iterator it(root_, fs::directory_options::skip_permission_denied, none);
  for (const fs::recursive_directory_iterator end; it != end && !none; it.increment(none)) {
    if (++seen > most_entries || found.size() >= most_graphs) break;
    const fs::path& path = it->path();
    const std::string name = path.filename();
    if (it->is_symlink(none)) continue;
    if (it->is_directory(none)) {
      if (it.depth() >= deepest || name.starts_with('.') || name.starts_with("build") ||
          runs::is_run(path))
        it.disable_recursion_pending();
      continue;
    }
    if (path.extension() != ".json" || name.starts_with('.') || name.ends_with(".schema.json"))
      continue;
    const std::string relative = path.lexically_relative(root_).string();
    const int fd = open(relative, O_RDONLY | O_NONBLOCK);
    if (fd < 0) continue;
    std::string head(1 << 16, '\0');
    const ssize_t n = ::pread(fd, head.data(), head.size(), 0);
    ::close(fd);
    head.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    if (looks_like_a_graph(head)) found.push_back(relative);
  }
  std::sort(found.begin(), found.end());
  Json all = Json::array();
  const std::lock_guard lock(mutex_);
  for (const auto& relative : found) {
    const std::string id = id_of("graph", relative);
    graphs_[id] = relative;
    all.push_back({{"id", id}, {"name", relative}});
  }
  return all;
}

Json Places::runs() {
  Json rows = Json::array();
  for (const auto& folder : runs::find(root_)) {
    const std::string id = add_run(folder);
    Json row = runs::row(folder, run_name(id));
    row["id"] = id;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Places::add_graph(const fs::path& file) {
  const std::string relative = fs::weakly_canonical(file).lexically_relative(root_).string();
  const std::string id = id_of("graph", relative);
  const std::lock_guard lock(mutex_);
  graphs_[id] = relative;
  return id;
}

std::string Places::add_run(const fs::path& folder) {
  const std::string relative = folder.lexically_relative(root_).lexically_normal().string();
  const std::string id = id_of("run", relative);
  const std::lock_guard lock(mutex_);
  runs_[id] = relative;
  return id;
}

std::string Places::graph(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = graphs_.find(id);
  if (it == graphs_.end()) throw Refusal{404, "no such graph"};
  return it->second;
}

fs::path Places::run(const std::string& id) const { return root_ / run_name(id); }

std::string Places::run_name(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = runs_.find(id);
  if (it == runs_.end()) throw Refusal{404, "no such run"};
  return it->second;
}

}  // namespace sluice::web
