// mean_ensemble: MONAI's MeanEnsembled.
#include "nodes/transform/ensembling.h"

namespace sluice {
namespace {

struct MeanEnsemble final : Node {
  struct Params : EnsembleParams {
    Json weights;
  } p;

  static Spec spec() {
    return ensemble_spec("mean_ensemble", "The mean of several models' outputs.")
        .param("weights", &Params::weights,
               "A number for each model, or a list of one a channel for each model; null: alike.");
  }

  void open(const OpenContext&) override {
    check_ensemble(p);
    if (p.weights.is_null()) return;
    std::vector<float> values;
    std::vector<std::int64_t> shape;
    const bool fits = read(p.weights, 0, shape, values);
    if (!fits || values.empty() || c10::multiply_integers(shape) != std::ssize(values))
      throw Error(Exit::usage, "weights must be a list of numbers, or of lists of one length");
    const at::Tensor w = at::tensor(values).view(shape), mean = w.mean(0, true);
    if (mean.eq(0).any().item<bool>()) throw Error(Exit::usage, "weights add up to 0");
    weights_ = w / mean;
  }

  void process(Firing& f) override {
    ensemble(f, p, [this](const at::Tensor& all) {
      if (!weights_.defined()) return all.to(at::kFloat).mean(0);
      std::vector<std::int64_t> shape = weights_.sizes().vec();
      const bool fits =
          all.dim() >= weights_.dim() && all.sizes().slice(0, shape.size()) == weights_.sizes();
      if (!fits)
        throw DataError("weights of shape " + list_text(shape) + " do not go with outputs " +
                        list_text(all.sizes()));
      shape.resize(static_cast<std::size_t>(all.dim()), 1);
      return (all * weights_.view(shape)).mean(0);
    });
  }

 private:
  static bool read(const Json& j, std::size_t depth, std::vector<std::int64_t>& shape,
                   std::vector<float>& values) {
    if (j.is_number()) {
      values.push_back(j.get<float>());
      return depth > 0 && depth == shape.size();
    }
    if (!j.is_array()) return false;
    if (depth == shape.size() && values.empty()) shape.push_back(std::ssize(j));
    if (depth >= shape.size() || shape[depth] != std::ssize(j)) return false;
    for (const Json& e : j)
      if (!read(e, depth + 1, shape, values)) return false;
    return true;
  }

  at::Tensor weights_;
};

const Register<MeanEnsemble> registered;

}  // namespace
}  // namespace sluice
