// What nodes that write files share: names of files, and that a second sample of an epoch never
// overwrites the first one's in silence.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "engine/base/error.h"
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

class WrittenFiles {
 public:
  // DataError where another sample of the epoch has claimed the path. `source`: the file that this
  // sample was made of, or ""; `advice` follows the message. Any thread.
  void claim(const std::filesystem::path& path, const Stamp& stamp, const std::string& sample,
             const std::string& source, const std::string& advice = "") {
    const std::string told = "\"" + sample + "\"" + (source.empty() ? "" : " of " + source);
    std::lock_guard lock(mutex_);
    Claim& last = claims_.try_emplace(path.string(), Claim{stamp, told}).first->second;
    if (last.stamp.epoch == stamp.epoch && last.stamp != stamp)
      throw DataError(path.string() + " is the file of two samples, " + last.told + " and " + told +
                      advice);
    last = {stamp, told};
  }

 private:
  struct Claim {
    Stamp stamp;
    std::string told;  // the sample, for the message
  };
  std::mutex mutex_;
  std::map<std::string, Claim> claims_;
};

}  // namespace sluice
