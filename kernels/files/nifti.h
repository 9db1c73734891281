// NIfTI-1 and NIfTI-2, single files (`.nii`, `.nii.gz`) and pairs (`.hdr` and `.img`, or both with
// `.gz`), of every scalar datatype in both byte orders; read strictly, because lenient readers
// train on damaged data without a word.
//
// Invariant: what is returned is the whole file and nothing but the file. Header, extensions and
// voxels fill it exactly; gzip's checksum and length hold; whatever does not fit is a DataError
// that names the file and says what is wrong with it. (An uncompressed .nii has no checksum: a
// flipped bit in its voxels cannot be seen.)
//
// The affine is chosen as nibabel does: the sform where sform_code > 0, else the qform where
// qform_code > 0, else pixdim with x mirrored and the origin at the centre.
#pragma once

#include "kernels/files/nifti_file.h"
#include "kernels/files/volume.h"

namespace sluice {

// `dtype` as for read_volume().
Volume read_nifti(const std::filesystem::path& path, at::ScalarType dtype = at::kFloat,
                  const ReadBytes& read = read_plain);

// Writes [X, Y, Z] or [C, X, Y, Z] (C > 1 becomes the file's fourth axis) as NIfTI-1 with sform
// and, where the affine is orthogonal, qform, both coded "aligned". `dtype` is numpy's name
// ("int16"); integers are reached by truncation, as numpy's astype does, but a value outside
// their range is a DataError. Compressed where the name ends in .gz. See write_file().
void write_nifti(const std::filesystem::path& path, const at::Tensor& data, const Matrix4& affine,
                 const std::string& dtype = "float32", int gzip_level = 1);

// Displacements [3, X, Y, Z] in voxels, from a grid with affine `from` to voxels of one with affine
// `into`, as the vector image that ITK, ANTs and Slicer read: five axes, intent 1007, millimetres,
// x and y towards left and posterior.
void write_displacements(const std::filesystem::path& path, const at::Tensor& ddf,
                         const Matrix4& from, const Matrix4& into, int gzip_level = 1);

}  // namespace sluice
