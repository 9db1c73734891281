// What the bilateral filters share: a guide, and sigmas that may be trained.
#pragma once

#include "kernels/image/bilateral.h"
#include "nodes/transform/filtering.h"

namespace sluice {

struct BilateralParams : FilterParams {
  std::string guide_key = "guide";
  std::vector<double> spatial_sigma{5}, color_sigma{0.5};
};

template <class Params>
Spec& add_bilateral_params(Spec& s, bool guided) {
  using Text = std::string Params::*;
  using Numbers = std::vector<double> Params::*;
  add_filter_params<Params>(s);
  if (guided)
    s.param("guide_key", Text{&BilateralParams::guide_key},
            "Field with the image whose colours say what is alike.")
        .takes("@guide_key", Form::any);
  s.param("spatial_sigma", Numbers{&BilateralParams::spatial_sigma},
          "In voxels, one or one an axis. The window is 5 sigma wide, at least 5 voxels; voxels "
          "outside of the image are left out.")
      .above(0)
      .length(1, 3)
      .param("color_sigma", Numbers{&BilateralParams::color_sigma}, "In the guide's units.")
      .above(0)
      .length(1, 1);
  return on_tape(s).any_device();
}

// Guided: by a field of its own. Trained: of one channel, and with gradients to the sigmas, which
// may come in fields of their names.
template <bool guided, bool with_training>
struct BilateralNode : FilterNode<BilateralParams> {
 protected:
  at::Tensor of(const Sample& sample, FilterBatch& image) const override {
    const auto& p = this->p;
    std::optional<FilterBatch> guide;
    if (guided) {
      guide.emplace(sample, p.guide_key, image.axes());
      image.require_like(*guide, p.image_key, p.guide_key);
    }
    for (const auto& [batch, key] :
         {std::pair{&image, &p.image_key}, std::pair{guide ? &*guide : &image, &p.guide_key}})
      if (with_training && batch->of.size(1) != 1)
        throw DataError("field \"" + *key + "\" has " + std::to_string(batch->of.size(1)) +
                        " channels; a trained filter takes one");
    const at::Tensor spatial = trained(sample, "spatial_sigma", p.spatial_sigma),
                     color = trained(sample, "color_sigma", p.color_sigma);
    require_sigmas(spatial, "spatial_sigma", image.axes(), "axes");
    require_sigmas(color, "color_sigma", 1, "guide");
    return bilateral(image.of, guide ? guide->of : image.of,
                     with_training ? spatial : spatial.detach(),
                     with_training ? color : color.detach(), Neighbours::inside);
  }
};

}  // namespace sluice
