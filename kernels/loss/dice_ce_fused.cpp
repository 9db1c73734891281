#include "kernels/loss/dice_ce_fused.h"

#include <ATen/ATen.h>

namespace sluice {

FusedDiceCe::FusedDiceCe(const at::Tensor& logits, const at::Tensor& label,
                         const kernels::DiceCeRule& r)
    : sums_(logits, label, r),
      slopes_(static_cast<std::size_t>(sums_.groups())),
      classes_(r.classes) {
  total_ = kernels::dice_ce_finish(r, sums_.sums().data(), sums_.groups(), slopes_.data());
}

at::Tensor FusedDiceCe::loss() const {
  return at::full({}, static_cast<float>(total_.loss), at::kFloat);  // infinite where too large
}

std::vector<at::Tensor> FusedDiceCe::backward(const std::vector<at::Tensor>& grads) const {
  const double scale = grads[0].item<double>();
  std::vector<kernels::DiceCeSlopes> slopes = slopes_;
  for (auto& s : slopes)
    for (float* x : {s.by_i, s.by_p})
      for (int c = 0; c < classes_; ++c) x[c] = static_cast<float>(x[c] * scale);
  return {sums_.gradient(slopes, total_.ce * scale)};
}

}  // namespace sluice
