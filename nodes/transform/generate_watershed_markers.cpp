// generate_watershed_markers: MONAI's GenerateWatershedMarkersd.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct GenerateWatershedMarkers final : Node {
  struct Params {
    std::string mask_key = "mask", border_key = "border", markers_key = "markers";
    double threshold = 0.4;
    std::int64_t radius = 2, min_object_size = 10;
  } p;

  static Spec spec() {
    Spec s("generate_watershed_markers",
           "A number for each part of a mask that is surely inside of one instance.");
    return add_mask_and_border<Params>(s)
        .param("markers_key", &Params::markers_key, "Field for the numbers, int32 [1, X, Y].")
        .param("threshold", &Params::threshold, "From this border on a pixel is not surely inside.")
        .param("radius", &Params::radius, "Of the disk that opens the parts, pixels.")
        .at_least(0)
        .param("min_object_size", &Params::min_object_size, "Pixels that a part has at least.")
        .at_least(0)
        .gives("@markers_key", Form::image)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    set_of_border(out, p, p.markers_key, [&](const at::Tensor& mask, const at::Tensor& border) {
      return nuclei_markers(mask, border, p.threshold, static_cast<double>(p.radius),
                            p.min_object_size);
    });
    f.emit(std::move(out));
  }
};

const Register<GenerateWatershedMarkers> registered;

}  // namespace
}  // namespace sluice
