#include "tools/runtime/new/survey.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"
#include "engine/base/message.h"
#include "kernels/files/nifti.h"

namespace sluice {
namespace {

constexpr std::size_t most_odd = 12;            // sentences of one kind are enough after that
constexpr std::int64_t most_samples = 200'000;  // intensities a volume

void say(Survey& s, std::string sentence) {
  if (s.odd.size() < most_odd) s.odd.push_back(std::move(sentence));
}

// At most `most` of a list, evenly spread.
std::vector<const DataItem*> spread(const Survey& s, std::size_t most) {
  std::vector<const DataItem*> all, some;
  for (const auto* list : {&s.training, &s.validation})
    for (const auto& item : *list) all.push_back(&item);
  const std::size_t n = std::min(most, all.size());
  for (std::size_t i = 0; i < n; ++i) some.push_back(all[i * all.size() / n]);
  return some;
}

std::string file_of(const DataItem& item, const std::string& key) {
  for (const auto& [k, file] : item.files)
    if (k == key) return file;
  return "";
}

Geometry geometry_of(const NiftiHeader& h) {
  const Reorder r = reorder_between(orientation_of(h.affine), parse_axcodes("RAS"));
  const Shape3 size{h.axis(0), h.axis(1), h.axis(2)};
  const Vec3 spacing = voxel_spacing(h.affine);
  Geometry g;
  g.size = reorder_shape(r, size);
  for (std::size_t a = 0; a < 3; ++a) g.spacing[a] = spacing[static_cast<std::size_t>(r.from[a])];
  g.channels = h.channels();
  return g;
}

// ---- headers ------------------------------------------------------------------------------------

// What load_image will refuse: files of a case whose grids differ.
bool fits(Survey& s, const std::string& file, const NiftiHeader& a, const NiftiHeader& b) {
  for (int d = 0; d < 3; ++d)
    if (a.axis(d) != b.axis(d)) {
      say(s, file + fmt::format(" is {} x {} x {}, its image {} x {} x {}", b.axis(0), b.axis(1),
                                b.axis(2), a.axis(0), a.axis(1), a.axis(2)));
      return false;
    }
  if (near(a.affine, b.affine, 1e-3)) return true;
  say(s, file + " has another affine than its image");
  return false;
}

void look_at_header(Survey& s, const DataItem& item) {
  try {
    const std::string& first = item.files.front().second;
    const NiftiHeader image = read_nifti_header(first);
    bool good = true;
    for (std::size_t i = 1; i < item.files.size(); ++i) {
      const auto& [key, file] = item.files[i];
      const NiftiHeader other = read_nifti_header(file);
      good = fits(s, file, image, other) && good;
      if (key == "label" && other.channels() != 1)
        throw DataError(file + ": has " + std::to_string(other.channels()) +
                        " channels; a label holds class indices in one");
    }
    s.geometries.push_back(geometry_of(image));
    if (!good) ++s.bad;
  } catch (const DataError& e) {
    say(s, e.what());
    ++s.bad;
  }
}

void compare_geometries(Survey& s) {
  if (s.geometries.empty())
    throw DataError(s.root.string() + ": none of its volumes can be read" +
                    (s.odd.empty() ? "" : ": " + s.odd.front()));
  for (const Geometry& g : s.geometries)
    if (g.channels != s.geometries.front().channels) {
      say(s, fmt::format("volumes have {} channels and {}", s.geometries.front().channels,
                         g.channels));
      return;
    }
}

// ---- voxels -------------------------------------------------------------------------------------

void add_label_values(Survey& s, const at::Tensor& label, const std::string& file) {
  const at::Tensor seen = std::get<0>(at::_unique(label));
  if (seen.numel() > 4096)
    throw DataError(file + ": is an image, not a label: it has " + std::to_string(seen.numel()) +
                    " different values");
  for (std::int64_t i = 0; i < seen.numel(); ++i) s.label_values.insert(seen[i].item<double>());
}

// Some intensities, of the foreground where a label is given.
void add_intensities(std::vector<float>& all, const at::Tensor& image, const at::Tensor& label) {
  at::Tensor values = image[0].flatten();
  if (label.defined() && label.numel() == values.numel())
    values = values.masked_select(label.flatten().ne(0));
  const std::int64_t step = std::max<std::int64_t>(1, values.numel() / most_samples);
  values = values.slice(0, 0, std::nullopt, step).contiguous();
  const float* p = values.const_data_ptr<float>();
  all.insert(all.end(), p, p + values.numel());
}

void look_at_voxels(Survey& s, const DataItem& item, std::vector<float>& intensities) {
  try {
    const std::string label_file = file_of(item, "label");
    const at::Tensor image = read_nifti(item.files.front().second).data;
    at::Tensor label;
    if (!label_file.empty()) {
      label = read_nifti(label_file).data;
      add_label_values(s, label, label_file);
      const double share = label.ne(0).to(at::kDouble).mean().item<double>();
      s.foreground += (share - s.foreground) / static_cast<double>(++s.label_volumes);
      if (share == 0) say(s, label_file + " has no foreground");
    }
    const double least = image.min().item<double>();
    s.least = s.has_intensities ? std::min(s.least, least) : least;
    s.has_intensities = true;
    if (!std::isfinite(image.sum().item<double>()))
      say(s, item.files.front().second + " has voxels that are not finite");
    add_intensities(intensities, image, label);
  } catch (const DataError& e) {
    say(s, e.what());
    ++s.bad;
  }
}

void find_percentiles(Survey& s, std::vector<float>& v) {
  std::erase_if(v, [](float x) { return !std::isfinite(x); });
  if (v.empty()) return;
  const auto at = [&](double share) {
    const auto n = v.begin() + static_cast<std::ptrdiff_t>(share * double(v.size() - 1));
    std::nth_element(v.begin(), n, v.end());
    return double{*n};
  };
  s.low = at(0.005);
  s.high = at(0.995);
}

// Labels that dataset.json does not name.
void compare_labels(Survey& s) {
  if (s.labels.empty()) return;
  for (double v : s.label_values)
    if (v != std::floor(v) || !s.labels.count(static_cast<std::int64_t>(v)))
      say(s, fmt::format("a label has the value {:g}, which dataset.json does not name", v));
}

double median(std::vector<double> v) {
  const auto middle = v.begin() + std::ssize(v) / 2;
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

bool Survey::is_ct() const {
  const auto names_ct = [](const std::string& given) {
    const std::string name = upper_case(given);
    return name == "CT" || name.starts_with("CT ") || name.starts_with("CT_");
  };
  if (!channels.empty()) return std::all_of(channels.begin(), channels.end(), names_ct);
  return has_intensities && least < -500;  // air in Hounsfield units
}

Survey survey_folder(const std::filesystem::path& folder, bool with_labels) {
  Survey s;
  s.root = folder;
  find_layout(s, with_labels);
  if (s.name.empty())
    s.name = std::filesystem::absolute(folder / ".").lexically_normal().parent_path().filename();
  for (const DataItem* item : spread(s, Survey::most_headers)) look_at_header(s, *item);
  compare_geometries(s);
  std::vector<float> intensities;
  for (const DataItem* item : spread(s, Survey::most_volumes))
    look_at_voxels(s, *item, intensities);
  find_percentiles(s, intensities);
  compare_labels(s);
  return s;
}

namespace {

template <class Get>
Vec3 medians(const Survey& s, Get get) {
  Vec3 m;
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<double> all;
    for (const Geometry& g : s.geometries) all.push_back(get(g, a));
    m[a] = median(all);
  }
  return m;
}

Shape3 whole(const Vec3& v) {
  Shape3 n;
  for (std::size_t a = 0; a < 3; ++a) n[a] = std::max<std::int64_t>(1, std::llround(v[a]));
  return n;
}

}  // namespace

Vec3 median_spacing(const Survey& s) {
  Vec3 m = medians(s, [](const Geometry& g, std::size_t a) { return g.spacing[a]; });
  for (double& v : m) v = std::strtod(fmt::format("{:.3g}", v).c_str(), nullptr);
  return m;
}

Shape3 median_size(const Survey& s) {
  return whole(
      medians(s, [](const Geometry& g, std::size_t a) { return static_cast<double>(g.size[a]); }));
}

Shape3 median_resampled_size(const Survey& s) {
  const Vec3 spacing = median_spacing(s);
  return whole(medians(s, [&](const Geometry& g, std::size_t a) {
    return static_cast<double>(g.size[a]) * g.spacing[a] / spacing[a];
  }));
}

// ---- the summary --------------------------------------------------------------------------------

std::string size_text(const Shape3& n) { return fmt::format("{} x {} x {}", n[0], n[1], n[2]); }
std::string spacing_text(const Vec3& v) {
  return fmt::format("{:.3g} x {:.3g} x {:.3g}", v[0], v[1], v[2]);
}

namespace {

// "80 x 95 x 79", or "64 x 80 x 60 to 96 x 110 x 92" axis by axis.
template <class Get>
auto range_of(const Survey& s, Get get) {
  auto low = get(s.geometries.front()), high = low;
  for (const Geometry& g : s.geometries)
    for (std::size_t a = 0; a < 3; ++a) {
      low[a] = std::min(low[a], get(g)[a]);
      high[a] = std::max(high[a], get(g)[a]);
    }
  return std::pair{low, high};
}

std::string with_range(const std::string& median, const std::string& low, const std::string& high) {
  return low == high ? median : median + "  (" + low + " to " + high + ")";
}

std::string labels_text(const Survey& s) {
  std::string text;
  for (const auto& [value, name] : s.labels)
    text += (text.empty() ? "" : ", ") + std::to_string(value) + " " + printable(name);
  std::string seen;
  for (double v : s.label_values) {
    if (seen.size() > 60) {
      seen += ", ...";
      break;
    }
    seen += (seen.empty() ? "" : ", ") + fmt::format("{:g}", v);
  }
  return (text.empty() ? "values " : text + "; values ") + seen +
         fmt::format(" in {} volumes, {:.2g} % foreground", s.label_volumes, 100 * s.foreground);
}

const char* layout_text(DataLayout layout) {
  constexpr const char* texts[] = {"Medical Segmentation Decathlon", "nnU-Net, version 2",
                                   "a folder of images, one of labels", "a folder of images"};
  return texts[static_cast<int>(layout)];
}

std::string modality_text(const Survey& s) {
  std::string names;
  for (const auto& name : s.channels) names += (names.empty() ? "" : ", ") + printable(name);
  if (names.empty())
    names = s.is_ct() ? "not said; taken for CT, since there are values below -500"
                      : "not said; taken for MR, since no value is below -500";
  return names;
}

}  // namespace

void print_survey(const Survey& s, std::ostream& out) {
  const auto line = [&](const char* what, const std::string& text) {
    out << fmt::format("  {:<9} {}\n", what, text);
  };
  out << s.root.string() << ": " << layout_text(s.layout) << '\n';
  line("cases", s.validation.empty() ? std::to_string(s.cases())
                                     : fmt::format("{} for training, {} for validation",
                                                   s.training.size(), s.validation.size()));
  line("modality", modality_text(s));
  const auto size = range_of(s, [](const Geometry& g) { return g.size; });
  const auto spacing = range_of(s, [](const Geometry& g) { return g.spacing; });
  line("size",
       with_range(size_text(median_size(s)), size_text(size.first), size_text(size.second)));
  line("spacing", with_range(spacing_text(median_spacing(s)), spacing_text(spacing.first),
                             spacing_text(spacing.second)) +
                      " mm");
  if (s.label_volumes) line("labels", labels_text(s));
  for (const auto& sentence : s.odd) line("odd", sentence);
  if (s.odd.size() == most_odd) line("odd", "... and perhaps more");
}

}  // namespace sluice
