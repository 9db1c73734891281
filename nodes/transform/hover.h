// What the nodes of HoVerNet's post-processing share: their parameters by MONAI's names, and maps
// of one channel.
#pragma once

#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/instances.h"
#include "nodes/fields.h"

namespace sluice {

template <class P>
Spec& add_activation(Spec& s) {
  return s
      .param(
          "activation", &P::activation,
          "softmax: the class of the largest channel, 0 is the background; sigmoid: one channel.")
      .choices({"softmax", "sigmoid"})
      .param("threshold", &P::threshold, "Of the sigmoid; null: 0.5.");
}

// A map [1, X, Y], or [1, X, Y, Z] where `most` is 3.
inline const at::Tensor& map_of(const Sample& sample, const std::string& key, int most = 2) {
  const at::Tensor& t = sample.tensor(key);
  require_spatial(t, key, 2);
  if (t.size(0) != 1 || t.dim() > most + 1)
    throw DataError("field \"" + key + "\" " + list_text(t.sizes()) + " is no map [1, X, Y" +
                    (most == 3 ? "(, Z)]" : "]"));
  return t;
}

inline void require_extents(const at::Tensor& t, const std::string& key, const at::Tensor& like,
                            const std::string& other) {
  if (t.sizes().slice(1) != like.sizes().slice(1))
    throw DataError("field \"" + key + "\" " + list_text(t.sizes()) + " does not lie on \"" +
                    other + "\" " + list_text(like.sizes()));
}

// A mask and the border between its instances.
template <class P>
Spec& add_mask_and_border(Spec& s) {
  return s.in("sample")
      .out("sample")
      .param("mask_key", &P::mask_key, "The mask, [1, X, Y] of 0 and 1.")
      .param("border_key", &P::border_key, "generate_instance_border's map.")
      .takes("@mask_key", Form::image, 2, 2)
      .takes("@border_key", Form::image, 2, 2);
}

// Sets a field to of(mask, border), on their grid.
template <class P, class Of>
void set_of_border(Sample& sample, const P& p, const std::string& key, Of&& of) {
  const at::Tensor &mask = map_of(sample, p.mask_key), &border = map_of(sample, p.border_key);
  require_extents(border, p.border_key, mask, p.mask_key);
  const auto meta = sample.at(p.mask_key).meta;
  sample.set(key, Field(of(mask, border), meta));
}

// HoVerNet's two maps of distances, on the grid of `like`.
inline const at::Tensor& hover_of(const Sample& sample, const std::string& key,
                                  const at::Tensor& like, const std::string& other) {
  const at::Tensor& t = sample.tensor(key);
  require_spatial(t, key, 2);
  if (t.size(0) != 2 || t.dim() != 3)
    throw DataError("field \"" + key + "\" " + list_text(t.sizes()) +
                    " is not [2, X, Y]: horizontal and vertical distances");
  require_extents(t, key, like, other);
  return t;
}

// Logits of a mask or of types, [C, X, Y(, Z)].
inline const at::Tensor& logits_of(const Sample& sample, const std::string& key,
                                   const std::string& activation) {
  const at::Tensor& t = sample.tensor(key);
  require_spatial(t, key, 2);
  if (activation == "sigmoid" && t.size(0) != 1)
    throw DataError("field \"" + key + "\" has " + std::to_string(t.size(0)) +
                    " channels; activation sigmoid needs one");
  return t;
}

}  // namespace sluice
