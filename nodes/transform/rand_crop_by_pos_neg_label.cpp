// rand_crop_by_pos_neg_label: MONAI's RandCropByPosNegLabeld. Patches around random voxels of the
// label's foreground or background.
#include "nodes/transform/pos_neg_crop.h"

namespace sluice {
namespace {

struct RandCropByPosNegLabel final : FusedNode {
  struct Params : PosNegParams {
    std::string label_key = "label";
    std::optional<std::string> fg_indices_key, bg_indices_key;
  } p;

  static Spec spec() {
    Spec s("rand_crop_by_pos_neg_label",
           "Crops num_samples patches around foreground or background voxels of a label.");
    s.in("sample")
        .out("sample", "num_samples patches, one after the other")
        .param("keys", &CropParams::keys, "Fields to crop, of the label's spatial shape.")
        .param("label_key", &Params::label_key,
               "Foreground is where it is not 0; of several channels the first is background.");
    add_background_image(add_pos_neg(s), "image_key")
        .param("fg_indices_key", &Params::fg_indices_key,
               "Voxels of the foreground (fg_bg_to_indices), so that none is looked for; on a GPU "
               "that spares a wait for each sample.")
        .param("bg_indices_key", &Params::bg_indices_key, "And of the background; both or none.");
    return add_smaller(s)
        .any_device()
        .stays("@fg_indices_key")
        .stays("@bg_indices_key")
        .takes("@keys", Form::image, 2, 3)
        .takes("@label_key", Form::image, 2, 3)
        .takes("@image_key", Form::image, 2, 3)
        .takes("@fg_indices_key", Form::any)
        .takes("@bg_indices_key", Form::any)
        .resizes("@keys", "spatial_size")
        .unless("allow_smaller", true)
        .crops("@keys", "spatial_size")
        .when("allow_smaller", true);
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    require_a_share(p);
    if (p.fg_indices_key.has_value() != p.bg_indices_key.has_value())
      throw Error(Exit::usage, "fg_indices_key and bg_indices_key go together");
  }

  void process(Firing& f) override {
    const Sample& in = f.in();
    const at::Tensor& label = in.tensor(p.label_key);
    require_spatial(label, p.label_key);
    const Shape3 shape = shape_of(to_volume(label));
    const Shape3 size =
        patch_size(p.spatial_size, shape, label.dim() - 1, p.allow_smaller, p.label_key);
    Random random = f.random();
    Sample rest = in;
    if (p.fg_indices_key) rest.erase(*p.fg_indices_key), rest.erase(*p.bg_indices_key);
    for (const Shape3& centre : centres(in, random, shape))
      finish(f, patch_around(rest, p, "rand_crop_by_pos_neg_label", centre, size, shape));
  }

  std::vector<Shape3> centres(const Sample& in, Random& random, const Shape3& shape) const {
    if (!p.fg_indices_key)
      return draw_centres(p, in, to_volume(in.tensor(p.label_key)), random, p.label_key);
    return draw_centres(p, VoxelBits(in.tensor(*p.fg_indices_key), shape),
                        VoxelBits(in.tensor(*p.bg_indices_key), shape), random, shape, p.label_key);
  }
};

const Register<RandCropByPosNegLabel> registered;

}  // namespace
}  // namespace sluice
