// A sample as a JSON header and bytes, for a cache's folder.
//
// Invariant: what comes back equals what went in, bit for bit: values, strides, geometry, history.
// A tensor with at most 2, 256 or 65,536 different values is kept as 1, 8 or 16 bits a voxel and a
// table of the values themselves (labels, masks, whatever came voxel by voxel from 16 bits), so
// nothing is ever rounded. Paths of the record are kept as "the record's", so an entry fits the
// same data in another folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "engine/cache/cache_folder.h"
#include "engine/state/sample.h"

namespace sluice {

struct PackedSample {
  Json header;
  std::vector<at::Tensor> owned;  // what the parts point to
  CacheFolder::Parts parts;
};

// nullopt for what cannot be kept: tensors on a device, or without plain bytes.
std::optional<PackedSample> pack(const Sample& sample, const Sample& record);

// Null where header and payload do not fit each other.
SamplePtr unpack(const CachedEntry& entry, const Sample& record);

// All of a Meta but its path.
Json geometry_json(const Meta& meta);

}  // namespace sluice
