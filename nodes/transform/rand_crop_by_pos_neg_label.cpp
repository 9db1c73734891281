// rand_crop_by_pos_neg_label: MONAI's RandCropByPosNegLabeld. Patches around random voxels of the
// label's foreground or background.
#include "kernels/image/foreground.h"
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct RandCropByPosNegLabel final : FusedNode {
  struct Params : CropParams {
    std::string label_key = "label";
    std::vector<std::int64_t> spatial_size;
    double pos = 1, neg = 1;
    std::int64_t num_samples = 1;
    std::optional<std::string> image_key;
    double image_threshold = 0;
    std::optional<std::string> fg_indices_key, bg_indices_key;
    bool allow_smaller = false;
  } p;

  static Spec spec() {
    return Spec("rand_crop_by_pos_neg_label",
                "Crops num_samples patches around foreground or background voxels of a label.")
        .in("sample")
        .out("sample", "num_samples patches, one after the other")
        .param("keys", &Params::keys, "Fields to crop, of the label's spatial shape.")
        .param("label_key", &Params::label_key,
               "Foreground is where it is not 0; of several channels the first is background.")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less: the whole axis.")
        .required()
        .param("pos", &Params::pos, "pos / (pos + neg) of the patches have a foreground centre.")
        .at_least(0)
        .param("neg", &Params::neg, "See pos.")
        .at_least(0)
        .param("num_samples", &Params::num_samples, "Patches a sample.")
        .at_least(1)
        .param("image_key", &Params::image_key,
               "If set, background is only where this field is above image_threshold.")
        .param("image_threshold", &Params::image_threshold, "In the image's units.")
        .param("fg_indices_key", &Params::fg_indices_key,
               "Voxels of the foreground (fg_bg_to_indices), so that none is looked for; on a GPU "
               "that spares a wait for each sample.")
        .param("bg_indices_key", &Params::bg_indices_key, "And of the background; both or none.")
        .param("allow_smaller", &Params::allow_smaller,
               "Take the whole axis where the image is smaller than spatial_size.")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .expands("num_samples")
        .random()
        .fuses(Fuses::moves)
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
        .resizes("@keys")
        .when("allow_smaller", true);
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.pos + p.neg <= 0) throw Error(Exit::usage, "pos and neg are both 0");
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
    for (const Shape3& centre : draw_centres(in, random))
      finish(f, patch_around(rest, p, "rand_crop_by_pos_neg_label", centre, size, shape));
  }

  // Foreground and background are counted once for all patches.
  std::vector<Shape3> draw_centres(const Sample& in, Random& random) const {
    const at::Tensor label = to_volume(in.tensor(p.label_key));
    const Shape3 shape = shape_of(label);
    if (p.fg_indices_key)
      return draw_from(VoxelBits(in.tensor(*p.fg_indices_key), shape),
                       VoxelBits(in.tensor(*p.bg_indices_key), shape), random, shape);
    at::Tensor image;
    if (p.image_key) image = to_volume(in.tensor(*p.image_key));
    if (image.defined() && shape_of(image) != shape)
      throw DataError("\"" + *p.image_key + "\" has shape " + list_text(shape_of(image)) + ", \"" +
                      p.label_key + "\" " + list_text(shape));
    const at::Tensor bits = foreground_bits(label);
    const VoxelBits foreground(bits, shape);
    if (p.neg <= 0 && foreground.count() > 0) return draw_from(foreground, {}, random, shape);
    const at::Tensor background =
        background_bits(label, bits, image.defined() ? &image : nullptr, p.image_threshold);
    return draw_from(foreground, {background, shape}, random, shape);
  }

  std::vector<Shape3> draw_from(const VoxelBits& foreground, const VoxelBits& background,
                                Random& random, const Shape3& shape) const {
    double share = p.pos / (p.pos + p.neg);
    if (foreground.count() == 0) share = 0;
    if (background.count() == 0) share = 1;
    if (share == 1 && foreground.count() == 0)
      throw DataError("no crop centre: of the " + list_text(shape) + " voxels of \"" + p.label_key +
                      "\" none is foreground, and none background");
    const auto one_of = [&](const VoxelBits& pool) {
      return pool.voxel(random.integer(pool.count()));
    };
    std::vector<Shape3> centres;
    for (std::int64_t i = 0; i < p.num_samples; ++i)
      centres.push_back(random.uniform() < share ? one_of(foreground) : one_of(background));
    return centres;
  }
};

const Register<RandCropByPosNegLabel> registered;

}  // namespace
}  // namespace sluice
