// Volumes of a run as slices for a page: what output nodes wrote, and the image and label that
// belong to it, all along RAS.
//
// Files are read by `sluice apply orientation`, as nodes read them, into a scratch folder; here is
// only what cuts slices out of an array. Invariant: at most a dozen arrays are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace sluice::web {

// An .npy file [C, X, Y, Z], mapped.
class Array;

class Volumes {
 public:
  Volumes();
  ~Volumes();

  // [{"name", "image", "label"}] of a run's folder: the files that it wrote, by name, and whether
  // there is an image and a label that belong to them. `run`: its folder.
  Json list(const std::filesystem::path& run);
  // {"shape", "spacing", "low", "high", "labels"}; `which`: "pred", "image" or "label".
  Json open(const std::filesystem::path& run, const std::string& name, const std::string& which);
  // Rows of bytes: intensities between low and high, or labels as they are. Plane 0, 1, 2: across
  // x, y, z.
  std::string slice(const std::filesystem::path& run, const std::string& name,
                    const std::string& which, int plane, std::int64_t at, double low, double high);
  // A name for a file that is gone when the server ends.
  std::filesystem::path scratch_file(const std::string& extension);

 private:
  std::filesystem::path file(const std::filesystem::path& run, const std::string& name,
                             const std::string& which);
  std::shared_ptr<const Array> array(const std::filesystem::path& file);

  std::mutex mutex_;
  std::filesystem::path scratch_;
  std::map<std::string, std::shared_ptr<const Array>> arrays_;
  std::vector<std::string> order_;
  int next_ = 0;
};

}  // namespace sluice::web
