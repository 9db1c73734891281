// foreground_mask: MONAI's ForegroundMaskd, tissue on a slide.
#include "engine/run/registry.h"
#include "nodes/transform/tissue.h"

namespace sluice {
namespace {

struct ForegroundMask final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    Json threshold = "otsu", hsv_threshold;
    bool invert = false;
    bool allow_missing_keys = false;
  } p;
  std::array<TissueThreshold, 6> thresholds;

  static Spec spec() {
    return Spec("foreground_mask",
                "Where a picture has tissue: dark in red, green or blue, and above a threshold in "
                "hue, saturation or value.")
        .in("sample")
        .out("sample", "[1, X, Y], 0 and 1 of the picture's own type")
        .param("keys", &Params::keys, "Pictures [3, X, Y], uint8 or float 0..1.")
        .param("threshold", &Params::threshold,
               "Of red, green and blue: \"otsu\", a number, or {\"R\": ..., \"G\": ..., \"B\": "
               "...}; null, and 0: none.")
        .param("hsv_threshold", &Params::hsv_threshold,
               "Of hue, saturation and value, each 0..1, written the same way.")
        .param("invert", &Params::invert, "Of the inverted picture: tissue is bright.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image, 2, 2)
        .gives("@keys", Form::image)
        .channels("1");
  }

  void open(const OpenContext&) override {
    thresholds = tissue_thresholds(p.threshold, p.hsv_threshold);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& image = field.tensor;
      if (image.dim() != 3 || image.size(0) != 3 || image.numel() == 0)
        throw shape_error(p.keys[i], image, "; needed is [3, X, Y]");
      field.tensor = foreground_mask(image, thresholds, p.invert).to(image.scalar_type());
    });
    f.emit(std::move(out));
  }
};

const Register<ForegroundMask> registered;

}  // namespace
}  // namespace sluice
