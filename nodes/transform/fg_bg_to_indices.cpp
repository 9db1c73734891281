// fg_bg_to_indices: MONAI's FgBgToIndicesd. Before a cache it is done once, and the crops
// behind draw their centres without looking for voxels. MONAI's lists of int64 take as much memory
// as the volumes; a bit a voxel says the same.
#include "engine/run/registry.h"
#include "kernels/image/foreground.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct FgBgToIndices final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::string fg_postfix = "_fg_indices", bg_postfix = "_bg_indices";
    std::optional<std::string> image_key;
    double image_threshold = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("fg_bg_to_indices", "Says which voxels are a label's foreground and background.")
        .in("sample")
        .out("sample",
             "With two more fields a key, in host memory: a bit a voxel and ranks, int32 [n].")
        .param("keys", &Params::keys,
               "Labels; foreground is where they are not 0, of several channels the first is "
               "background.")
        .param("fg_postfix", &Params::fg_postfix, "Ends the name of the foreground's field.")
        .param("bg_postfix", &Params::bg_postfix, "Ends the name of the background's field.")
        .param("image_key", &Params::image_key,
               "If set, background is only where this field is above image_threshold.")
        .param("image_threshold", &Params::image_threshold, "In the image's units.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .takes("@image_key", Form::image, 2, 3)
        .gives("@keys@fg_postfix", Form::any)
        .gives("@keys@bg_postfix", Form::any);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_image(out, p.keys, p.allow_missing_keys,
                   [&](const std::string& key, const Field& field) {
                     const at::Tensor label = to_volume(field.tensor);
                     at::Tensor image;
                     if (p.image_key) image = volume_like(out, *p.image_key, shape_of(label), key);
                     const at::Tensor foreground = foreground_bits(label);
                     const at::Tensor background = background_bits(
                         label, foreground, image.defined() ? &image : nullptr, p.image_threshold);
                     out.set(key + p.fg_postfix, Field(foreground, field.meta));
                     out.set(key + p.bg_postfix, Field(background, field.meta));
                   });
    f.emit(std::move(out));
  }
};

const Register<FgBgToIndices> registered;

}  // namespace
}  // namespace sluice
