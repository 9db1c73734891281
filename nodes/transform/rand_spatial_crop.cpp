// rand_spatial_crop: MONAI's RandSpatialCropd. One box for all keys.
#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandSpatialCrop final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::int64_t> roi_size;
    std::optional<std::vector<std::int64_t>> max_roi_size;
    bool random_center = true;
    bool random_size = false;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_spatial_crop", "Crops all keys at one random place, or to a random size.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to crop, of one shape [C, X, Y, Z] or [C, X, Y].")
        .param("roi_size", &Params::roi_size,
               "Voxels: one number, or one an axis; 0 or less, or more than there are: the axis.")
        .required()
        .param("max_roi_size", &Params::max_roi_size,
               "With random_size: the largest size; null: the image's.")
        .param("random_center", &Params::random_center, "A random place; otherwise the centre.")
        .param("random_size", &Params::random_size, "Draw each axis from roi_size..max_roi_size.")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys", "roi_size")
        .unless("random_size", true)
        .resizes("@keys")
        .when("random_size", true);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    std::optional<Box> box;  // drawn for the first key, used for all
    Shape3 shape{};
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& here, std::int64_t axes, std::size_t i) {
                       if (!box) box = draw(random, shape = here, axes);
                       if (here != shape)
                         throw DataError("field \"" + p.keys[i] + "\" has spatial shape " +
                                         list_text(here) + ", the first key " + list_text(shape));
                       if (*box == Box{{}, here}) return;
                       record(field, boxed(*box), "rand_spatial_crop", numbers(*box));
                     });
    finish(f, std::move(out));
  }

  Box draw(Random& random, const Shape3& shape, std::int64_t axes) const {
    Shape3 size = fall_back(p.roi_size, shape, axes);
    if (p.random_size) {
      const Shape3 most = p.max_roi_size ? fall_back(*p.max_roi_size, shape, axes) : shape;
      for (int d = 0; d < axes; ++d) {
        if (size[d] > most[d])
          throw DataError("roi_size " + list_text(size) + " is larger than the largest allowed, " +
                          list_text(most));
        size[d] += static_cast<std::int64_t>(random.integer(most[d] - size[d] + 1));
      }
    }
    for (int d = 0; d < 3; ++d) size[d] = std::min(size[d], shape[d]);
    Box box = centre_box(shape, size);
    if (p.random_center)
      for (int d = 0; d < axes; ++d)
        box.start[d] = static_cast<std::int64_t>(random.integer(shape[d] - size[d] + 1));
    return box;
  }
};

const Register<RandSpatialCrop> registered;

}  // namespace
}  // namespace sluice
