// model: one forward pass of a network of "models" over a batch.
#include <ATen/core/grad_mode.h>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

struct Model final : Node {
  struct Params {
    std::string net;
    std::vector<std::string> keys{"image"}, output_keys{"pred"};
    std::optional<std::string> geometry_key;
  } p;

  static Spec spec() {
    return Spec("model", "Runs a network on a batch; in a training stream with gradients.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net, "The network's name in \"models\".")
        .required()
        .param("keys", &Params::keys,
               "Fields with the network's inputs in its order, [N, C, X(, Y, Z)] float32.")
        .length(1)
        .param("output_keys", &Params::output_keys,
               "Fields for its outputs, [N, C', X(, Y, Z)]; of a network with several (deep "
               "supervision) as many as are named here, the main one first. Others are not "
               "computed.")
        .length(1)
        .param("geometry_key", &Params::geometry_key,
               "The field on whose grid the outputs lie: of a registration the fixed image; null: "
               "the first of keys.")
        .reads("net")
        .random()
        .lane(LaneKind::step)
        .limit(1)
        .takes("@keys", Form::batch, 1, 3)
        .enters("@keys", "net")
        .gives("@output_keys", Form::batch)
        .like("@keys")
        .channels("@net.out_channels")
        .dtype("float32")
        .differentiable()
        .any_device();
  }

  void open(const OpenContext& context) override {
    network_ = context.resources->network(p.net);
    training_ = context.training;
    if (p.output_keys.size() > network_->output_count())
      throw Error(Exit::usage, "network \"" + p.net + "\" has " +
                                   std::to_string(network_->output_count()) + " outputs, but " +
                                   std::to_string(p.output_keys.size()) + " output_keys are named");
  }

  void process(Firing& f) override {
    Network::Tensors x;
    bool taped = training_;  // or gradients go through it to a network before
    for (const std::string& key : p.keys) {
      x.push_back(f.in().tensor(key));
      taped = taped || x.back().requires_grad();
      if (x.size() == 1 && x.back().dim() < 2)
        throw DataError("\"" + key + "\" has " + std::to_string(x.back().dim()) +
                        " axes; a network takes a batch [N, C(, X, Y, Z)]");
    }
    network_->train(training_);
    network_->key_draws(f.random().bits64());
    c10::AutoGradMode mode(taped);
    emit(f, network_->forward(x, p.output_keys.size()));
  }
  // A pass elsewhere moves the weights: a recording knows addresses, and cannot move them itself.
  std::optional<std::uint64_t> recordable(const Firing& f) const override {
    if (!network_->recordable()) return std::nullopt;
    const at::Device here = f.in().tensor(p.keys[0]).device();
    std::uint64_t places = 0;
    for (const auto& named : {network_->parameters(), network_->buffers()})
      for (const auto& [name, t] : named) {
        if (t.device() != here) return std::nullopt;
        places = mix(places ^ reinterpret_cast<std::uintptr_t>(t.const_data_ptr()));
      }
    return places;
  }
  void repeated(Firing& f, const Sample& made) override {
    Network::Tensors outputs;
    for (const std::string& key : p.output_keys) outputs.push_back(made.tensor(key));
    emit(f, std::move(outputs));
  }

 private:
  void emit(Firing& f, Network::Tensors outputs) const {
    Sample out = f.in();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Field field = f.in().at(p.geometry_key.value_or(p.keys[0]));
      field.tensor = std::move(outputs[i]);
      out.set(p.output_keys[i], std::move(field));
    }
    f.emit(std::move(out));
  }

  std::shared_ptr<Network> network_;
  bool training_ = false;
};

const Register<Model> registered;

}  // namespace
}  // namespace sluice
