#include "nodes/model/diffusion.h"

namespace sluice {

at::Tensor with_condition(const at::Tensor& image, const Sample& sample,
                          const std::optional<std::string>& key) {
  if (!key) return image;
  const at::Tensor c = image_batch(sample, *key).to(image.device());
  if (c.dim() != image.dim() || c.size(0) != image.size(0) ||
      c.sizes().slice(2) != image.sizes().slice(2))
    throw DataError("\"" + *key + "\" does not go with the image: its batch and extents differ");
  return at::cat({image, c}, 1);
}

at::Tensor AskedModel::answer(const at::Tensor& image, float t, const Sample& sample,
                              std::optional<double> no_condition) const {
  at::Tensor x = with_condition(image, sample, p.condition_key);
  if (no_condition) {
    at::Tensor without = p.condition_key ? x.clone() : x;
    if (p.condition_key)
      without.narrow(1, image.size(1), x.size(1) - image.size(1)).fill_(*no_condition);
    x = at::cat({without, x});
  }
  const auto field = [&](const std::string& key) -> at::Tensor {
    const at::Tensor given = sample.tensor(key);
    if (!no_condition) return given;
    const bool is_condition = !p.condition_key && key == p.keys[1];
    return at::cat({is_condition ? at::full_like(given, *no_condition) : given, given});
  };
  const Network::Tensors begin{x, at::full({x.size(0)}, t, x.options())};
  Network::Tensors inputs = begin;
  for (std::size_t k = 1; k < p.keys.size(); ++k) inputs.push_back(field(p.keys[k]));
  if (controlnet_) {
    Network::Tensors its = begin;
    for (const std::string& key : p.controlnet_keys) its.push_back(field(key));
    for (at::Tensor& residual : controlnet_->forward(its, controlnet_->output_count()))
      inputs.push_back(std::move(residual));
  }
  return network_->forward(inputs, 1)[0].to(at::kFloat);
}

}  // namespace sluice
