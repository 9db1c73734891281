// A folder with the files of one DICOM series, or a file alone, read by sluice_dicom (tools/dicom):
// a process of its own with limits on memory and time, since what parses DICOM cannot be trusted
// with files of strangers.
//
// Invariant: the volume has every slice of the series, in the order of their places along the
// normal, evenly spaced; missing, doubled or foreign slices are a DataError that names the file.
// Rescale slope and intercept are applied.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kernels/files/file_io.h"
#include "kernels/files/volume.h"

namespace sluice {

Volume read_dicom_series(const std::filesystem::path& folder, at::ScalarType dtype,
                         const ReadBytes& read);

// The bytes of a DICOM segmentation object of labels, uint8 [1, X, Y, Z] on the series' own grid:
// 0 is background, n the n-th of `about`'s segments (tools/dicom/segmentation.cpp). Another grid,
// or a series that cannot be read, is a DataError.
FileBytes dicom_segmentation(const std::filesystem::path& series, const at::Tensor& labels,
                             const Matrix4& affine, nlohmann::json about);

// Whether a file begins as DICOM does: "DICM" behind 128 bytes.
bool is_dicom_file(const std::filesystem::path& file);

}  // namespace sluice
