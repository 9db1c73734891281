// some_of: MONAI's SomeOf. Several of many transforms, in a drawn order, for each sample.
#include <algorithm>

#include "engine/run/registry.h"
#include "nodes/transform/inner_nodes.h"

namespace sluice {
namespace {

struct SomeOf final : ChoiceNode {
  struct Params : ChoiceParams {
    std::optional<std::vector<std::int64_t>> num_transforms;
    bool replace = false;
  } p;

  static Spec spec() {
    return choice_spec<Params>(
               "some_of", "Does some of many transforms in a drawn order, drawn for each sample.")
        .param("num_transforms", &Params::num_transforms,
               "How many, or [low, high] to draw it from; null: all.")
        .at_least(0)
        .length(1, 2)
        .param("replace", &Params::replace, "One may be done several times.");
  }

  void open(const OpenContext& context) override {
    open_choice(p, context);
    const auto all = static_cast<std::int64_t>(inner_.size());
    least_ = most_ = all;
    if (p.num_transforms) least_ = p.num_transforms->front(), most_ = p.num_transforms->back();
    if (p.num_transforms && p.num_transforms->size() == 1) least_ = most_ = std::min(most_, all);
    const auto possible =
        std::count_if(shares_.begin(), shares_.end(), [](double w) { return w > 0; });
    if (least_ > most_ || most_ > all || (!p.replace && most_ > possible))
      throw Error(Exit::usage, "num_transforms does not go with " + std::to_string(possible) +
                                   " transforms that have a weight");
  }

  void process(Firing& f) override {
    Random random = f.random();
    const auto n = least_ + static_cast<std::int64_t>(
                                random.integer(static_cast<std::uint64_t>(most_ - least_ + 1)));
    std::vector<double> left = shares_;
    SamplePtr sample = f.ptr();
    for (std::int64_t i = 0; i < n && sample; ++i) {
      const std::size_t chosen = choose(left, random);
      if (!p.replace) left[chosen] = 0;
      sample = inner_.run(chosen, std::move(sample), f);
    }
    if (sample) finish(f, *sample);
  }

 private:
  std::int64_t least_ = 0, most_ = 0;
};

const Register<SomeOf> registered;

}  // namespace
}  // namespace sluice
