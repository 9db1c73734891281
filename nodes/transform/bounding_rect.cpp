// bounding_rect: MONAI's BoundingRectd.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct BoundingRect final : Node {
  struct Params : KeyParams {
    std::string bbox_key_postfix = "bbox";
    Params() { keys = {"label"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>(
               "bounding_rect", "The box around what is above 0 of each channel, beside the field.",
               "Fields [C, X, Y, Z] or [C, X, Y].")
        .param("bbox_key_postfix", &Params::bbox_key_postfix,
               "Ends the name of the boxes' field, key_bbox: int64 [C, 2 axes], x of the first "
               "voxel and behind the last, y, ...; zeros for a channel without any.")
        .takes("@keys", Form::image, 2, 3)
        .gives("@keys@=_@bbox_key_postfix", Form::any)
        .dtype("int64");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_image(
        out, p.keys, p.allow_missing_keys, [&](const std::string& key, const Field& field) {
          const std::int64_t axes = field.tensor.dim() - 1;
          const at::Tensor volume = to_volume(field.tensor);
          std::vector<std::int64_t> all;
          for (std::int64_t c = 0; c < volume.size(0); ++c) {
            const Box box = bounding_box_of_positive(volume.narrow(0, c, 1)).value_or(Box{});
            for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d)
              all.insert(all.end(), {box.start[d], box.start[d] + box.size[d]});
          }
          out.set(key + "_" + p.bbox_key_postfix,
                  Field(at::tensor(all).view({volume.size(0), 2 * axes}),
                        std::make_shared<const Meta>()));
        });
    f.emit(std::move(out));
  }
};

const Register<BoundingRect> registered;

}  // namespace
}  // namespace sluice
