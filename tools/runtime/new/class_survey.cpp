#include "tools/runtime/new/class_survey.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "engine/base/error.h"
#include "kernels/files/volume.h"

namespace sluice {
namespace {

template <class T>
T median(std::vector<T> v) {
  const auto middle = v.begin() + std::ssize(v) / 2;
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

// A volume's extents and spacings as `orientation` to RAS leaves them.
void turn(const Volume& v, std::vector<std::int64_t>& size, Vec3& spacing) {
  const Reorder r = reorder_between(orientation_of(v.affine), parse_axcodes("RAS"));
  const std::vector<std::int64_t> stored = size;
  const Vec3 stored_spacing = voxel_spacing(v.affine);
  for (std::size_t a = 0; a < 3; ++a) {
    size[a] = stored[static_cast<std::size_t>(r.from[a])];
    spacing[a] = stored_spacing[static_cast<std::size_t>(r.from[a])];
  }
}

void add(ClassSurvey& s, const std::string& file, const Volume& v) {
  const auto sizes = v.data.sizes();
  const int axes = static_cast<int>(v.data.dim()) - 1;
  if (axes < 2 || axes > 3) throw DataError(file + fmt::format(": has {} spatial axes", axes));
  if (s.sizes.empty()) {
    s.axes = axes;
    s.channels = sizes[0];
  }
  if (axes != s.axes || sizes[0] != s.channels)
    throw Error(Exit::data, file + fmt::format(": has {} channels and {} axes, the images before "
                                               "{} and {}; a network takes one kind",
                                               sizes[0], axes, s.channels, s.axes));
  std::vector<std::int64_t> size(sizes.begin() + 1, sizes.end());
  Vec3 spacing{1, 1, 1};
  if (axes == 3) turn(v, size, spacing);
  const double low = v.data.min().item<double>(), high = v.data.max().item<double>();
  s.low = s.sizes.empty() ? low : std::min(s.low, low);
  s.high = s.sizes.empty() ? high : std::max(s.high, high);
  s.sizes.push_back(std::move(size));
  s.spacings.push_back(spacing);
}

void look_at_images(ClassSurvey& s) {
  const auto& items = s.list.items;
  const std::size_t n = std::min(ClassSurvey::most_images, items.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::string& file = items[i * items.size() / n].files[0].second;
    try {
      add(s, file, read_volume(file));
    } catch (const DataError& e) {
      if (s.odd.size() < 12) s.odd.emplace_back(e.what());
      ++s.bad;
    }
  }
  if (s.sizes.empty())
    throw DataError(s.root.string() + ": none of its images can be read: " + s.odd[0]);
}

std::string extents_text(const std::vector<std::int64_t>& size) {
  std::string text;
  for (const auto n : size) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

}  // namespace

bool ClassSurvey::one_size() const {
  return std::all_of(sizes.begin(), sizes.end(), [&](const auto& n) { return n == sizes[0]; });
}

std::vector<std::int64_t> ClassSurvey::median_size() const {
  std::vector<std::int64_t> m;
  for (std::size_t a = 0; a < static_cast<std::size_t>(axes); ++a) {
    std::vector<std::int64_t> all;
    for (const auto& size : sizes) all.push_back(size[a]);
    m.push_back(median(std::move(all)));
  }
  return m;
}

Vec3 ClassSurvey::median_spacing() const {
  Vec3 m;
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<double> all;
    for (const Vec3& spacing : spacings) all.push_back(spacing[a]);
    m[a] = std::strtod(fmt::format("{:.3g}", median(std::move(all))).c_str(), nullptr);
  }
  return m;
}

ClassSurvey survey_classes(const std::filesystem::path& folder) {
  ClassSurvey s;
  s.root = folder;
  if (!std::filesystem::is_directory(folder)) throw DataError(folder.string() + ": is no folder");
  s.list = class_folder(folder, "image");
  s.counts.resize(s.list.classes.size());
  for (const auto label : s.list.labels) ++s.counts[static_cast<std::size_t>(label)];
  look_at_images(s);
  return s;
}

void print_survey(const ClassSurvey& s, std::ostream& out) {
  const auto line = [&](const char* what, const std::string& text) {
    out << fmt::format("  {:<9} {}\n", what, text);
  };
  out << s.root.string() << ": a folder of images for each class\n";
  std::string classes;
  for (std::size_t c = 0; c < s.counts.size(); ++c)
    classes += (c ? ", " : "") + fmt::format("{} ({})", s.list.classes[c], s.counts[c]);
  line("classes", classes);
  line("images", fmt::format("{}, {} of them looked at", s.list.items.size(), s.sizes.size()));
  line("channels", std::to_string(s.channels));
  line("size", extents_text(s.median_size()) + (s.one_size() ? "" : ", the median of several"));
  line("values", fmt::format("{:g} to {:g}", s.low, s.high));
  for (const auto& sentence : s.odd) line("odd", sentence);
}

}  // namespace sluice
