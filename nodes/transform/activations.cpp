// activations: MONAI's Activationsd.
#include <ATen/Functions.h>

#include <algorithm>
#include <map>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

using Activation = at::Tensor (*)(const at::Tensor&);

// By the names of torch.nn.functional, with torch's defaults.
const std::map<std::string, Activation>& others() {
  static const std::map<std::string, Activation> known{
      {"relu", [](const at::Tensor& x) { return at::relu(x); }},
      {"relu6", [](const at::Tensor& x) { return at::clamp(x, 0, 6); }},
      {"leaky_relu", [](const at::Tensor& x) { return at::leaky_relu(x); }},
      {"elu", [](const at::Tensor& x) { return at::elu(x); }},
      {"selu", [](const at::Tensor& x) { return at::selu(x); }},
      {"gelu", [](const at::Tensor& x) { return at::gelu(x); }},
      {"silu", [](const at::Tensor& x) { return at::silu(x); }},
      {"mish", [](const at::Tensor& x) { return at::mish(x); }},
      {"softplus", [](const at::Tensor& x) { return at::softplus(x); }},
      {"logsigmoid", [](const at::Tensor& x) { return at::log_sigmoid(x); }},
      {"tanh", [](const at::Tensor& x) { return at::tanh(x); }}};
  return known;
}
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, function] : others()) all.push_back(name);
  return all;
}

struct Activations final : EachKey<Activations> {
  struct Params : KeyParams {
    std::vector<bool> sigmoid{false}, softmax{false};
    Maybe<std::string> other;
    std::optional<std::int64_t> dim;
    std::int64_t spatial_dims = 3;
    Params() { keys = {"pred"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("activations", "Logits to probabilities.",
                                 "Logits [C, ...], or [N, C, X, Y, Z].")
        .param("sigmoid", &Params::sigmoid,
               "Each channel by itself: 1 / (1 + exp(-x)); one, or one a key.")
        .per("keys")
        .param("softmax", &Params::softmax,
               "Over the channels; afterwards, where both are set; one, or one a key.")
        .per("keys")
        .param("other", &Params::other,
               "A further function, last, of torch.nn.functional; one, or one a key.")
        .choices(names())
        .per("keys")
        .param("dim", &Params::dim, "The axis of the channels; null: that before spatial_dims.")
        .param("spatial_dims", &Params::spatial_dims, "Spatial axes; the channels are before them.")
        .range(1, 3)
        .any_device()
        .differentiable()
        .takes("@keys", Form::any)
        .axis_count("@keys", "spatial_dims")
        .unless("dim", {})
        .changes("@keys")
        .dtype("float32");
  }

  void change(Field& field, std::size_t i) const {
    at::Tensor& t = field.tensor;
    if (flag(p.sigmoid, i)) t = at::sigmoid(t);
    if (flag(p.softmax, i)) {
      // Fewer axes than a sample has: the channels come first, as in MONAI.
      const std::int64_t first = std::max<std::int64_t>(0, t.dim() - p.spatial_dims - 1);
      t = at::softmax(t, p.dim ? axis_of(*p.dim, t, p.keys[i]) : first);
    }
    if (const auto other = maybe(p.other, i)) t = others().at(*other)(t);
  }
};

const Register<Activations> registered;

}  // namespace
}  // namespace sluice
