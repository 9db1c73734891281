// vote_ensemble: MONAI's VoteEnsembled.
#include "nodes/transform/ensembling.h"

namespace sluice {
namespace {

struct VoteEnsemble final : Node {
  struct Params : EnsembleParams {
    std::optional<std::int64_t> num_classes;
  } p;

  static Spec spec() {
    return ensemble_spec("vote_ensemble", "The label that most of several models give.")
        .param("num_classes", &Params::num_classes,
               "Classes of labels of one channel; of equal shares the lowest class wins. Null: "
               "one-hot outputs, each channel 1 where more than half of the models have it.")
        .at_least(1);
  }

  void open(const OpenContext&) override { check_ensemble(p); }

  void process(Firing& f) override {
    ensemble(f, p, [this](const at::Tensor& all) {
      if (!p.num_classes) return all.to(at::kFloat).mean(0).round();
      const bool one_hot = all.dim() > 1 && all.size(1) > 1, channel = all.dim() > 1;
      if (!one_hot && all.numel() > 0) {
        const auto [low, high] = at::aminmax(all);
        for (const double label : {low.item<double>(), high.item<double>()})
          if (label < 0 || label >= static_cast<double>(*p.num_classes))
            throw DataError("a vote for " + Json(label).dump() + ", which is none of the " +
                            std::to_string(*p.num_classes) + " classes");
      }
      std::vector<at::Tensor> shares;
      for (std::int64_t c = 0; c < (one_hot ? all.size(1) : *p.num_classes); ++c)
        shares.push_back(one_hot
                             ? all.select(1, c).to(at::kFloat).mean(0)
                             : at::eq(channel ? all.select(1, 0) : all, c).to(at::kFloat).mean(0));
      return at::argmax(at::stack(shares), 0, channel).to(all.scalar_type());
    });
  }
};

const Register<VoteEnsemble> registered;

}  // namespace
}  // namespace sluice
