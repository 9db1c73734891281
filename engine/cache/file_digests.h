// What files hold, by a digest of their bytes, remembered beside a cache so that a file is read
// once and not in every run.
//
// Invariant: a digest is given for what the file held at the time of the call. It is remembered by
// size, mtime, ctime and inode, and only where the file had not changed for two seconds: a change
// within one tick of the file system's clock cannot hide behind equal times. Lines of the index
// carry a check of their own; several processes append to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/cache/cache_folder.h"

namespace sluice {

class FileDigests {
 public:
  // `verify`: what earlier processes wrote down is not believed.
  FileDigests(std::filesystem::path index, bool verify);
  // Of a file, or of all that a folder holds; nullopt where it cannot be read.
  std::optional<CacheKey> of(const std::string& path);

 private:
  struct Known {
    std::uint64_t size = 0, inode = 0;
    std::int64_t mtime_ns = 0, ctime_ns = 0;
    CacheKey digest;
    bool same_file(const Known& other) const {
      return size == other.size && inode == other.inode && mtime_ns == other.mtime_ns &&
             ctime_ns == other.ctime_ns;
    }
  };
  static bool look(const std::string& path, Known& known);
  static std::string line(const std::string& path, const Known& known);
  std::optional<CacheKey> of_folder(const std::string& path);
  void load();
  void remember(const std::string& path, const Known& known);

  const std::filesystem::path index_;
  std::mutex mutex_;
  std::unordered_map<std::string, Known> known_;
};

}  // namespace sluice
