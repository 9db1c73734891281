// What nnU-Net's planner knows of a data set: extents, spacings and intensities of its cases.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/nnunet/dataset.h"

namespace sluice::nnunet {

// Of a channel over the foreground of all cases.
struct Intensities {
  double max = 0, mean = 0, median = 0, min = 0, percentile_00_5 = 0, percentile_99_5 = 0, std = 0;
};

struct Fingerprint {
  std::vector<std::array<double, 3>> spacings;  // mm, (z, y, x), a case each
  std::vector<std::array<double, 3>> shapes;    // voxels after the crop to what is not 0
  std::vector<Intensities> intensities;         // a channel each
  double relative_size = 1;  // median share of a case's voxels that the crop leaves

  std::size_t cases() const { return spacings.size(); }
};

// nnU-Net's dataset_fingerprint.json. DataError with the place: lists of unequal length, spacings
// that are not above 0, extents below 1, channels that are not the data set's.
Fingerprint read_fingerprint(const std::filesystem::path& file, const Dataset& dataset);
Json fingerprint_json(const Fingerprint& fingerprint);
// A channel's entry of "foreground_intensity_properties_per_channel".
Json intensities_json(const Fingerprint& fingerprint);

}  // namespace sluice::nnunet
