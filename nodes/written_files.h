// What nodes that write files share: names of files, and that neither a second sample of an epoch
// nor another run at the same time overwrites what is there in silence.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/error.h"
#include "engine/base/folder_use.h"
#include "engine/group/ranks.h"
#include "engine/run/node.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"

namespace sluice {

// Refuses what is no name of one file: a folder's, or with folders in it.
inline const std::string& must_name_a_file(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    throw DataError("\"" + name + "\" cannot be the name of a file");
  return name;
}

// The file that a field of one sample lies in, loaded or not.
inline const std::string& file_of(const Sample& sample, const std::string& key) {
  const Field& field = sample.at(key);
  if (field.meta.size() != 1)
    throw DataError("field \"" + key + "\" is a batch; decollate it before");
  if (field.geometry().path.empty()) throw DataError("field \"" + key + "\" is of no file");
  return field.geometry().path;
}

// Tells of another run that writes into `folder`. The run's own folder is locked as a whole, and of
// a run's ranks the first one tells.
class SharedFolder {
 public:
  void open(const OpenContext& context, const std::filesystem::path& folder) {
    const bool first_rank = !context.ranks || context.ranks->world.rank == 0;
    if (first_rank && !lies_in(folder, context.out_dir)) folder_ = folder;
  }
  // Before the first file is written.
  void begin() {
    if (folder_.empty()) return;
    std::error_code said_by_the_writer;
    std::filesystem::create_directories(folder_, said_by_the_writer);
    use_ = use_folder(folder_);
    folder_.clear();
  }

 private:
  static bool lies_in(const std::filesystem::path& folder, const std::filesystem::path& run) {
    if (run.empty()) return false;
    const auto plain = [](const auto& path) {
      return std::filesystem::absolute(path).lexically_normal();
    };
    const auto below = plain(folder).lexically_relative(plain(run));
    return !below.empty() && *below.begin() != "..";
  }

  std::filesystem::path folder_;  // empty: nothing is left to do
  std::shared_ptr<const void> use_;
};

class WrittenFiles {
 public:
  void open(const OpenContext& context, const std::filesystem::path& folder) {
    folder_.open(context, folder);
  }
  // DataError where another sample of the epoch has claimed the path. `source`: the file that this
  // sample was made of, or ""; `advice` follows the message. Any thread.
  void claim(const std::filesystem::path& path, const Stamp& stamp, const std::string& sample,
             const std::string& source, const std::string& advice = "") {
    const std::string told = "\"" + sample + "\"" + (source.empty() ? "" : " of " + source);
    std::lock_guard lock(mutex_);
    folder_.begin();
    Claim& last = claims_.try_emplace(path.string(), Claim{stamp, told}).first->second;
    if (last.stamp.epoch == stamp.epoch && last.stamp != stamp)
      throw DataError(path.string() + " is the file of two samples, " + last.told + " and " + told +
                      advice);
    last = {stamp, told};
  }

  // For a run that is resumed and goes on within the epoch.
  void save(State& state) const {
    std::lock_guard lock(mutex_);
    Json all = Json::object();
    for (const auto& [path, claim] : claims_) {
      const Stamp& s = claim.stamp;
      all[path] = {{"stream", s.stream},
                   {"epoch", s.epoch},
                   {"index", s.index},
                   {"path", s.path},
                   {"told", claim.told}};
    }
    if (!all.empty()) state.values["written"] = std::move(all);
  }
  void load(const State& state) {
    std::lock_guard lock(mutex_);
    const Json all = state.values.value("written", Json::object());
    for (const auto& [path, claim] : all.items()) {
      Stamp s;
      s.stream = claim.at("stream");
      s.epoch = claim.at("epoch");
      s.index = claim.at("index");
      s.path = claim.at("path").get<decltype(s.path)>();
      claims_[path] = {s, claim.at("told").get<std::string>()};
    }
  }

 private:
  struct Claim {
    Stamp stamp;
    std::string told;  // the sample, for the message
  };
  mutable std::mutex mutex_;
  SharedFolder folder_;
  std::map<std::string, Claim> claims_;
};

}  // namespace sluice
