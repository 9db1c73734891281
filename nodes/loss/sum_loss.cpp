// sum_loss: no loss at all, but a number with gradients: for trying out whether a graph trains.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct SumLoss final : Loss {
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

 private:
  at::Tensor loss(const Firing& f) const override { return f.in().tensor(p.key).sum(at::kFloat); }
};

const Register<SumLoss> registered;

}  // namespace
}  // namespace sluice
