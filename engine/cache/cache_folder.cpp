#include "engine/cache/cache_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/error.h"
#include "engine/base/read_file.h"
#include "engine/base/system_call.h"
#include "engine/base/warnings.h"

namespace sluice {

namespace fs = std::filesystem;

// ---- keys ---------------------------------------------------------------------------------------

std::string CacheKey::hex() const {
  std::string out;
  for (const std::uint64_t half : {high, low})
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[half >> shift & 15];
  return out;
}

std::optional<CacheKey> CacheKey::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  CacheKey key;
  for (std::size_t i = 0; i < 32; ++i) {
    const auto digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    std::uint64_t& half = i < 16 ? key.high : key.low;
    half = half << 4 | digit;
  }
  return key;
}

struct CacheDigest::State {
  XXH3_state_t xxh;
};
CacheDigest::CacheDigest() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
CacheDigest::~CacheDigest() = default;
CacheDigest& CacheDigest::add(const void* data, std::size_t bytes) {
  XXH3_128bits_update(&state_->xxh, data, bytes);
  return *this;
}
CacheDigest& CacheDigest::add(std::string_view text) {
  const std::uint64_t length = text.size();
  return add(&length, sizeof length).add(text.data(), text.size());
}
CacheKey CacheDigest::key() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

// ---- an entry's file ----------------------------------------------------------------------------

namespace {

constexpr const char* tag = "CACHEDIR.TAG";
constexpr const char* tag_text =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Samples that Sluice computed; it makes them again where they are gone.\n";
constexpr const char* unfinished = "new";
constexpr std::uint64_t alignment = 64, largest_header = 1 << 26;

// The first bytes of a file, little endian as this machine. Changing what is behind them, or what
// it means, needs another magic.
struct Front {
  std::array<char, 8> magic{'s', 'l', 'u', 'i', 'c', 'e', 'C', '1'};
  std::uint64_t header_bytes = 0;  // a multiple of 64
  std::uint64_t payload_bytes = 0;
  CacheKey key;
  CacheKey digest;  // of the file, with zeros here
  std::uint64_t unused = 0;
};
static_assert(sizeof(Front) == alignment);

CacheKey digest_of(Front front, const CacheFolder::Parts& rest) {
  front.digest = {};
  CacheDigest digest;
  digest.add(&front, sizeof front);
  for (const auto& part : rest) digest.add(part.data(), part.size());
  return digest.key();
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

std::int64_t nanoseconds(const timespec& t) { return t.tv_sec * 1'000'000'000ll + t.tv_nsec; }

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Aligned, so that tensors can lie in it; large ones ask for huge pages.
std::shared_ptr<std::byte> aligned_bytes(std::size_t size) {
  constexpr std::size_t huge = 2 << 20;
  const std::size_t align = size >= huge ? huge : alignment;
  void* p = std::aligned_alloc(align, (size + align - 1) / align * align);
  if (!p) throw Error(Exit::memory, "no memory for a cache entry");
  if (align == huge) ::madvise(p, size, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(p), [](std::byte* b) { std::free(b); }};
}

bool read_all(int fd, std::byte* to, std::uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::read(fd, to, std::min<std::uint64_t>(bytes, 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= static_cast<std::uint64_t>(n);
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

// A new file, locked, and its path; -1 where there can be none. Between its making and its locking
// somebody may take it for a dead writer's and remove it: then another one is made.
int open_locked(const std::string& begin, fs::path& path) {
  static std::atomic<std::uint64_t> ordinal{0};
  while (true) {
    path = begin + std::to_string(ordinal++);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return -1;
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    const int cause = locked ? EWOULDBLOCK : errno;
    struct stat status {};
    if (locked && ::fstat(fd, &status) == 0 && status.st_nlink > 0) return fd;
    ::unlink(path.c_str());
    ::close(fd);
    errno = cause;
    if (cause != EWOULDBLOCK) return -1;
  }
}

// Files in "new" that nobody holds locked: their writers are dead.
void remove_abandoned(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / unfinished, ignored)) {
    const Descriptor fd(open_to_read(entry.path().c_str()));
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
}

}  // namespace

std::optional<CachedEntry> read_entry(const fs::path& file, const CacheKey& key) {
  const Descriptor fd(open_to_read(file.c_str()));
  if (!fd && is_of_machine(errno)) fail_call("cannot read " + file.string(), errno);
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < sizeof(Front)) return std::nullopt;
  CachedEntry entry;
  entry.bytes = aligned_bytes(size);
  if (!read_all(fd.get(), entry.bytes.get(), size)) return std::nullopt;
  Front front;
  std::memcpy(&front, entry.bytes.get(), sizeof front);
  const std::span<const std::byte> rest(entry.bytes.get() + sizeof front, size - sizeof front);
  if (front.magic != Front().magic || front.key != key || front.header_bytes > largest_header ||
      front.header_bytes > rest.size() || front.payload_bytes != rest.size() - front.header_bytes ||
      digest_of(front, {rest}) != front.digest)
    return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(rest.data());
  entry.header = Json::parse(text, text + front.header_bytes, nullptr, false);
  if (!entry.header.is_object()) return std::nullopt;
  entry.payload = rest.subspan(front.header_bytes);
  return entry;
}

std::optional<Json> read_header(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Front front;
  if (!in.read(reinterpret_cast<char*>(&front), sizeof front) || front.magic != Front().magic ||
      front.header_bytes > largest_header)
    return std::nullopt;
  std::string text(front.header_bytes, ' ');
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size()))) return std::nullopt;
  Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) return std::nullopt;
  return header;
}

std::vector<CachedFile> cached_files(const fs::path& folder) {
  std::vector<CachedFile> found;
  std::error_code ignored;
  for (const auto& shelf : fs::directory_iterator(folder, ignored)) {
    const std::string first = shelf.path().filename().string();
    if (first.size() != 2) continue;
    for (const auto& entry : fs::directory_iterator(shelf.path(), ignored)) {
      const std::string name = entry.path().filename().string();
      struct stat status {};
      if (name.starts_with(first) && CacheKey::from_hex(name) &&
          ::stat(entry.path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
        found.push_back({entry.path(), static_cast<std::uint64_t>(status.st_size),
                         nanoseconds(status.st_mtim)});
    }
  }
  std::sort(found.begin(), found.end(), [](const CachedFile& a, const CachedFile& b) {
    return std::pair(a.used_ns, a.path) < std::pair(b.used_ns, b.path);
  });
  return found;
}

fs::path default_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return fs::path(cache) / "sluice";
  const char* home = std::getenv("HOME");
  if (home && *home == '/') return fs::path(home) / ".cache" / "sluice";
  throw Error(Exit::usage, "there is no HOME to keep a cache in: set \"dir\"");
}

bool is_cache_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / tag, ignored) &&
         fs::is_directory(folder / unfinished, ignored);
}

Pruned prune_cache(const fs::path& folder, std::optional<std::uint64_t> keep,
                   std::optional<std::int64_t> since_ns) {
  remove_abandoned(folder);
  const std::vector<CachedFile> files = cached_files(folder);
  Pruned done;
  for (const CachedFile& f : files) done.left_bytes += f.bytes;
  done.left_entries = files.size();
  for (const CachedFile& f : files) {
    const bool old = since_ns && f.used_ns < *since_ns;
    if (!old && !(keep && done.left_bytes > *keep)) continue;
    if (::unlink(f.path.c_str()) != 0) continue;
    ++done.entries;
    --done.left_entries;
    done.bytes += f.bytes;
    done.left_bytes -= f.bytes;
  }
  return done;
}

// ---- the folder ---------------------------------------------------------------------------------

CacheFolder::CacheFolder(fs::path folder, std::optional<std::uint64_t> budget)
    : folder_(std::move(folder)), budget_(budget), began_ns_(now()) {
  std::error_code failed;
  fs::create_directories(folder_ / unfinished, failed);
  if (failed) throw IoError("cannot make " + folder_.string() + ": " + failed.message());
  if (!fs::exists(folder_ / tag)) std::ofstream(folder_ / tag) << tag_text;
  remove_abandoned(folder_);
  if (budget_)
    for (const CachedFile& f : cached_files(folder_)) total_ += f.bytes;
}

fs::path CacheFolder::file(const CacheKey& key) const {
  const std::string name = key.hex();
  return folder_ / name.substr(0, 2) / name;
}

std::optional<CachedEntry> CacheFolder::read(const CacheKey& key) {
  const fs::path path = file(key);
  for (int attempt = 0; attempt < 2; ++attempt) {  // others remove and replace entries meanwhile
    if (::access(path.c_str(), F_OK) != 0) {
      std::lock_guard lock(mutex_);
      forget(key);  // it is written again where it is computed
      return std::nullopt;
    }
    auto entry = read_entry(path, key);
    if (!entry) continue;
    use(key, static_cast<std::uint64_t>(entry->payload.data() + entry->payload.size() -
                                        entry->bytes.get()));
    return entry;
  }
  remove(key);  // it is in the way of what will be computed
  return std::nullopt;
}

void CacheFolder::remove(const CacheKey& key) {
  const bool was_there = ::unlink(file(key).c_str()) == 0;
  std::lock_guard lock(mutex_);
  forget(key);
  figures_.damaged += was_there ? 1 : 0;
}

void CacheFolder::forget(const CacheKey& key) {
  const auto it = used_.find(key);
  if (it == used_.end()) return;
  --figures_.entries;
  figures_.bytes -= it->second;
  used_.erase(it);
}

bool CacheFolder::uses(const CacheKey& key) const {
  std::lock_guard lock(mutex_);
  return used_.contains(key);
}

// The first use of an entry sets its time, so that others remove it last.
void CacheFolder::use(const CacheKey& key, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!used_.emplace(key, bytes).second) return;
  ++figures_.entries;
  figures_.bytes += bytes;
  ::utimensat(AT_FDCWD, file(key).c_str(), nullptr, 0);
}

CacheFolder::Figures CacheFolder::figures() const {
  std::lock_guard lock(mutex_);
  return figures_;
}

// Other processes write too: what the folder holds is counted anew now and then.
void CacheFolder::count() {
  ++figures_.counts;
  total_ = pending_;  // what other threads are writing is no file yet
  written_ = 0;
  unused_.clear();
  for (CachedFile& f : cached_files(folder_)) {
    total_ += f.bytes;
    if (f.used_ns < began_ns_ && !used_.contains(*CacheKey::from_hex(f.path.filename().string())))
      unused_.push_back(std::move(f));
  }
  std::reverse(unused_.begin(), unused_.end());
}

// Until there are `bytes` of room. What somebody has used since it was counted stays.
void CacheFolder::remove_unused(std::uint64_t bytes) {
  for (; total_ + bytes > *budget_ && !unused_.empty(); unused_.pop_back()) {
    const CachedFile& f = unused_.back();
    const bool is_used = used_.contains(*CacheKey::from_hex(f.path.filename().string()));
    struct stat status {};
    if (is_used || ::stat(f.path.c_str(), &status) != 0 ||
        nanoseconds(status.st_mtim) >= began_ns_ || ::unlink(f.path.c_str()) != 0)
      continue;
    total_ -= f.bytes;
  }
}

// A count lists every file, so it is not made for each entry that is written.
bool CacheFolder::make_room(std::uint64_t bytes) {
  if (!budget_) return true;
  std::lock_guard lock(mutex_);
  if (bytes > *budget_ || full_) return false;
  if (written_ > *budget_ / 16) count();
  remove_unused(bytes);
  if (total_ + bytes > *budget_) {
    count();
    remove_unused(bytes);
    full_ = total_ + bytes > *budget_;
  }
  if (full_) return false;
  total_ += bytes;
  written_ += bytes;
  pending_ += bytes;
  return true;
}

// Under the lock, so that a count of the files sees an entry either as pending or as a file.
bool CacheFolder::land(const fs::path& fresh, const fs::path& path, std::uint64_t bytes, bool ok) {
  std::lock_guard lock(mutex_);
  if (ok && ::rename(fresh.c_str(), path.c_str()) != 0) {
    std::error_code ignored;
    fs::create_directory(path.parent_path(), ignored);
    ok = ::rename(fresh.c_str(), path.c_str()) == 0;
  }
  if (!budget_) return ok;
  pending_ -= bytes;
  if (!ok) total_ -= bytes;
  return ok;
}

bool CacheFolder::write(const CacheKey& key, const Json& header, const Parts& payload) {
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    return false;  // a name that is no UTF-8 would come back as another
  }
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  Front front;
  front.header_bytes = text.size();
  for (const auto& part : payload) front.payload_bytes += part.size();
  front.key = key;
  Parts rest{std::as_bytes(std::span(text))};
  rest.insert(rest.end(), payload.begin(), payload.end());
  front.digest = digest_of(front, rest);
  const std::uint64_t bytes = sizeof front + front.header_bytes + front.payload_bytes;
  if (!make_room(bytes)) return false;

  fs::path fresh;
  const Descriptor fd(open_locked(
      (folder_ / unfinished / (key.hex() + '.' + std::to_string(::getpid()) + '.')).string(),
      fresh));
  bool ok = fd && write_all(fd.get(), std::as_bytes(std::span(&front, 1)));
  for (const auto& part : rest) ok = ok && write_all(fd.get(), part);
  ok = land(fresh, file(key), bytes, ok);
  if (!ok) {
    const int cause = errno;
    warn(folder_.string() + ": entries cannot be written (" + std::strerror(cause) +
         "), so their samples are computed each time");
    if (fd) ::unlink(fresh.c_str());
    return false;
  }
  use(key, bytes);
  return true;
}

}  // namespace sluice
