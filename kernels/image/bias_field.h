// A smooth multiplicative field, as uneven coils leave it in MR images: exp of a Legendre series.
//
// Invariant: coefficients stand in a dense table of (degree + 1) ^ rank, row-major, first axis
// first. The series is summed axis by axis, so a voxel costs degree + 1 multiplications and one
// exponential, whatever the rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice::kernels {

// How many free coefficients a field has: (degree + rank) choose rank.
std::int64_t bias_coefficients(int rank, int degree);

// Places the free coefficients into the table as MONAI does: in 3-D those with i + j + k <= degree,
// in 2-D those with j <= i.
std::vector<double> bias_table(int rank, int degree, const std::vector<double>& coefficients);

// image * exp(field) for [C, X, Y] or [C, X, Y, Z]; every channel gets the same field. Where `into`
// is defined the result is written there (into.h): it may be the image itself.
at::Tensor apply_bias_field(const at::Tensor& image, int degree, const std::vector<double>& table,
                            const at::Tensor& into = {});

// A volume's table of at most degree 3 as the free coefficients of degree 3: what AugmentJob holds.
std::vector<double> cubic_coefficients(int degree, const std::vector<double>& table);

}  // namespace sluice::kernels
