// A folder of cache entries: one file an entry, named by the key of what it holds.
//
//   DIR/CACHEDIR.TAG        says that it can be made again
//   DIR/3f/3f09...e1        an entry: 64 bytes of front, a JSON header, the payload
//   DIR/new/                what is being written
//
// Invariants, however many processes use the folder and whenever they are killed:
//  - what read() returns is what write() was given for that key: a digest covers every byte of the
//    file, and a file with another digest, key or length is removed and counted, never served;
//  - an entry is written under another name and renamed, so nobody waits for anybody. Nothing is
//    fsynced: an entry that a power cut spoilt is a miss;
//  - entries that this process used are never removed by it, so an epoch's cost does not change.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace sluice {

// 128 bits of XXH3: enough that no two contents meet by chance; not made against forgery.
struct CacheKey {
  std::uint64_t high = 0, low = 0;
  std::string hex() const;
  static std::optional<CacheKey> from_hex(std::string_view text);
  friend auto operator<=>(const CacheKey&, const CacheKey&) = default;
};

// The digest of several pieces, one after the other.
class CacheDigest {
 public:
  CacheDigest();
  ~CacheDigest();
  CacheDigest& add(const void* data, std::size_t bytes);
  CacheDigest& add(std::string_view text);  // with its length, so that pieces do not run together
  CacheKey key() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// An entry's file, without looking into it.
struct CachedFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  // when it was last read or written, since 1970
};
std::vector<CachedFile> cached_files(const std::filesystem::path& folder);  // longest unused first
// Whether a folder is one of these; an empty or missing one is not.
bool is_cache_folder(const std::filesystem::path& folder);
// $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; an Error without a home.
std::filesystem::path default_cache_folder();

struct CachedEntry {
  Json header;
  std::shared_ptr<std::byte> bytes;  // of the whole file
  std::span<const std::byte> payload;
};
// nullopt where anything about the file is not as it was written; a MachineError where the process
// has no descriptor left, which says nothing about the file.
std::optional<Json> read_header(const std::filesystem::path& file);  // unchecked: for lists
std::optional<CachedEntry> read_entry(const std::filesystem::path& file, const CacheKey& key);

class CacheFolder {
 public:
  // Makes the folder where it is missing; IoError where that fails.
  explicit CacheFolder(std::filesystem::path folder, std::optional<std::uint64_t> budget = {});

  std::optional<CachedEntry> read(const CacheKey& key);
  using Parts = std::vector<std::span<const std::byte>>;
  // False where there is no room for it.
  bool write(const CacheKey& key, const Json& header, const Parts& payload);
  void remove(const CacheKey& key);
  bool uses(const CacheKey& key) const;  // whether this process read or wrote it

  struct Figures {
    std::uint64_t entries = 0, bytes = 0;  // that this process used
    std::uint64_t damaged = 0;
    std::uint64_t counts = 0;  // of the folder's files, for its budget
  };
  Figures figures() const;
  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path file(const CacheKey& key) const;
  bool make_room(std::uint64_t bytes);
  void count();
  void remove_unused(std::uint64_t bytes);
  bool land(const std::filesystem::path& fresh, const std::filesystem::path& path,
            std::uint64_t bytes, bool ok);
  void use(const CacheKey& key, std::uint64_t bytes);
  void forget(const CacheKey& key);  // under the lock

  const std::filesystem::path folder_;
  const std::optional<std::uint64_t> budget_;
  const std::int64_t began_ns_;
  mutable std::mutex mutex_;                // what follows
  std::map<CacheKey, std::uint64_t> used_;  // and how large each is
  Figures figures_;
  std::uint64_t total_ = 0;         // bytes in the folder, as far as this process knows
  std::uint64_t written_ = 0;       // since total_ was counted
  std::uint64_t pending_ = 0;       // of total_: being written, no file yet
  std::vector<CachedFile> unused_;  // may be removed; longest unused last
  bool full_ = false;               // nothing is left that may be removed
};

// Removes what was not used for longest until `keep` bytes are left, what was not used since
// `since_ns`, and what dead writers left behind.
struct Pruned {
  std::uint64_t entries = 0, bytes = 0, left_entries = 0, left_bytes = 0;
};
Pruned prune_cache(const std::filesystem::path& folder, std::optional<std::uint64_t> keep,
                   std::optional<std::int64_t> since_ns);

}  // namespace sluice
