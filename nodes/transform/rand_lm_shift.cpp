// rand_lm_shift: the Model Zoo's RandLMShiftd (bundle valve_landmarks). One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/spatial.h"
#include "nodes/fields.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct RandLmShift final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::int64_t max_shift = 0;
    double prob = 0.1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_lm_shift",
                "Moves images by whole voxels, so that marks of single voxels stay what they are; "
                "zeros come in.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to move, each [C, X, Y, Z] or [C, X, Y].")
        .param("max_shift", &Params::max_shift,
               "Voxels along each axis: from -max_shift to max_shift - 1.")
        .at_least(0)
        .param("prob", &Params::prob, "Probability that a sample is moved.")
        .range(0, 1)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .random()
        .takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob) || p.max_shift == 0) return f.emit_ptr(f.ptr());
    Shape3 by{};
    for (std::int64_t& n : by)
      n = static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(2 * p.max_shift))) -
          p.max_shift;
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      Box box{{}, shape_of(volume)};
                      for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d)
                        box.start[d] = -by[d];
                      record(field, from_volume(crop_pad(volume, box), axes),
                             field.geometry().affine, "rand_lm_shift", {});
                    });
    f.emit(std::move(out));
  }
};

const Register<RandLmShift> registered;

}  // namespace
}  // namespace sluice
