// binary_dilation: SciPy's scipy.ndimage.binary_dilation of each channel.
#include "engine/run/registry.h"
#include "kernels/image/morphology.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct BinaryDilation final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::int64_t iterations = 1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("binary_dilation",
                "Lets each channel's mask grow by its voxels' neighbours along the axes.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Masks [C, X, Y(, Z)], all but 0; they become 0 and 1 of the same type.")
        .param("iterations", &Params::iterations, "How many times.")
        .at_least(1)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      field.tensor = dilated_in_steps(field.tensor, p.iterations, 1);
    });
    f.emit(std::move(out));
  }
};

const Register<BinaryDilation> registered;

}  // namespace
}  // namespace sluice
