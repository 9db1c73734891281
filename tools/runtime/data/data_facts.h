// What one file of a data set holds, found by reading it whole, once.
//
// Invariant: a file that cannot be read gives facts that say why; nothing is thrown for it. The
// voxels themselves are not kept.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/cache/cache_folder.h"
#include "kernels/files/volume.h"
#include "kernels/lists/manifest.h"

namespace sluice {

struct Seen {
  std::int64_t voxels = 0, first = 0;  // how many, and where the first one is
};

struct FileFacts {
  bool there = true, readable = false;
  std::string why;     // not readable
  std::string sha256;  // of the file's bytes; empty for a folder
  std::string not_as_indexed;

  std::int64_t channels = 0;
  std::vector<std::int64_t> shape;  // spatial
  Matrix4 affine{};
  std::array<double, 3> spacing{};
  bool has_affine = true, placed = true;  // as in Volume
  std::string dtype;
  CacheKey voxels;  // of shape and values
  Seen not_finite;
  double least = 0, most = 0;     // of the finite ones
  std::map<double, Seen> values;  // a label's, at most most_values + 1
  static constexpr std::size_t most_values = 1024;

  // "[12, 3, 7]", or "channel 1 [12, 3, 7]" where there are several.
  std::string place(std::int64_t voxel) const;
};

// `manifest` may be null.
FileFacts facts_of(const std::string& file, bool is_label, const Manifest* manifest);

}  // namespace sluice
