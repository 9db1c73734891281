#include "tools/runtime/new/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"

namespace sluice {
namespace {

constexpr std::int64_t patch_voxels = 64 * 64 * 64;

std::int64_t product(const Shape3& n) { return n[0] * n[1] * n[2]; }

// The median volume, made smaller in proportion where it is more than patch_voxels.
Shape3 first_patch(const Shape3& size) {
  const double shrink =
      std::min(1.0, std::cbrt(double(patch_voxels) / static_cast<double>(product(size))));
  Shape3 p;
  for (std::size_t a = 0; a < 3; ++a)
    p[a] = std::max<std::int64_t>(4, std::llround(double(size[a]) * shrink));
  return p;
}

// An axis is halved while 4 voxels remain and its voxels are less than twice the finest; so
// thick slices wait until the other axes have become as coarse. A fourth level halves all or none.
std::vector<Shape3> find_strides(const Shape3& patch, Vec3 spacing) {
  Vec3 extent{double(patch[0]), double(patch[1]), double(patch[2])};
  std::vector<Shape3> strides;
  while (strides.size() < 4) {
    double finest = 1e300;
    for (std::size_t a = 0; a < 3; ++a)
      if (extent[a] / 2 >= 4) finest = std::min(finest, spacing[a]);
    Shape3 stride{1, 1, 1};
    for (std::size_t a = 0; a < 3; ++a)
      if (extent[a] / 2 >= 4 && spacing[a] < 2 * finest) stride[a] = 2;
    if (stride == Shape3{1, 1, 1} || (strides.size() == 3 && stride != Shape3{2, 2, 2})) break;
    for (std::size_t a = 0; a < 3; ++a) {
      extent[a] /= double(stride[a]);
      spacing[a] *= double(stride[a]);
    }
    strides.push_back(stride);
  }
  if (strides.empty()) strides.push_back({1, 1, 1});
  return strides;
}

void shape_network(Recipe& r, const Survey& s) {
  r.spacing = median_spacing(s);
  const Shape3 size = median_resampled_size(s);
  if (*std::min_element(size.begin(), size.end()) < 4)
    throw DataError(s.root.string() + ": the median volume is " + size_text(size) +
                    " voxels; starter graphs are 3-D and want 4 along each axis");
  r.patch = first_patch(size);
  r.strides = find_strides(r.patch, r.spacing);
  Shape3 multiple{1, 1, 1};
  for (const Shape3& stride : r.strides)
    for (std::size_t a = 0; a < 3; ++a) multiple[a] *= stride[a];
  for (std::size_t a = 0; a < 3; ++a)
    r.patch[a] = (r.patch[a] + multiple[a] - 1) / multiple[a] * multiple[a];
  for (std::size_t level = 0; level <= r.strides.size(); ++level)
    r.channels.push_back(std::min<std::int64_t>(16 << level, 256));
}

void count_classes(Recipe& r, const Survey& s) {
  for (double v : s.label_values)
    if (v < 0 || v != std::floor(v))
      throw DataError(s.root.string() + ": a label holds " + fmt::format("{:g}", v) +
                      "; classes are whole numbers from 0");
  const auto& seen = s.label_values;
  const double most = seen.empty() ? 0 : *seen.rbegin();
  r.binarise = seen.size() == 2 && *seen.begin() == 0 && most > 1 && s.labels.size() <= 2;
  if (r.binarise) return;
  const double named = s.labels.empty() ? 0 : static_cast<double>(s.labels.rbegin()->first);
  const double highest = std::max({most, named, 1.0});
  if (highest > 255)
    throw DataError(s.root.string() + fmt::format(": labels go up to {:g}; a network has at most "
                                                  "256 classes: number them anew from 0",
                                                  highest));
  r.classes = static_cast<std::int64_t>(highest) + 1;
}

std::string rounded(double v) { return fmt::format("{:g}", 10 * std::round(v / 10)); }

void choose_normalisation(Recipe& r, const Survey& s, std::size_t channels) {
  if (!s.is_ct()) {
    r.normalisation = "\"type\": \"normalize_intensity\", \"nonzero\": true";
    if (channels > 1) r.normalisation += ", \"channel_wise\": true";
    r.normalisation_why = "Not CT: mean 0 and standard deviation 1 of the voxels that are not 0.";
    return;
  }
  const bool known = s.label_volumes > 0 && s.high > s.low;
  r.normalisation = fmt::format(
      "\"type\": \"scale_intensity_range\", \"a_min\": {}, \"a_max\": {},\n"
      "                  \"b_min\": 0, \"b_max\": 1, \"clip\": true",
      known ? rounded(s.low) : "-175", known ? rounded(std::max(s.high, s.low + 20)) : "250");
  r.normalisation_why = known
                            ? "CT: from the 0.5 to the 99.5 % quantile of the foreground seen, in "
                              "Hounsfield units, to 0..1."
                            : "CT: a window for soft tissue, in Hounsfield units, to 0..1.";
}

// As many patches as make four of patch_voxels, no more than an epoch has.
void size_training(Recipe& r, const Survey& s) {
  const auto cases = std::ssize(s.training);
  r.batch = std::clamp<std::int64_t>(4 * patch_voxels / product(r.patch), 2, 8);
  r.batch = std::min<std::int64_t>(r.batch, cases * r.num_samples);
  const double steps = std::max(1.0, double(cases * r.num_samples) / double(r.batch));
  r.epochs = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(2000 / steps)), 10, 200);
  r.validate_every = std::max<std::int64_t>(1, r.epochs / 20);
  double voxels = static_cast<double>(product(median_resampled_size(s)));
  const double channels =
      double(s.channel_files) * double(s.geometries.front().channels) + 1;  // and the label
  r.cache_gib = voxels * 4 * channels * double(s.cases()) / (1 << 30);
  r.caches = r.cache_gib <= cache_limit_gib;
}

bool names_sides(const Survey& s) {
  for (const auto& [value, name] : s.labels) {
    const std::string low = lower_case(name);
    if (low.find("left") != std::string::npos || low.find("right") != std::string::npos)
      return true;
  }
  return false;
}

}  // namespace

Recipe make_recipe(const Survey& s, bool with_labels) {
  Recipe r;
  shape_network(r, s);
  const auto channels = s.channel_files * static_cast<std::size_t>(s.geometries.front().channels);
  choose_normalisation(r, s, channels);
  if (!with_labels) {
    if (!s.labels.empty()) r.classes = std::max<std::int64_t>(2, s.labels.rbegin()->first + 1);
    return r;
  }
  count_classes(r, s);
  size_training(r, s);
  r.flips = !names_sides(s);
  return r;
}

}  // namespace sluice
