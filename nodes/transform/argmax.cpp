// argmax: MONAI's AsDiscreted(argmax=True).

#include "engine/run/registry.h"
#include "kernels/image/labels.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct Argmax final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::int64_t spatial_dims = 3;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("argmax", "The index of the largest channel: scores to a label map.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Scores [C, X, Y, Z] or [N, C, X, Y, Z], at most 256 channels; they become uint8 "
               "[1, X, Y, Z] or [N, 1, X, Y, Z].")
        .param("spatial_dims", &Params::spatial_dims, "Spatial axes; one more than C is a batch.")
        .range(1, 3)
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .any_device()
        .takes("@keys", Form::any)
        .per_axis("@keys", "spatial_dims")
        .changes("@keys")
        .channels("1")
        .dtype("uint8");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& x = field.tensor;
      if (x.dim() != p.spatial_dims + 1 && x.dim() != p.spatial_dims + 2)
        throw DataError("field \"" + p.keys[i] + "\" has shape " + list_text(x.sizes()) +
                        ", which is neither a sample nor a batch of " +
                        std::to_string(p.spatial_dims) + " spatial axes");
      field.tensor = discrete(x);
    });
    f.emit(std::move(out));
  }

  at::Tensor discrete(const at::Tensor& x) const {
    return x.dim() == p.spatial_dims + 2 ? kernels::argmax_members(x) : kernels::argmax_channels(x);
  }
};

const Register<Argmax> registered;

}  // namespace
}  // namespace sluice
