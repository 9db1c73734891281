// one_of: MONAI's OneOf. One of several transforms, drawn for each sample.
#include "engine/run/registry.h"
#include "nodes/transform/inner_nodes.h"

namespace sluice {
namespace {

struct OneOf final : ChoiceNode {
  using Params = ChoiceParams;
  Params p;

  static Spec spec() {
    return choice_spec<Params>("one_of", "Does one of several transforms, drawn for each sample.");
  }

  void open(const OpenContext& context) override { open_choice(p, context); }

  void process(Firing& f) override {
    Random random = f.random();
    const std::size_t chosen = choose(shares_, random);
    if (const SamplePtr out = inner_.run(chosen, f.ptr(), f)) finish(f, *out);
  }
};

const Register<OneOf> registered;

}  // namespace
}  // namespace sluice
