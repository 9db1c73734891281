// What networks of steps share: the file's parameters of a network of images, its building, the
// forward pass, and PyTorch's view of its tensors.
//
// Invariant: parameters have the names of the state_dict of the network that it says it is.
#pragma once

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/layered.h"
#include "engine/state/resource.h"
#include "kernels/net/blocks.h"
#include "kernels/net/sparsity.h"
#include "nodes/network/checks.h"
#include "nodes/network/shared_params.h"

namespace sluice {

// The parameters that networks of images share.
struct ImageNet {
  std::int64_t spatial_dims = 3, in_channels = 1, out_channels = 2;
  std::string precision = "float32", memory = "keep";
  std::optional<std::int64_t> memory_budget;
  Json sparsity;
  ImageNet();  // not inline: g++ 12 would take `precision` for uninitialised in derived ones
};

// A network's Spec with these parameters, as members of its Params: so their defaults are its own.
// `given`: all but precision must be.
template <class Params>
Spec image_net(std::string name, std::string doc, bool given = true,
               std::string outputs = "Channels of the output, logits.") {
  using Number = std::int64_t Params::*;
  using Text = std::string Params::*;
  using Bytes = std::optional<std::int64_t> Params::*;
  using Any = Json Params::*;
  Spec s = Spec::network(std::move(name), std::move(doc));
  s.param("spatial_dims", Number{&ImageNet::spatial_dims}, "2 or 3.").range(2, 3);
  s.params.back().required = given;
  s.param("in_channels", Number{&ImageNet::in_channels}, "Channels of the image.").at_least(1);
  s.params.back().required = given;
  s.param("out_channels", Number{&ImageNet::out_channels}, std::move(outputs)).at_least(1);
  s.params.back().required = given;
  s.param(
       "precision", Text{&ImageNet::precision},
       "What convolutions and activations compute in; weights stay float32. auto: bfloat16 where "
       "the GPU or the CPU multiplies in it, else float32.")
      .choices({"float32", "bfloat16", "float16", "auto"})
      .param(
          "memory", Text{&ImageNet::memory},
          "What a training step keeps for its backward pass: keep: everything; light: all but the "
          "results of norms, activations and concatenations that are quickly computed again; "
          "recompute: so little that its peak is lowest, the rest is computed again; offload: "
          "everything, but what is not read for long waits in the host's memory, copied beside a "
          "GPU's work; auto: as much as memory_budget has room for, the rest is computed again. "
          "The result is the same to the bit.")
      .choices({"keep", "light", "recompute", "offload", "auto"})
      .param("memory_budget", Bytes{&ImageNet::memory_budget},
             "memory auto: bytes of a training step's activations and their gradients.")
      .at_least(1)
      .param(
          "sparsity", Any{&ImageNet::sparsity},
          "Zeros among the weights of 2-D and 3-D convolutions, chosen by magnitude in the epoch "
          "from_epoch and kept from then on: {\"pattern\": \"vector\", \"keep\": 0.5, "
          "\"from_epoch\": 0}: blocks of 16 outputs, one tap and two inputs, which predictions on "
          "the CPU pass over; or {\"pattern\": \"2:4\"} along the inputs. null: none.");
  return s;
}
// ... of one that answers with classes of whole images.
template <class Params>
Spec class_net(std::string name, std::string doc, bool given = true) {
  return image_net<Params>(std::move(name), std::move(doc), given,
                           "Classes; the output is logits [N, classes].")
      .gives("logits", Form::any)
      .dtype("float32");
}

// MONAI's "norm" and "act": a name, or [name, {arguments}]; the names, of which case does not
// matter.
const std::vector<std::string>& norm_names();
const std::vector<std::string>& act_names();
NormOptions norm_of(const Json& given);
Act act_of(const Json& given);
// Of MONAI's classes that are made of its Convolution and ADN alone, which take None for either.
std::optional<NormOptions> norm_or_none(const std::optional<Json>& given);
std::optional<Act> act_or_none(const std::optional<Json>& given);

// What a network takes, under the key by which `sluice apply` and messages name it.
struct NetInput {
  // [N, C, ...], [N, T, C], [N, ...], or of any shape and flattened to [N, C].
  enum class Kind { image, tokens, number, vector } kind = Kind::image;
  std::string key = "image";
  std::int64_t channels = 1;  // 0: any
  std::int64_t finer = 1;     // an image's extents are the first image's times this; 0: any
  std::int64_t further = 0;   // a number's axes after N, of any extents
  static NetInput number(std::string key, std::int64_t further = 0) {
    return {.kind = Kind::number, .key = std::move(key), .further = further};
  }
};

class BuiltNetwork : public Network, public Layered {
 public:
  using Network::forward;
  Tensors forward(const Tensors& x, std::size_t count) override;
  std::size_t output_count() const override { return net_.output_count(); }
  Named parameters() const override;
  Named buffers() const override;
  void train(bool on) override {
    training_ = on;
    net_.forget_copies();
  }
  void spread(const std::vector<at::Device>& devices) override { net_.spread(devices); }
  void key_draws(std::uint64_t k) override { key_ = k; }
  void initialise(std::uint64_t seed) override { net_.initialise(seed); }
  // Copies go to other devices, and to the host, in streams that a recording does not see.
  bool recordable() const override {
    return !net_.draws() && !net_.is_spread() && sparse_.weights.empty() &&
           net_.memory_policy.kind != MemoryPolicy::Kind::offload;
  }
  bool settle(std::uint32_t epoch) override;
  bool computes_in_half() const override { return net_.compute == at::kHalf; }
  Work last_work() const override;
  std::vector<LayerCost> layer_costs() const override;
  LayerView view_layer(const std::string& layer, const at::Tensor& x, const Score& score) override;
  const Net& net() const { return net_; }
  Net& net() { return net_; }
  const std::vector<NetInput>& inputs() const { return inputs_; }
  // Of the inputs for one sample whose first image has these extents; of tokens 8.
  std::vector<Step::Size> input_sizes(const std::vector<std::int64_t>& extents) const;
  std::int64_t channels() const { return inputs_[0].channels; }  // of the first image
  int spatial_axes() const override { return dims_; }
  // Why an image of these spatial extents does not fit; "": it does.
  virtual std::string unfit(at::IntArrayRef /*extents*/) const { return ""; }

 protected:
  // Runs `build` on these inputs; what it refuses is said in the network's name.
  void make(const std::string& type, const ImageNet& shared, bool channels_last,
            std::vector<NetInput> inputs,
            const std::function<Values(const Scope&, const Values&)>& build);
  // MONAI's normal_init: weights of layers are drawn around 0, their biases are 0; `batch_norms`:
  // those of norms are drawn around 1.
  void begin_normal(bool batch_norms);
  [[noreturn]] static void refuse(const std::string& why) { throw Error(Exit::usage, why); }

 private:
  void begin_sparsity(const Json& given);
  void choose_zeros();
  void check(const Tensors& x) const;

  Net net_;
  Sparse sparse_;          // each weight has a mask,
  std::size_t masks_ = 0;  // the buffers from this one on
  Sparsity sparsity_;
  std::int64_t zeros_from_ = 0;  // epoch
  bool zeros_chosen_ = false;
  std::string type_;
  std::vector<NetInput> inputs_;
  int dims_ = 0;  // spatial axes
  bool training_ = false;
  std::uint64_t key_ = 0;
};

// A network of images of type T, which has Params p (derived from ImageNet), spec() and
// Values build(const Scope&, const Value& image) const; one of several inputs, or of another than
// an image of in_channels, says std::vector<NetInput> inputs() const and builds on const Values&.
// With `static constexpr int least_axes = 1` it takes signals [N, C, X] too; with 3 volumes alone.
template <class T>
class ImageNetwork : public BuiltNetwork {
 public:
  void open(const Spec& spec) {
    const T& self = static_cast<const T&>(*this);
    bool channels_last = true;
    if constexpr (requires { self.p.channels_last; }) channels_last = self.p.channels_last;
    if constexpr (requires(const Scope& s, const Values& x) { self.build(s, x); })
      make(spec.name, self.p, channels_last, self.inputs(),
           [&](const Scope& s, const Values& x) { return self.build(s, x); });
    else
      make(spec.name, self.p, channels_last, {{.channels = self.p.in_channels}},
           [&](const Scope& s, const Values& x) { return self.build(s, x[0]); });
    if constexpr (requires { self.p.init; })
      if (self.p.init == "normal") {
        const auto norm = norm_or_none(self.p.norm);
        begin_normal(norm && norm->kind == Norm::batch);
      }
  }
};

// `const RegisterNetwork<UNet> registered;` in the network's file.
template <class T>
struct RegisterNetwork {
  explicit RegisterNetwork(const char* file = __builtin_FILE()) {
    Spec spec = T::spec();
    const decltype(T::p) made{};
    spec.defaults_from(&made);
    if constexpr (requires { T::least_axes; }) {
      ParamSpec& axes = declared(spec, "spatial_dims");
      axes.min = T::least_axes;
      axes.doc = T::least_axes == 1 ? "1, 2 or 3." : "3.";
    }
    Registry::global().add(
        std::move(spec), nullptr,
        [](const Spec& spec, const Json& params) -> std::shared_ptr<Network> {
          auto network = std::make_shared<T>();
          spec.apply(&network->p, params);
          network->open(spec);
          return network;
        },
        file);
  }
};

}  // namespace sluice
