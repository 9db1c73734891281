// Lists of points in text files: a row a point, numbers apart by commas, semicolons, tabs or blanks
// (keypoints as .csv, DIR-Lab's .txt), or NumPy's .npy.
//
// Invariant: every row has as many numbers, all finite; whatever does not fit is a DataError that
// names file and line. A first row of words is a header; empty rows are none.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "kernels/files/file_io.h"

namespace sluice {

// [rows, columns], float64.
at::Tensor read_points(const std::filesystem::path& path, const ReadBytes& read = read_plain);

}  // namespace sluice
