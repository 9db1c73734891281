// fully_connected_net, var_fully_connected_net: MONAI's FullyConnectedNet and VarFullyConnectedNet
// (monai.networks.nets 1.6.1) with their parameter names and defaults. The input may have any
// shape: its numbers are taken one after the other.
//
//   fully_connected_net      x ─ linear, activation, ... ─ linear ─▶
//   var_fully_connected_net  x ─ linear, ... ─ mu, logvar ─ z ─ linear, relu ─ linear, ... ─
//   sigmoid
#include "nodes/network/built_network.h"
#include "nodes/network/latent.h"

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

struct VectorParams : ImageNet {
  std::optional<double> dropout;
  std::optional<Json> act = Json("PRELU");
  bool bias = true;
  std::optional<std::string> adn_ordering;
  VectorParams() { spatial_dims = 0; }
};

template <class Params>
Spec vector_spec(const char* name, const char* doc) {
  Spec s = image_net<Params>(name, doc, true, "Numbers of the output.");
  leave_out(s, {"spatial_dims"});
  declared(s, "in_channels").doc = "Numbers of a sample, whatever its shape.";
  return s.gives("logits", Form::any)
      .dtype("float32")
      .param("dropout", &Params::dropout,
             "Probability that a value becomes 0 in training; null: none.")
      .range(0, 0.99)
      .param("act", &Params::act, monai_name_or_none_doc)
      .choices(act_names())
      .param("bias", &Params::bias, "Linear layers have a bias.")
      .param("adn_ordering", &Params::adn_ordering,
             "Order of activation (A) and dropout (D); null: NDA.");
}

template <class T>
struct VectorNetwork : ImageNetwork<T> {
  std::vector<NetInput> inputs() const {
    return {{NetInput::Kind::vector, "image", self().p.in_channels}};
  }

 protected:
  Adn adn() const {
    const VectorParams& p = self().p;
    return {p.adn_ordering.value_or("NDA"), {}, act_or_none(p.act), p.dropout.value_or(0)};
  }

 private:
  const T& self() const { return static_cast<const T&>(*this); }
};

struct FullyConnectedNet final : VectorNetwork<FullyConnectedNet> {
  struct Params : VectorParams {
    Numbers hidden_channels;
  } p;
  static Spec spec() {
    return vector_spec<Params>("fully_connected_net", "Linear layers (MONAI's FullyConnectedNet).")
        .param("hidden_channels", &Params::hidden_channels, "Of the layers before the last.")
        .at_least(1)
        .required();
  }
  Values build(const Scope& s, const Values& x) const {
    Value y = x[0];
    for (std::size_t i = 0; i < p.hidden_channels.size(); ++i) {
      const Scope at = s / ("hidden_" + std::to_string(i));
      y = sluice::adn(at / 1, linear(at / 0, y, p.hidden_channels[i], {.bias = p.bias}), adn());
    }
    return {linear(s / "output", y, p.out_channels, {.bias = p.bias})};
  }
};

struct VarFullyConnectedNet final : VectorNetwork<VarFullyConnectedNet> {
  struct Params : VectorParams, LatentParams {
    Numbers encode_channels, decode_channels;
  } p;
  static Spec spec() {
    Spec s = vector_spec<Params>(
        "var_fully_connected_net",
        "Autoencoder of linear layers with normally distributed latent numbers (MONAI's "
        "VarFullyConnectedNet). Further outputs: mu, logvar (gaussian_kl_loss: \"spread\": "
        "\"logvar\") and the latent numbers z.");
    return add_latent_params<Params>(s)
        .param("encode_channels", &Params::encode_channels, "Of the layers before them.")
        .at_least(1)
        .required()
        .param("decode_channels", &Params::decode_channels, "Of those after them.")
        .at_least(1)
        .required();
  }
  Values build(const Scope& s, const Values& x) const {
    // MONAI's layers share one activation, which has the first one's name.
    const Scope shared = !p.encode_channels.empty()   ? s / "encode.encode_0.ADN"
                         : !p.decode_channels.empty() ? s / "decode.decode0.ADN"
                                                      : s / "adn_layer";
    const auto layer = [&](const Scope& at, const Value& y, std::int64_t out) {
      return sluice::adn(shared, linear(at / 0, y, out, {.bias = p.bias}), adn());
    };
    Value y = x[0];
    for (std::size_t i = 0; i < p.encode_channels.size(); ++i)
      y = layer(s / "encode" / ("encode_" + std::to_string(i)), y, p.encode_channels[i]);
    const auto [mu, logvar, z] = latent_of(s, y, p);
    y = relu(linear(s / "decodeL", z, y.channels));
    for (std::size_t i = 0; i < p.decode_channels.size(); ++i)
      y = layer(s / "decode" / ("decode" + std::to_string(i)), y, p.decode_channels[i]);
    y = linear(s / "decode.final", y, p.out_channels, {.bias = p.bias});
    return {sigmoid(y), mu, logvar, z};
  }
};

const RegisterNetwork<FullyConnectedNet> registered;
const RegisterNetwork<VarFullyConnectedNet> registered_var;

}  // namespace
}  // namespace sluice
