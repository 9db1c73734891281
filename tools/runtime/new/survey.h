// What a folder with data holds, as far as a graph for it depends on that: which layout, which
// cases, how large, what modality, which labels, and what is odd.
//
// Invariant: nothing is written; only headers of at most `most_headers` cases and the voxels of at
// most `most_volumes` are read, evenly spread. Axes are those of a volume turned to RAS.
#pragma once

#include <array>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/image/affine.h"
#include "kernels/lists/data_list.h"

namespace sluice {

enum class DataLayout { decathlon, nnunet, pairs, files };

struct Geometry {
  Shape3 size{};
  Vec3 spacing{};
  std::int64_t channels = 1;
};

struct Survey {
  static constexpr std::size_t most_headers = 200, most_volumes = 8;

  DataLayout layout = DataLayout::files;
  std::filesystem::path root;    // as the user gave it
  std::filesystem::path images;  // layout files: the folder; pairs: the images' folder
  std::string name;              // of the data set
  DataList training, validation;
  std::string split = "training";     // the list of a data set that `training` is; or "test"
  bool has_validation = false;        // the data set says which cases are for validation
  double val_frac = 0;                // decathlon, where it does not
  std::int64_t folds = 5;             // nnunet
  std::vector<std::string> channels;  // "CT"; from dataset.json, may be empty
  std::size_t channel_files = 1;      // files a case has for its channels
  std::map<std::int64_t, std::string> labels;  // from dataset.json, may be empty

  std::vector<Geometry> geometries;  // of the headers that were read
  std::set<double> label_values;     // seen
  std::size_t label_volumes = 0;     // in how many volumes
  double foreground = 0;             // share of the voxels in those
  double low = 0, high = 0;          // 0.5 and 99.5 % of the foreground's intensities
  double least = 0;                  // the lowest intensity seen
  bool has_intensities = false;
  std::vector<std::string> odd;  // sentences
  std::size_t bad = 0;           // cases that load_image would refuse, of those looked at

  std::size_t cases() const { return training.size() + validation.size(); }
  bool is_ct() const;
};

// Looks at a folder for segmentation (images with labels) or prediction (images alone).
// DataError where it is no layout that is known, naming what was looked for.
Survey survey_folder(const std::filesystem::path& folder, bool with_labels);

void print_survey(const Survey& survey, std::ostream& out);

Vec3 median_spacing(const Survey& survey);
Shape3 median_size(const Survey& survey);  // as stored
// The median extents where every volume has the median spacing.
Shape3 median_resampled_size(const Survey& survey);

// "96 x 96 x 64"
std::string size_text(const Shape3& size);
// "0.78 x 0.78 x 2.5"
std::string spacing_text(const Vec3& spacing);

// survey_layout.cpp
void find_layout(Survey& survey, bool with_labels);

}  // namespace sluice
