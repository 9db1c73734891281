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
    return Spec("generate_watershed_markers",
                "A number for each part of a mask that is surely inside of one instance.")
        .in("sample")
        .out("sample")
        .param("mask_key", &Params::mask_key, "The mask, [1, X, Y] of 0 and 1.")
        .param("border_key", &Params::border_key, "generate_instance_border's map.")
        .param("markers_key", &Params::markers_key, "Field for the numbers, int32 [1, X, Y].")
        .param("threshold", &Params::threshold, "From this border on a pixel is not surely inside.")
        .param("radius", &Params::radius, "Of the disk that opens the parts, pixels.")
        .at_least(0)
        .param("min_object_size", &Params::min_object_size, "Pixels that a part has at least.")
        .at_least(0)
        .takes("@mask_key", Form::image, 2, 2)
        .takes("@border_key", Form::image, 2, 2)
        .gives("@markers_key", Form::image)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor &mask = map_of(out, p.mask_key), &border = map_of(out, p.border_key);
    require_extents(border, p.border_key, mask, p.mask_key);
    const auto meta = out.at(p.mask_key).meta;
    out.set(p.markers_key, Field(nuclei_markers(mask, border, p.threshold,
                                                static_cast<double>(p.radius), p.min_object_size),
                                 meta));
    f.emit(std::move(out));
  }
};

const Register<GenerateWatershedMarkers> registered;

}  // namespace
}  // namespace sluice
