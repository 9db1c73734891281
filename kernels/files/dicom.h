// A folder with the files of one DICOM series, read by sluice_dicom (tools/dicom_reader.cpp): a
// process of its own with limits on memory and time, since what parses DICOM cannot be trusted with
// files of strangers.
//
// Invariant: the volume has every slice of the series, in the order of their places along the
// normal, evenly spaced; missing, doubled or foreign slices are a DataError that names the file.
// Rescale slope and intercept are applied.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_dicom_series(const std::filesystem::path& folder, at::ScalarType dtype,
                         const ReadBytes& read);

// Whether a file begins as DICOM does: "DICM" behind 128 bytes.
bool is_dicom_file(const std::filesystem::path& file);

}  // namespace sluice
