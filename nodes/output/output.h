// What the output nodes share: how samples become pictures, and their parameters for it.
//
// Invariant: the members of a batch are drawn one by one under their own names; a label or a
// prediction that a sample lacks is left out, and so is one without axes of space, as a class.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/overlay.h"
#include "kernels/lists/data_list.h"
#include "nodes/fields.h"

namespace sluice {

struct PictureParams {
  std::string image_key = "image", label_key = "label", pred_key = "pred";
  std::int64_t slices = 1, axis = 2, size = 256, spatial_dims = 3;
  std::optional<std::vector<double>> window;
};

template <class Params>
Spec& add_picture_params(Spec& s) {
  return s.param("image_key", &Params::image_key, "Field drawn in grey, its first channel.")
      .param("label_key", &Params::label_key,
             "Field with the truth, outlined: class indices [1, ...] or one channel a class. What "
             "has no axes of space, as the class of an image, is not drawn.")
      .param("pred_key", &Params::pred_key,
             "Field with the prediction, filled: scores [C, ...] or class indices [1, ...].")
      .param("slices", &Params::slices,
             "Slices of a volume: the one with most of the label (of the prediction where there is "
             "no label), then others spread over it.")
      .range(1, 64)
      .param("axis", &Params::axis, "The image's axis that the slices stand across.")
      .range(0, 2)
      .param("size", &Params::size, "The longer side, pixels.")
      .range(16, 2048)
      .param("window", &Params::window,
             "Intensities drawn black and white, [low, high]; null: the 0.5th and 99.5th "
             "percentiles of each volume.")
      .param("spatial_dims", &Params::spatial_dims, "Spatial axes; one more than C is a batch.")
      .range(2, 3)
      .takes("@image_key", Form::any, 2, 3)
      .any_device();
}

struct DrawnVolume {
  std::string name;
  std::vector<Slice> slices;
};

class Painter {
 public:
  explicit Painter(const PictureParams& p) : p_(p) {
    style_.axis = static_cast<int>(p.axis);
    style_.slices = static_cast<int>(p.slices);
    style_.size = static_cast<int>(p.size);
    if (p.window && p.window->size() != 2)
      throw Error(Exit::usage, "window needs two values: black's and white's");
    if (p.window) style_.window = {p.window->front(), p.window->back()};
  }

  // The slices of at most `most` members of a sample.
  std::vector<DrawnVolume> draw(const Sample& sample, std::int64_t most) const {
    const at::Tensor& image = sample.tensor(p_.image_key);
    if (!image.defined())
      throw DataError("field \"" + p_.image_key + "\" is a record that no node has loaded yet");
    const bool batch = image.dim() == p_.spatial_dims + 2;
    const std::int64_t members = batch ? image.size(0) : 1;
    std::vector<DrawnVolume> all;
    for (std::int64_t n = 0; n < std::min(members, most); ++n) {
      const auto optional = [&](const std::string& key) -> std::optional<Layer> {
        if (!sample.has(key) || !sample.tensor(key).defined()) return std::nullopt;
        if (sample.tensor(key).dim() < (batch ? 3 : 2)) return std::nullopt;
        return layer(sample.at(key), batch, n);
      };
      all.push_back({name(sample, members, n),
                     draw_slices(layer(sample.at(p_.image_key), batch, n), optional(p_.label_key),
                                 optional(p_.pred_key), style_)});
    }
    return all;
  }

 private:
  static Layer layer(const Field& field, bool batch, std::int64_t n) {
    const auto i = static_cast<std::size_t>(n);
    const Meta& meta = *field.meta[i < field.meta.size() ? i : 0];
    return {batch ? field.tensor[n] : field.tensor, meta.affine, meta.has_affine};
  }

  std::string name(const Sample& sample, std::int64_t members, std::int64_t n) const {
    if (members == 1) return sample.name;
    const Field& image = sample.at(p_.image_key);
    const auto i = static_cast<std::size_t>(n);
    if (i < image.meta.size() && !image.meta[i]->path.empty())
      return file_stem(image.meta[i]->path);
    return sample.name + "_" + std::to_string(n);
  }

  const PictureParams& p_;
  SliceStyle style_;
};

}  // namespace sluice
