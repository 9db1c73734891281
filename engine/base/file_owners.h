// Which node of a run writes which file: of two that write the same one, what the first has written
// would be lost in silence.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "engine/base/error.h"

namespace sluice {

class FileOwners {
 public:
  // Error where another node has claimed the file. Any thread.
  void claim(const std::filesystem::path& file, const std::string& node) {
    std::lock_guard lock(mutex_);
    const std::string whole = std::filesystem::absolute(file).lexically_normal().string();
    const std::string& first = owners_.try_emplace(whole, node).first->second;
    if (first != node)
      throw Error(Exit::usage, file.string() + " is written by nodes." + first + " and by nodes." +
                                   node + "; give each a file of its own");
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> owners_;  // node by file
};

}  // namespace sluice
