// rand_shift_intensity: MONAI's RandShiftIntensityd. One draw for all keys.
#include <algorithm>

#include "engine/registry.h"
#include "kernels/intensity.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandShiftIntensity final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::vector<double> offsets;
    double prob = 0.1;
    bool channel_wise = false, allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_shift_intensity", "x + o, o uniform, with one draw for all keys.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("offsets", &Params::offsets,
               "Bounds of o, in the image's units; one number v stands for [-v, v].")
        .required()
        .length(1, 2)
        .param("prob", &Params::prob, "Probability that a sample is changed.")
        .range(0, 1)
        .param("channel_wise", &Params::channel_wise, "A draw of its own for each channel.")
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .random()
        .fuses(Fuses::values)
        .any_device()
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.offsets.size() == 1) p.offsets.push_back(-p.offsets[0]);
    if (p.offsets.size() != 2)
      throw Error(Exit::usage,
                  "offsets needs one number or two, found " + std::to_string(p.offsets.size()));
    std::sort(p.offsets.begin(), p.offsets.end());
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      Random draws = random;  // a copy: every key gets the same numbers
      const bool each = p.channel_wise && field.tensor.dim() > 0;
      std::vector<kernels::Linear> functors(each ? field.tensor.size(0) : 1);
      for (auto& functor : functors) functor.offset = draws.uniform(p.offsets[0], p.offsets[1]);
      change_values(field, linear_ops(functors),
                    [functors](const at::Tensor& from, const at::Tensor& into) {
                      return kernels::map(from, functors, into);
                    });
    });
    finish(f, std::move(out));
  }
};

const Register<RandShiftIntensity> registered;

}  // namespace
}  // namespace sluice
