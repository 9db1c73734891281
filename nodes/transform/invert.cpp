// invert: brings a prediction back to the grid of the image as it was loaded, through the history
// that the spatial transforms wrote (MONAI's Invertd for spatial transforms).
//
// Flips and crops come back exactly, and what a crop took away is 0, as MONAI pads it. What sampled
// is sampled back by its own padding; a zoom is a resize and a crop or pad.
#include "engine/run/registry.h"
#include "kernels/image/resizing.h"
#include "nodes/turning_back.h"

namespace sluice {
namespace {

struct Invert final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::vector<std::string> mode{"nearest"};
    std::optional<std::string> resize_mode;
  } p;

  static Spec spec() {
    return Spec("invert", "Resamples fields to the grid of the image as it was loaded.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields [C, X, Y, Z], or with fewer axes, with the history of their image; they get "
               "the "
               "axes that it had.")
        .param("mode", &Params::mode, "nearest for labels, bilinear for logits; one, or one a key.")
        .choices({"nearest", "bilinear"})
        .per("keys")
        .param("resize_mode", &Params::resize_mode,
               "How resizes and zooms are undone, as resize would do it: MONAI takes the mode that "
               "each had, or nearest for labels. null: by mode.")
        .choices(resizing_names)
        .takes("@keys", Form::image)
        .resizes("@keys");
  }

  void open(const OpenContext& context) override { lazy_ = context.lazy; }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      TurningBack how{parse_interpolation(per_key(p.mode, i)), {}, lazy_};
      if (p.resize_mode) how.resizing = parse_resizing(*p.resize_mode);
      field = turned_back(field, 0, how);
    });
    f.emit(std::move(out));
  }

 private:
  bool lazy_ = false;
};

const Register<Invert> registered;

}  // namespace
}  // namespace sluice
