// torchscript: a module that torch.jit.script or torch.jit.trace made and saved, trained and asked
// as it is: its parameters, buffers and modes are those of the file.
#include <ATen/ATen.h>
#include <torch/script.h>

#include <algorithm>
#include <unordered_set>

#include "engine/base/error.h"
#include "engine/base/read_file.h"
#include "engine/base/warnings.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "nodes/network/script_attributes.h"
#include "nodes/network/uncounted_outputs.h"

namespace sluice {
namespace {

// The tensors of what a module answers with, those within tuples, lists and dicts (in their order)
// too, up to what is none.
struct Answer {
  std::vector<at::Tensor> tensors;
  std::string stopped_at;  // its type; empty: that was all

  explicit Answer(const c10::IValue& y) { take(y); }

 private:
  void take(const c10::IValue& v) {
    if (!stopped_at.empty()) return;
    if (v.isTensor())
      tensors.push_back(v.toTensor());
    else if (v.isTuple())
      for (const auto& one : v.toTupleRef().elements()) take(one);
    else if (v.isList())
      for (const auto& one : v.toListRef()) take(one);
    else if (v.isGenericDict())
      for (const auto& one : v.toGenericDict()) take(one.value());
    else
      stopped_at = v.type()->annotation_str();
  }
};

// How many tensors there can be of an answer of this type.
std::size_t count_of(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return 1;
  const auto tuple = type->cast<c10::TupleType>();
  if (!tuple) return uncounted_outputs;
  std::size_t n = 0;
  for (const auto& one : tuple->elements()) n += count_of(one);
  return std::min(n, uncounted_outputs);
}

struct TorchScript final : Network {
  struct Params {
    std::string file;
    std::int64_t spatial_dims = 3, in_channels = 1, out_channels = 1;
  } p;
  torch::jit::Module module;

  static Spec spec() {
    return Spec::network("torchscript",
                         "A module of torch.jit.script or torch.jit.trace, as it is.")
        .param("file", &Params::file,
               "What torch.jit.save() wrote. It answers with a tensor, or with several in a tuple, "
               "list or dict, in their order. Parameters that need no gradient stay as they are.")
        .required()
        .param("spatial_dims", &Params::spatial_dims, "What the module takes: 1, 2 or 3.")
        .range(1, 3)
        .required()
        .param("in_channels", &Params::in_channels, "Channels of the image that it takes.")
        .at_least(1)
        .required()
        .param("out_channels", &Params::out_channels, "Channels of its first output, logits.")
        .at_least(1)
        .required();
  }

  void open() {
    read_text(p.file, 1);  // says why it cannot be read
    try {
      module = torch::jit::load(p.file);
    } catch (const c10::Error& e) {
      throw DataError(p.file +
                      ": is no TorchScript module: " + std::string(e.what_without_backtrace()));
    }
    const auto arguments = module.get_method("forward").function().getSchema().arguments();
    const auto needed =
        std::ranges::count_if(arguments, [](const c10::Argument& a) { return !a.default_value(); });
    if (needed != 2)  // itself, and the image
      throw Error(Exit::usage, p.file + ": its forward takes " + std::to_string(needed - 1) +
                                   " inputs; one image is given");
    attributes_.watch(module);
  }

  // A module may answer with several: the main one first.
  Tensors forward(const Tensors& x, std::size_t count) override {
    if (x.size() != 1)
      throw Error(Exit::usage, "torchscript takes one input, got " + std::to_string(x.size()));
    const at::Device here = x[0].device();
    if (const auto all = module.parameters(); all.size() > 0 && (*all.begin()).device() != here)
      module.to(here);
    at::manual_seed(key_);  // of its dropout
    Answer y(module.forward({x[0]}));
    look_at_attributes();
    Tensors& all = y.tensors;
    if (all.size() < count)
      throw Error(Exit::usage,
                  p.file + ": its forward answers with " + std::to_string(all.size()) +
                      (all.size() == 1 ? " tensor" : " tensors") +
                      (y.stopped_at.empty() ? "" : " before a value of type " + y.stopped_at) +
                      ", and " + std::to_string(count) + " are asked for");
    all.resize(count);
    for (auto& t : all) t = t.to(at::kFloat);
    require_channels(all[0]);
    return all;
  }
  Named parameters() const override { return named(module.named_parameters()); }
  Named buffers() const override { return named(module.named_buffers()); }
  void train(bool on) override {
    module.train(on);
    has_trained_ = has_trained_ || on;
  }
  void key_draws(std::uint64_t key) override { key_ = key; }
  void initialise(std::uint64_t) override {}  // the file's weights
  int spatial_axes() const override { return static_cast<int>(p.spatial_dims); }
  std::size_t output_count() const override {
    const auto& returns = module.get_method("forward").function().getSchema().returns();
    return returns.empty() ? 1 : std::max<std::size_t>(1, count_of(returns[0].type()));
  }

 private:
  // A tensor of several names, such as tied weights, by the first.
  template <class List>
  static Named named(const List& list) {
    Named all;
    std::unordered_set<const void*> taken;
    for (const auto& one : list)
      if (taken.insert(one.value.unsafeGetTensorImpl()).second)
        all.emplace_back(one.name, one.value);
    return all;
  }
  void look_at_attributes() const {
    const std::string name = attributes_.changed();
    if (name.empty()) return;
    const std::string what = p.file + ": its forward changes the attribute \"" + name +
                             "\", which is neither a parameter nor a buffer";
    if (has_trained_)
      throw Error(Exit::usage, what +
                                   ", so no checkpoint holds it and a resumed run would differ: "
                                   "make it a tensor of register_buffer()");
    warn(what + ", so its answers may depend on what it was asked before");
  }
  void require_channels(const at::Tensor& y) const {
    if (y.dim() < 2)
      throw Error(Exit::usage, p.file + ": its forward answers with " + c10::str(y.sizes()) +
                                   ", which has no channels; [N, C, ...] is expected");
    if (y.size(1) != p.out_channels)
      throw Error(Exit::usage, p.file + " has " + std::to_string(y.size(1)) +
                                   " channels in its output, out_channels is " +
                                   std::to_string(p.out_channels));
  }

  ScriptAttributes attributes_;
  bool has_trained_ = false;
  std::uint64_t key_ = 0;
};

const struct Registered {
  Registered() {
    Registry::global().add(
        TorchScript::spec(), nullptr,
        [](const Spec& spec, const Json& params) -> std::shared_ptr<Network> {
          auto network = std::make_shared<TorchScript>();
          spec.apply(&network->p, params);
          network->open();
          return network;
        },
        __FILE__);
  }
} registered_torchscript;

}  // namespace
}  // namespace sluice
