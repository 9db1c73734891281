// invert: brings a prediction back to the grid of the image as it was loaded, through the history
// that the spatial transforms wrote (MONAI's Invertd for spatial transforms).
//
// All of them are affine, so going back is one resampling: the current affine and the one in front
// of the first transform say which voxel lies where. Flips and crops come back exactly.
#include "engine/run/registry.h"
#include "nodes/turning_back.h"

namespace sluice {
namespace {

struct Invert final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::vector<std::string> mode{"nearest"};
  } p;

  static Spec spec() {
    return Spec("invert", "Resamples fields to the grid of the image as it was loaded.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields [C, X, Y, Z] with the history of their image.")
        .param("mode", &Params::mode, "nearest for labels, bilinear for logits; one, or one a key.")
        .choices({"nearest", "bilinear"})
        .per("keys")
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      const Meta& meta = field.geometry();
      if (meta.history.empty()) return;
      const auto& old = meta.history.front();
      field = turned_back(field, old.affine_before, old.shape_before,
                          parse_interpolation(per_key(p.mode, i)));
    });
    f.emit(std::move(out));
  }
};

const Register<Invert> registered;

}  // namespace
}  // namespace sluice
