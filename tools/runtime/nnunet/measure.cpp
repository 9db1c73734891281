#include "tools/runtime/nnunet/measure.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "engine/base/error.h"
#include "kernels/files/volume.h"
#include "kernels/image/affine.h"
#include "kernels/image/axes.h"
#include "kernels/image/spatial.h"
#include "kernels/lists/data_list.h"
#include "kernels/lists/nnunet_list.h"
#include "kernels/lists/numpy_random.h"
#include "tools/nnunet/statistics.h"
#include "tools/nnunet/value_counts.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t draws_of_all = 100'000'000;
constexpr std::uint32_t seed = 1234;
constexpr double geometry_tolerance = 1e-3;  // as load_image's

DataList cases_of(const Dataset& d) {
  DataList list;
  if (d.decathlon) {
    list = decathlon_list(d.root, "training", 0, 0);
    std::sort(list.begin(), list.end(),
              [](const DataItem& a, const DataItem& b) { return a.name < b.name; });
  } else {
    const NnunetFolder folder = read_nnunet_folder(d.root);
    std::vector<std::string> keys;
    for (std::size_t c = 0; c < folder.images(); ++c) keys.push_back("image" + std::to_string(c));
    list = nnunet_list(folder, {"training", -1, 5}, keys, "label");
  }
  if (std::ssize(list) != d.training)
    throw DataError(fmt::format("{}: numTraining is {}, and there are {} cases",
                                (d.root / "dataset.json").string(), d.training, list.size()));
  return list;
}

// What nnU-Net's Tiff3DIO takes of CASE.json beside a CASE_0000.tif, (z, y, x); 1 without it.
std::array<double, 3> spacing_beside(const fs::path& image) {
  std::string name = image.stem().string();
  name.resize(name.size() - std::min<std::size_t>(name.size(), 5));  // "_0000"
  const fs::path file = image.parent_path() / (name + ".json");
  if (!fs::exists(file)) return {1, 1, 1};
  const auto document = read_json(file);
  const auto spacing = document.is_object() ? document.find("spacing") : document.end();
  std::array<double, 3> all{};
  bool right = spacing != document.end() && spacing->is_array() && spacing->size() == 3;
  for (std::size_t a = 0; right && a < 3; ++a) {
    right = (*spacing)[a].is_number() && (*spacing)[a].get<double>() > 0;
    if (right) all[a] = (*spacing)[a];
  }
  if (!right)
    throw DataError(file.string() +
                    ": has no \"spacing\" of three numbers above 0, as that of a volume in mm");
  return all;
}

// (z, y, x); a picture's z is 999 times its larger spacing, and pixels without a size have 1.
std::array<double, 3> spacing_for_plan(const Volume& volume, const fs::path& file,
                                       const Dataset& d) {
  const auto& s = volume.spacing;
  if (!volume.has_affine && volume.data.dim() == 4)
    return d.reader.starts_with("SimpleITKIO") ? std::array<double, 3>{1, 1, 1}
                                               : spacing_beside(file);
  if (!volume.has_affine) return {999, 1, 1};
  if (volume.data.dim() == 3) return {999 * std::max(s[0], s[1]), s[1], s[0]};
  return {s[2], s[1], s[0]};
}

// Axes along RAS, as nnU-Net's readers WithReorient turn them.
void turn(Volume& volume) {
  const std::int64_t axes = volume.data.dim() - 1;
  if (!volume.has_affine || axes < 2 || axes > 3) return;
  const Reorder r = reorder_between(orientation_of(of_axes(volume.affine, axes)),
                                    parse_axcodes({"R", "A", "S"}, axes));
  const at::Tensor whole = to_volume(volume.data);
  volume.affine = multiply(volume.affine, reorder_affine(r, shape_of(whole)));
  volume.spacing = spacing_of(volume.affine);
  volume.data = from_volume(reorder(whole, r), axes);
}

struct Case {
  at::Tensor image, label;  // float32 [C, Z, Y, X] and [Z, Y, X]: the files' order of voxels
  std::array<double, 3> spacing{};
};

// [C, X, Y, Z], or a picture's [C, X, Y], with the file's first axis last.
at::Tensor in_scan_order(const at::Tensor& data) {
  at::Tensor t = data;
  if (t.dim() < 3) throw DataError("has fewer than two axes");
  if (t.dim() == 3) t = t.unsqueeze(3);
  return t.permute({0, 3, 2, 1}).contiguous();
}

void must_fit(const Volume& first, const Volume& other, const std::string& file) {
  if (first.data.sizes().slice(1) != other.data.sizes().slice(1) ||
      !near(first.affine, other.affine, geometry_tolerance))
    throw DataError(file + ": has another geometry than the case's first channel");
}

void must_be_listed(const at::Tensor& label, const std::set<std::int64_t>& values,
                    const std::string& file) {
  const at::Tensor seen = std::get<0>(at::_unique(label));
  for (std::int64_t i = 0; i < seen.numel(); ++i) {
    const double value = seen[i].item<double>();
    if (!values.count(std::llround(value)) || value != std::round(value))
      throw DataError(
          fmt::format("{}: has label {}, which dataset.json does not list", file, value));
  }
}

Case read_case(const DataItem& item, const Dataset& d, const std::set<std::int64_t>& values) {
  Case c;
  std::vector<at::Tensor> channels;
  Volume first;
  for (const auto& [key, file] : item.files) {
    Volume volume = read_volume(file);
    if (d.reader.ends_with("WithReorient")) turn(volume);
    if (!first.data.defined()) first = volume;
    must_fit(first, volume, file);
    const at::Tensor data = in_scan_order(volume.data);
    if (!data.isfinite().all().item<bool>())
      throw DataError(file + ": has values that are NaN or infinite");
    if (key == "label") {
      must_be_listed(data, values, file);
      c.label = data[0];
    } else {
      channels.push_back(data);
    }
  }
  if (!c.label.defined()) throw DataError(item.name + ": has no label");
  c.image = at::cat(channels);
  if (c.image.size(0) != std::ssize(d.channels))
    throw DataError(fmt::format("{}: has {} channels; dataset.json names {}",
                                item.files.front().second, c.image.size(0), d.channels.size()));
  c.spacing = spacing_for_plan(first, item.files.front().second, d);
  return c;
}

// From the first to the last index of an axis with anything that is not 0; all where all is 0.
std::pair<std::int64_t, std::int64_t> range_of(const at::Tensor& mask, std::int64_t axis) {
  const std::vector<std::int64_t> others{(axis + 1) % 3, (axis + 2) % 3};
  const at::Tensor any = at::amax(mask, others).nonzero();
  if (any.numel() == 0) return {0, mask.size(axis)};
  return {any[0][0].item<std::int64_t>(), any[-1][0].item<std::int64_t>() + 1};
}

void crop_to_nonzero(Case& c) {
  const at::Tensor mask = c.image.ne(0).any(0);
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    const auto [from, to] = range_of(mask, axis);
    c.image = c.image.slice(axis + 1, from, to);
    c.label = c.label.slice(axis, from, to);
  }
}

using Counts = std::vector<ValueCounts::Count>;

// Each channel's foreground, drawn `n` times with replacement; the channels share the generator.
std::vector<Counts> draw(const Case& c, std::int64_t n) {
  const at::Tensor foreground = c.label.gt(0);
  NumpyRandom random(seed);
  std::vector<Counts> all;
  for (std::int64_t channel = 0; channel < c.image.size(0); ++channel) {
    const at::Tensor values = c.image[channel].masked_select(foreground).contiguous();
    const auto pool = static_cast<std::uint32_t>(values.numel());
    Counts counts;
    if (pool > 0) {
      const float* p = values.const_data_ptr<float>();
      for (std::uint32_t i = 0; i < pool; ++i) counts.push_back({p[i], 0});
      for (std::int64_t i = 0; i < n; ++i) ++counts[random.interval(pool - 1)].times;
      std::erase_if(counts, [](const auto& count) { return count.times == 0; });
      compact(counts);
    }
    all.push_back(std::move(counts));
  }
  return all;
}

std::set<std::int64_t> listed_values(const Dataset& d) {
  std::set<std::int64_t> values;
  for (const Label& label : d.labels) values.insert(label.values.begin(), label.values.end());
  return values;
}

}  // namespace

Fingerprint measure(const Dataset& dataset) {
  const DataList cases = cases_of(dataset);
  const auto values = listed_values(dataset);
  Fingerprint f;
  f.spacings.resize(cases.size());
  f.shapes.resize(cases.size());
  std::vector<double> shares(cases.size());
  std::vector<ValueCounts> counts(dataset.channels.size());
  std::mutex adding;
  tbb::parallel_for(std::size_t{0}, cases.size(), [&](std::size_t i) {
    Case c = read_case(cases[i], dataset, values);
    const auto whole = static_cast<double>(c.label.numel());
    crop_to_nonzero(c);
    f.spacings[i] = c.spacing;
    for (std::size_t a = 0; a < 3; ++a)
      f.shapes[i][a] = static_cast<double>(c.label.size(static_cast<std::int64_t>(a)));
    shares[i] = static_cast<double>(c.label.numel()) / whole;
    const auto drawn = draw(c, draws_of_all / std::ssize(cases));
    const std::lock_guard lock(adding);
    for (std::size_t k = 0; k < drawn.size(); ++k) counts[k].add(drawn[k]);
  });
  if (counts.front().draws() == 0)
    throw DataError(dataset.root.string() +
                    ": no case has foreground, so there are no intensities and nothing to learn");
  for (ValueCounts& of_channel : counts) f.intensities.push_back(of_channel.statistics());
  f.relative_size = median(shares);
  return f;
}

}  // namespace sluice::nnunet
