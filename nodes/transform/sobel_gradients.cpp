// sobel_gradients: MONAI's SobelGradientsd.
#include <ATen/Functions.h>

#include "kernels/image/filling.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

using Weights = std::vector<float>;

// Convolved with [1, 2, 1], without cutting.
Weights widened(const Weights& w, float factor) {
  Weights out(w.size() + 2);
  for (std::size_t i = 0; i < w.size(); ++i)
    for (std::size_t k = 0; k < 3; ++k) out[i + k] += w[i] * (k == 1 ? 2 : 1) * factor;
  return out;
}

struct SobelGradients final : EachKey<SobelGradients> {
  struct Params : KeyParams {
    std::int64_t kernel_size = 3;
    std::optional<std::vector<std::int64_t>> spatial_axes;
    bool normalize_kernels = true, normalize_gradients = false;
    std::string padding_mode = "reflect";
    std::optional<std::string> new_key_prefix;
  } p;
  Weights along, across;

  static Spec spec() {
    return each_key_spec<Params>("sobel_gradients",
                                 "The gradient along each axis, by Sobel's kernels.",
                                 "Fields [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("kernel_size", &Params::kernel_size, "Voxels of a kernel along an axis.")
        .at_least(3)
        .odd()
        .param("spatial_axes", &Params::spatial_axes,
               "Along which axes; the gradients stand one behind the other in the channels. null: "
               "all.")
        .param("normalize_kernels", &Params::normalize_kernels,
               "The weights' absolute values add up to 1.")
        .param("normalize_gradients", &Params::normalize_gradients,
               "Each axis' gradients are brought to [0, 1].")
        .param("padding_mode", &Params::padding_mode, "What stands outside; a constant is 0.")
        .choices({"constant", "reflect", "replicate", "circular"})
        .param("new_key_prefix", &Params::new_key_prefix,
               "The result is a field of the key's name with this in front; null: the key's own.")
        .takes("@keys", Form::image, 2, 3)
        .axes("@keys", "spatial_axes")
        .gives("@keys", Form::image)
        .dtype("float32")
        .unless("new_key_prefix", {})
        .gives("@new_key_prefix@keys", Form::image)
        .like("@keys")
        .dtype("float32")
        .when("new_key_prefix");
  }

  void open(const OpenContext&) override {
    along = {-1, 0, 1};
    across = {1, 2, 1};
    if (p.normalize_kernels) along = {-0.5f, 0, 0.5f}, across = {0.25f, 0.5f, 0.25f};
    for (std::int64_t n = 3; n < p.kernel_size; n += 2) {
      along = widened(along, p.normalize_kernels ? 0.25f : 1.0f);
      across = widened(across, p.normalize_kernels ? 0.25f : 1.0f);
    }
  }

  void process(Firing& f) override {
    if (!p.new_key_prefix) return EachKey::process(f);
    Sample out = f.in();
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      if (p.allow_missing_keys && !out.has(p.keys[i])) continue;
      Field field = out.at(p.keys[i]);
      change(field, i);
      out.set(*p.new_key_prefix + p.keys[i], std::move(field));
    }
    f.emit(std::move(out));
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const std::int64_t axes = field.tensor.dim() - 1;
    const at::Tensor x = to_volume(field.tensor).to(at::kFloat);
    std::vector<at::Tensor> all;
    for (std::int64_t k = 0; k < (p.spatial_axes ? std::ssize(*p.spatial_axes) : axes); ++k) {
      const std::int64_t axis =
          p.spatial_axes ? axis_in((*p.spatial_axes)[static_cast<std::size_t>(k)], axes, p.keys[i])
                         : k;
      at::Tensor g = x;
      for (std::int64_t d = 0; d < axes; ++d) g = filtered(g, d, d == axis ? along : across);
      if (p.normalize_gradients) {
        if (g.min().item<float>() != g.max().item<float>()) g = g - g.min();
        if (g.max().item<float>() > 0) g = g / g.max();
      }
      all.push_back(g);
    }
    field.tensor = from_volume(at::cat(all), axes);
  }

 private:
  static std::int64_t axis_in(std::int64_t axis, std::int64_t axes, const std::string& key) {
    if (axis < -axes || axis >= axes)
      throw DataError("field \"" + key + "\" has " + std::to_string(axes) +
                      " spatial axes; there is no axis " + std::to_string(axis));
    return axis < 0 ? axis + axes : axis;
  }

  at::Tensor filtered(const at::Tensor& x, std::int64_t axis, const Weights& weights) const {
    const std::int64_t n = x.size(axis + 1), r = std::ssize(weights) / 2;
    Box box{{}, shape_of(x)};
    box.start[static_cast<std::size_t>(axis)] = -r;
    box.size[static_cast<std::size_t>(axis)] += 2 * r;
    const at::Tensor padded = crop_pad(x, box, parse_filling(p.padding_mode), 0);
    at::Tensor out = at::zeros_like(x);
    for (std::int64_t k = 0; k < std::ssize(weights); ++k)
      if (weights[static_cast<std::size_t>(k)] != 0)
        out.add_(padded.narrow(axis + 1, k, n), weights[static_cast<std::size_t>(k)]);
    return out;
  }
};

const Register<SobelGradients> registered;

}  // namespace
}  // namespace sluice
