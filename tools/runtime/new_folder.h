// A folder that is there as a whole or not at all.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "engine/base/durable_file.h"

namespace sluice {

// Written under another name beside its place, and put there by keep().
class NewFolder {
 public:
  // Error (usage) where something is at that place already, but for an empty folder.
  explicit NewFolder(std::filesystem::path place) : place_(std::move(place)) {
    if (place_.filename().empty()) place_ = place_.parent_path();  // "half/"
    if (std::filesystem::exists(place_) && !std::filesystem::is_empty(place_))
      throw Error(Exit::usage, place_.string() + " is there already and stays as it is");
    const std::filesystem::path parent = place_.parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent);
    std::string pattern = (parent / ("." + place_.filename().string() + ".XXXXXX")).string();
    if (!::mkdtemp(pattern.data()) || ::chmod(pattern.c_str(), 0755) != 0)
      fail_io("make", place_, errno);
    path_ = pattern;
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }    // to write to
  const std::filesystem::path& place() const { return place_; }  // where it will be

  void keep() {
    if (::rename(path_.c_str(), place_.c_str()) != 0) fail_io("make", place_, errno);
    path_.clear();
    const auto parent = place_.parent_path();
    sync_folder(parent.empty() ? "." : parent);
  }

 private:
  std::filesystem::path place_, path_;
};

}  // namespace sluice
