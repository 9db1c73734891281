#include "engine/cache/file_digests.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "engine/base/read_file.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t settled_ns = 2'000'000'000;

std::int64_t nanoseconds(const timespec& t) { return t.tv_sec * 1'000'000'000ll + t.tv_nsec; }

std::optional<CacheKey> digest_of(const std::string& path) {
  const int fd = open_to_read(path.c_str());
  if (fd < 0) return std::nullopt;
  std::vector<char> block(1 << 20);
  CacheDigest digest;
  ssize_t n = 0;
  while ((n = ::read(fd, block.data(), block.size())) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) digest.add(block.data(), static_cast<std::size_t>(n));
  ::close(fd);
  if (n < 0) return std::nullopt;
  return digest.key();
}

}  // namespace

FileDigests::FileDigests(fs::path index, bool verify) : index_(std::move(index)) {
  load();
  if (verify) known_.clear();
}

bool FileDigests::look(const std::string& path, Known& known) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) return false;
  known.size = static_cast<std::uint64_t>(s.st_size);
  known.inode = s.st_ino;
  known.mtime_ns = nanoseconds(s.st_mtim);
  known.ctime_ns = nanoseconds(s.st_ctim);
  return true;
}

std::optional<CacheKey> FileDigests::of(const std::string& given) {
  std::error_code ignored;
  const std::string path = fs::absolute(given, ignored).lexically_normal().string();
  if (fs::is_directory(path, ignored)) return of_folder(path);
  for (int attempt = 0; attempt < 3; ++attempt) {
    Known before, after;
    if (!look(path, before)) return std::nullopt;
    {
      std::lock_guard lock(mutex_);
      const auto it = known_.find(path);
      if (it != known_.end() && it->second.same_file(before)) return it->second.digest;
    }
    const auto digest = digest_of(path);
    if (!digest || !look(path, after)) return std::nullopt;
    if (!before.same_file(after)) continue;  // written to meanwhile
    before.digest = *digest;
    const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    if (std::max(before.ctime_ns, before.mtime_ns) < now.count() - settled_ns)
      remember(path, before);
    return digest;
  }
  return std::nullopt;
}

// Folders that links lead to belong to it. Where two lead to one, which may be a circle, there is
// no digest.
std::optional<CacheKey> FileDigests::of_folder(const std::string& path) {
  std::vector<std::string> files;
  std::set<fs::path> linked;
  std::error_code failed;
  constexpr auto follow = fs::directory_options::follow_directory_symlink;
  for (auto it = fs::recursive_directory_iterator(path, follow, failed);
       !failed && it != fs::recursive_directory_iterator(); it.increment(failed)) {
    if (!it->is_directory(failed))
      files.push_back(it->path().string());
    else if (it->is_symlink(failed) && !linked.insert(fs::canonical(it->path(), failed)).second)
      return std::nullopt;
  }
  if (failed) return std::nullopt;
  std::sort(files.begin(), files.end());
  CacheDigest digest;
  const std::size_t folder = path.size() - (path.ends_with('/') ? 1 : 0);
  for (const auto& file : files) {
    const auto one = of(file);
    if (!one) return std::nullopt;
    digest.add(file.substr(folder)).add(&*one, sizeof *one);
  }
  return digest.key();
}

std::string FileDigests::line(const std::string& path, const Known& k) {
  std::ostringstream out;
  out << k.digest.hex() << ' ' << k.size << ' ' << k.inode << ' ' << k.mtime_ns << ' ' << k.ctime_ns
      << ' ' << path;
  return CacheDigest().add(out.str()).key().hex().substr(0, 16) + ' ' + out.str() + '\n';
}

// Later lines win. Where most lines are outdated the index is written anew.
void FileDigests::load() {
  std::ifstream in(index_);
  std::size_t lines = 0;
  for (std::string text; std::getline(in, text); ++lines) {
    std::istringstream words(text);
    std::string check, hex, path;
    Known k;
    words >> check >> hex >> k.size >> k.inode >> k.mtime_ns >> k.ctime_ns;
    words.get();
    const auto digest = CacheKey::from_hex(hex);
    if (!std::getline(words, path) || !digest) continue;
    k.digest = *digest;
    if (line(path, k) == text + '\n') known_[path] = k;
  }
  if (lines < 2 * known_.size() + 100) return;
  const fs::path fresh = index_.string() + '.' + std::to_string(::getpid());
  {
    std::ofstream out(fresh);
    for (const auto& [path, k] : known_) out << line(path, k);
  }
  std::error_code ignored;
  fs::rename(fresh, index_, ignored);
}

void FileDigests::remember(const std::string& path, const Known& known) {
  std::lock_guard lock(mutex_);
  known_[path] = known;
  if (path.find('\n') != path.npos) return;
  const int fd = ::open(index_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const std::string text = line(path, known);
  // Whole or, where it fails, without effect: a reader passes over lines that do not check.
  [[maybe_unused]] const ssize_t n = ::write(fd, text.data(), text.size());
  ::close(fd);
}

}  // namespace sluice
