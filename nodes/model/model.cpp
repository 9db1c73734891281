// model: one forward pass of a network of "models" over a batch.
#include <ATen/core/grad_mode.h>

#include "engine/error.h"
#include "engine/registry.h"
#include "engine/resource.h"
#include "engine/sample.h"

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
    Sample out = f.in();
    Field field = out.at(p.key);
    if (field.tensor.dim() < 4)
      throw DataError("\"" + p.key + "\" has " + std::to_string(field.tensor.dim()) +
                      " axes; a network takes a batch [N, C, X, Y(, Z)]");
    network_->train(training_);
    network_->key_draws(f.random().bits64());
    c10::AutoGradMode mode(training_);
    field.tensor = network_->forward(field.tensor);
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  std::shared_ptr<Network> network_;
  bool training_ = false;
};

const Register<Model> registered;

}  // namespace
}  // namespace sluice
