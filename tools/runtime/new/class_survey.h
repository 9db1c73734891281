// What a folder with one sub-folder for each class holds, as far as a graph for it depends on that.
//
// Invariant: nothing is written; at most `most_images` images are read, evenly spread over the
// classes. Axes are those of the file, of volumes those of one turned to RAS.
#pragma once

#include <iosfwd>

#include "kernels/image/affine.h"
#include "kernels/lists/class_list.h"

namespace sluice {

struct ClassSurvey {
  static constexpr std::size_t most_images = 64;

  std::filesystem::path root;  // as the user gave it
  ClassList list;
  std::vector<std::int64_t> counts;  // images by class
  int axes = 2;
  std::int64_t channels = 1;
  std::vector<std::vector<std::int64_t>> sizes;  // of the images that were read
  std::vector<Vec3> spacings;                    // of volumes
  double low = 0, high = 0;                      // of all that were read
  std::vector<std::string> odd;                  // sentences
  std::size_t bad = 0;                           // images that cannot be read, of those looked at

  bool one_size() const;  // all alike
  std::vector<std::int64_t> median_size() const;
  Vec3 median_spacing() const;
};

// DataError where it is no such folder, or its images are of several kinds.
ClassSurvey survey_classes(const std::filesystem::path& folder);

void print_survey(const ClassSurvey& survey, std::ostream& out);

// starter_classification.cpp
std::string classification_graph(const ClassSurvey& survey);

}  // namespace sluice
