// one_of: MONAI's OneOf. One of several transforms, drawn for each sample.
#include "engine/run/registry.h"
#include "nodes/transform/inner_nodes.h"

namespace sluice {
namespace {

struct OneOf final : FusedNode {
  struct Params {
    Json transforms;
    std::vector<double> weights;
  } p;

  static Spec spec() {
    return Spec("one_of", "Does one of several transforms, drawn for each sample.")
        .in("sample")
        .out("sample")
        .param("transforms", &Params::transforms,
               "Nodes {\"type\": ..., parameters}, or lists of nodes that are done in a row.")
        .required()
        .param("weights", &Params::weights, "How likely each is, in any scale; none: all equally.")
        .at_least(0)
        .random();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    inner_.open(p.transforms, context);
    shares_ = shares(p.weights, inner_.size());
  }

  void process(Firing& f) override {
    Random random = f.random();
    const std::size_t chosen = choose(shares_, random);
    if (const SamplePtr out = inner_.run(chosen, f.ptr(), f)) finish(f, *out);
  }

 private:
  InnerNodes inner_;
  std::vector<double> shares_;
};

const Register<OneOf> registered;

}  // namespace
}  // namespace sluice
