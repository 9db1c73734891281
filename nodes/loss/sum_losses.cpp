// sum_losses: several losses become one, so that a network is trained on all of them.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct SumLosses final : Node {
  struct Params {
    std::vector<std::string> keys;
    std::optional<std::vector<double>> weights;
    std::string output_key = "loss";
  } p;

  static Spec spec() {
    Spec s("sum_losses", "The weighted sum of losses that other nodes made.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields with one number each: the losses' output_key.")
        .required()
        .length(1)
        .param("weights", &Params::weights, "Factor of each; null: 1.")
        .length_of("keys")
        .param("output_key", &Params::output_key, "Field for the sum.")
        .takes("@keys", Form::scalar);
    return give_loss(s);
  }

  void process(Firing& f) override {
    at::Tensor sum;
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      at::Tensor part = f.in().tensor(p.keys[i]);
      if (p.weights) part = part * p.weights->at(i);
      sum = sum.defined() ? sum + part : part;
    }
    emit_loss(f, p.output_key, std::move(sum));
  }
  std::optional<std::uint64_t> recordable(const Firing&) const override { return 0; }
  void repeated(Firing& f, const Sample& made) override {
    emit_loss(f, p.output_key, made.tensor(p.output_key));
  }
};

const Register<SumLosses> registered;

}  // namespace
}  // namespace sluice
