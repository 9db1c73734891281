// What grid_patch and rand_grid_patch share: MONAI's GridPatch.
//
// Patches are taken row by row from `offset` on, a stride of round(size * (1 - overlap)) apart
// (half to even). Without padding only whole patches are; with it those that begin inside of the
// image. A whole axis has one patch, from `offset` to the image's end.
#pragma once

#include <ATen/Functions.h>

#include <cmath>
#include <numeric>

#include "engine/run/registry.h"
#include "kernels/image/filling.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct GridPatchParams {
  std::vector<std::string> keys{"image"};
  std::vector<std::int64_t> patch_size;
  std::optional<std::int64_t> num_patches;
  std::vector<double> overlap{0};
  std::string sort_fn, location_key = "location", pad_mode;
  std::optional<double> threshold;
  double pad_value = 0;
  bool allow_missing_keys = false;
};

template <class Params>
Spec& add_grid_patch_params(Spec& s, const std::vector<std::string>& orders) {
  return s.in("sample")
      .out("sample", "[patches, C, patch_size]")
      .param("keys", &Params::keys, "Images [C, X, Y(, Z)].")
      .param("patch_size", &Params::patch_size,
             "One extent an axis; 0: the whole axis, from the offset on.")
      .required()
      .at_least(0)
      .length(2, 3)
      .param("num_patches", &Params::num_patches,
             "So many; the rest is filled with pad_value where there are fewer, unless there is a "
             "threshold. null: all.")
      .at_least(1)
      .param("overlap", &Params::overlap, "Share of a patch, one or one an axis.")
      .at_least(0)
      .below(1)
      .param("sort_fn", &Params::sort_fn,
             "Which num_patches keeps, by the sum of values; \"\": the first.")
      .choices(orders)
      .param("threshold", &Params::threshold, "Keeps patches whose sum is below it; null: all.")
      .param("pad_mode", &Params::pad_mode,
             "How what sticks out is filled; \"\": patches that stick out are left out.")
      .choices([] {
        std::vector<std::string> names = filling_names;
        names.insert(names.begin(), "");
        return names;
      }())
      .param("pad_value", &Params::pad_value, "The constant.")
      .param("location_key", &Params::location_key,
             "Field with the patches' first voxels, [patches, axes], of the first key.")
      .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
      .takes("@keys", Form::image, 2, 3)
      .per_axis("@keys", "overlap")
      .gives("@keys", Form::any)
      .gives("@location_key", Form::any)
      .dtype("int64");
}

struct GridPatches {
  at::Tensor patches, locations;
};

// `order`: of n patches the numbers in the order in which num_patches keeps them.
template <class Order>
GridPatches grid_patches(const at::Tensor& image, const std::string& key, const GridPatchParams& p,
                         const std::vector<std::int64_t>& offset, Order&& order) {
  const at::Tensor volume = to_volume(image);
  const auto axes = static_cast<std::size_t>(image.dim() - 1);
  if (p.patch_size.size() != axes)
    throw DataError("patch_size has " + std::to_string(p.patch_size.size()) + " axes, \"" + key +
                    "\" " + list_text(image.sizes()));
  const auto overlap = one_an_axis(p.overlap, image.dim() - 1, "overlap");
  const Shape3 shape = shape_of(volume);
  Box box{{}, {1, 1, 1}};
  Shape3 first{}, end{1, 1, 1}, step{1, 1, 1};
  for (std::size_t d = 0; d < axes; ++d) {
    const bool whole = p.patch_size[d] == 0;
    first[d] = offset[d];
    box.size[d] = whole                ? shape[d] - offset[d]
                  : p.pad_mode.empty() ? std::min(p.patch_size[d], shape[d])
                                       : p.patch_size[d];
    end[d] = p.pad_mode.empty() || whole ? shape[d] - box.size[d] + 1 : shape[d];
    if (box.size[d] < 1 || first[d] >= end[d])
      throw DataError("\"" + key + "\" " + list_text(image.sizes()) + " has no patch: axis " +
                      std::to_string(d) + " has an extent of " + std::to_string(shape[d]) +
                      ", and the first patch" +
                      (whole ? "" : ", of " + std::to_string(box.size[d]) + ",") +
                      " begins at offset " + std::to_string(offset[d]));
    step[d] = std::llrint(static_cast<double>(box.size[d]) * (1 - (whole ? 0 : overlap[d])));
    if (step[d] < 1)
      throw DataError("overlap leaves no step between patches of " + std::to_string(box.size[d]));
  }
  const Filling filling = p.pad_mode.empty() ? Filling::constant : parse_filling(p.pad_mode);
  std::vector<at::Tensor> all;
  std::vector<std::int64_t> places;
  for (box.start[0] = first[0]; box.start[0] < end[0]; box.start[0] += step[0])
    for (box.start[1] = first[1]; box.start[1] < end[1]; box.start[1] += step[1])
      for (box.start[2] = first[2]; box.start[2] < end[2]; box.start[2] += step[2]) {
        at::Tensor patch =
            from_volume(crop_pad(volume, box, filling, p.pad_value), image.dim() - 1);
        if (p.threshold && patch.sum(at::kDouble).item<double>() >= *p.threshold) continue;
        all.push_back(std::move(patch));
        places.insert(places.end(), box.start.begin(),
                      box.start.begin() + static_cast<std::ptrdiff_t>(axes));
      }
  std::vector<std::int64_t> sizes{image.size(0)};
  sizes.insert(sizes.end(), box.size.begin(), box.size.begin() + static_cast<std::ptrdiff_t>(axes));
  sizes.insert(sizes.begin(), 0);
  GridPatches out{
      all.empty() ? at::empty(sizes, image.options()) : at::stack(all),
      at::tensor(places, at::kLong).view({std::ssize(all), static_cast<std::int64_t>(axes)})};
  if (!p.num_patches) return out;
  const std::vector<std::int64_t> chosen = order(out.patches);
  const at::Tensor index =
      at::tensor(chosen, at::kLong).narrow(0, 0, std::min(*p.num_patches, std::ssize(chosen)));
  out = {out.patches.index_select(0, index), out.locations.index_select(0, index)};
  const std::int64_t missing = *p.num_patches - index.numel();
  if (missing > 0 && !p.threshold) {
    sizes[0] = missing;
    out.patches = at::cat({out.patches, at::full(sizes, p.pad_value, image.options())});
    out.locations =
        at::cat({out.locations, at::zeros({missing, out.locations.size(1)}, at::kLong)});
  }
  return out;
}

// By rising or falling sums, of equal ones the first; or as they are.
inline std::vector<std::int64_t> order_by_sum(const at::Tensor& patches,
                                              const std::string& sort_fn) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(patches.size(0)));
  std::iota(order.begin(), order.end(), 0);
  if (sort_fn.empty()) return order;
  std::vector<double> sums;
  for (std::int64_t i = 0; i < patches.size(0); ++i)
    sums.push_back(patches[i].sum(at::kDouble).item<double>());
  const double sign = sort_fn == "max" ? -1 : 1;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return sign * sums[static_cast<std::size_t>(a)] < sign * sums[static_cast<std::size_t>(b)];
  });
  return order;
}

// Each key's patches; the first one's locations.
template <class Offset, class Order>
void split_into_patches(Sample& out, const GridPatchParams& p, Offset&& offset, Order&& order) {
  Field locations;
  for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
    require_spatial(field.tensor, p.keys[i]);
    GridPatches made = grid_patches(field.tensor, p.keys[i], p, offset(field.tensor), order);
    if (!locations.tensor.defined()) locations = Field(made.locations, field.meta);
    field.tensor = std::move(made.patches);
  });
  if (locations.tensor.defined()) out.set(p.location_key, std::move(locations));
}

}  // namespace sluice
