// Slices of a volume as pictures: the image in grey, what was predicted filled in translucent
// colour, the outline of what is true drawn over it. A class has one colour in both.
//
// Invariants: pixels are square in millimetres whatever the voxels are; the patient's left is on
// the left, and anterior, or superior where that is in the plane, on top; without an affine the
// first axis runs to the right and the second down. Each layer keeps its own grid: label and
// prediction are read at the image's voxels through the affines, nearest neighbour. The same
// fields give the same pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/files/png.h"
#include "kernels/image/affine.h"

namespace sluice {

// [C, X, Y, Z] or [C, X, Y], any type. As classes: the index of the largest channel, or, of one
// channel, its rounded value; 0 is background and is not drawn.
struct Layer {
  at::Tensor voxels;
  Affine affine{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  bool has_affine = false;
};

struct SliceStyle {
  int axis = 2;    // of the image's voxels: the slices stand across it
  int slices = 1;  // the one with most of the label (else of the prediction), then others over it
  int size = 256;  // the longer side, pixels
  // Intensities drawn black and white; else the 0.5th and 99.5th percentiles.
  std::optional<std::pair<double, double>> window;
};

struct Slice {
  std::int64_t position = 0;  // along the axis
  std::vector<int> classes;   // that occur in it, ascending, without 0
  Picture picture;
};

// Throws DataError where a layer is no volume, or where grids differ without affines to tell how.
std::vector<Slice> draw_slices(const Layer& image, const std::optional<Layer>& label,
                               const std::optional<Layer>& pred, const SliceStyle& style);

// The colour of class c >= 1: Okabe and Ito's palette, which is told apart with any colour vision.
Rgb class_color(int c);

}  // namespace sluice
