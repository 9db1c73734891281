// sum_loss: no loss at all, but a number with gradients: for trying out whether a graph trains.
#include "engine/registry.h"
#include "engine/sample.h"

namespace sluice {
namespace {

struct SumLoss final : Node {
  struct Params {
    std::string key = "pred";
  } p;

  static Spec spec() {
    return Spec(
               "sum_loss",
               "The sum of a network's output, into the field \"loss\": for trying a pipeline out.")
        .in("sample")
        .out("sample")
        .param("key", &Params::key, "Field with the network's output, [N, C, ...].")
        .takes("@key", Form::any, 0)
        .gives("loss", Form::scalar)
        .dtype("float32")
        .any_device()
        .lane(LaneKind::step);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    out.set("loss", Field(out.tensor(p.key).sum(at::kFloat), std::make_shared<const Meta>()));
    f.emit(std::move(out));
  }
};

const Register<SumLoss> registered;

}  // namespace
}  // namespace sluice
