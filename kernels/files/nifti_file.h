// NIfTI files as their bytes, checked: what nifti.h makes volumes of. No tensors here.
#pragma once

#include "kernels/files/nifti_header.h"

namespace sluice {

struct NiftiFile {
  NiftiHeader header;
  FileBytes bytes;   // the file with the voxels as it was before compression, whole
  std::string name;  // of that file
  RawVolume raw() const;
};

// Of a single file, or of both halves of a pair; see nifti.h for what is refused.
NiftiFile read_nifti_file(const std::filesystem::path& path, const ReadBytes& read = read_plain);

// The header alone; of the file only its front is read, and nothing after it is checked.
NiftiHeader read_nifti_header(const std::filesystem::path& path);

// `voxels` [C, X, Y, Z] of the header's type, as a single NIfTI-1 file, compressed where the name
// ends in .gz. See write_file().
void write_nifti_file(const std::filesystem::path& path, const NiftiHeader& header,
                      const void* voxels, int gzip_level = 1);

}  // namespace sluice
