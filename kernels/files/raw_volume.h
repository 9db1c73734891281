// Voxels as they stand in a file (raw_voxels.h) as a volume.
#pragma once

#include "kernels/files/raw_voxels.h"
#include "kernels/files/volume.h"

namespace sluice {

// `voxels` begins anywhere in `file` and is turned to this machine's byte order in place. `dtype`
// is as for read_volume(), `name` the file's, for messages.
Volume to_volume(const RawVolume& raw, FileBytes& file, std::size_t begin, at::ScalarType dtype,
                 const std::string& name);

// What a file of that type holds of a tensor: on the host, contiguous, integers by truncation; a
// value that an integer type cannot hold is a DataError.
at::Tensor stored_as(const at::Tensor& data, StoredType type, const std::string& name);

}  // namespace sluice
