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
    std::string net, key = "image", output_key = "pred";
  } p;

  static Spec spec() {
    return Spec("model", "Runs a network on a batch; in a training stream with gradients.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net, "The network's name in \"models\".")
        .required()
        .param("key", &Params::key, "Field with the input, [N, C, X, Y(, Z)] float32.")
        .param("output_key", &Params::output_key, "Field for the output, [N, C', X, Y(, Z)].")
        .reads("net")
        .random()
        .lane(LaneKind::step)
        .limit(1)
        .takes("@key", Form::batch, 2, 3)
        .enters("@key", "net")
        .gives("@output_key", Form::batch)
        .like("@key")
        .channels("@net.out_channels")
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext& context) override {
    network_ = context.resources->network(p.net);
    training_ = context.training;
  }

  void process(Firing& f) override {
    const at::Tensor& x = f.in().tensor(p.key);
    if (x.dim() < 4)
      throw DataError("\"" + p.key + "\" has " + std::to_string(x.dim()) +
                      " axes; a network takes a batch [N, C, X, Y(, Z)]");
    network_->train(training_);
    network_->key_draws(f.random().bits64());
    c10::AutoGradMode mode(training_);
    emit(f, network_->forward(x));
  }
  // A pass elsewhere moves the weights: a recording knows addresses, and cannot move them itself.
  std::optional<std::uint64_t> recordable(const Firing& f) const override {
    if (!network_->recordable()) return std::nullopt;
    const at::Device here = f.in().tensor(p.key).device();
    std::uint64_t places = 0;
    for (const auto& named : {network_->parameters(), network_->buffers()})
      for (const auto& [name, t] : named) {
        if (t.device() != here) return std::nullopt;
        places = mix(places ^ reinterpret_cast<std::uintptr_t>(t.const_data_ptr()));
      }
    return places;
  }
  void repeated(Firing& f, const Sample& made) override { emit(f, made.tensor(p.output_key)); }

 private:
  void emit(Firing& f, at::Tensor output) const {
    Sample out = f.in();
    Field field = out.at(p.key);
    field.tensor = std::move(output);
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }

  std::shared_ptr<Network> network_;
  bool training_ = false;
};

const Register<Model> registered;

}  // namespace
}  // namespace sluice
