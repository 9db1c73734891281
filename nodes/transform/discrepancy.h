// What the transforms share that say where a prediction is wrong.
#pragma once

#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {

template <class P>
Spec& add_discrepancy(Spec& s, std::string pred, std::string discrepancy) {
  return s.param("pred", &P::pred, std::move(pred))
      .param("discrepancy", &P::discrepancy, std::move(discrepancy))
      .takes("@label", Form::image, 2, 3)
      .takes("@pred", Form::image, 2, 3)
      .gives("@discrepancy", Form::any)
      .dtype("uint8");
}

// A click is drawn where a prediction is wrong.
inline Spec& add_drawn_click(Spec& s) {
  return s.random()
      .takes("@guidance", Form::any)
      .takes("@discrepancy", Form::any)
      .takes("@probability", Form::any);
}

// What is missed, and what is too much.
inline at::Tensor wrong_voxels(const at::Tensor& truth, const at::Tensor& found) {
  return at::stack({truth.gt(found), found.gt(truth)});
}

// Sets the field `discrepancy` to of(the prediction).
template <class P, class Of>
void set_discrepancy(Sample& sample, const P& p, const at::Tensor& label, Of&& of) {
  const at::Tensor& pred = sample.tensor(p.pred);
  if (label.sizes() != pred.sizes())
    throw shape_error(p.label, label, ", \"" + p.pred + "\" " + list_text(pred.sizes()));
  Field field = sample.at(p.label);
  field.tensor = of(pred).to(at::kByte);
  sample.set(p.discrepancy, std::move(field));
}

}  // namespace sluice
