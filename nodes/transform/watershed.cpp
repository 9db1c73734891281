// watershed: MONAI's Watershedd, which is scikit-image's watershed.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct Watershed final : Node {
  struct Params {
    std::vector<std::string> keys{"dist_map"};
    std::optional<std::string> mask_key = "mask";
    std::string markers_key = "markers";
    std::int64_t connectivity = 1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("watershed", "Basins of an image grow from markers, lowest first, until they meet.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Heights, [1, X, Y] or [1, X, Y, Z]; they become the basins' numbers, int32.")
        .param("mask_key", &Params::mask_key, "Only where this map is not 0; null: everywhere.")
        .param("markers_key", &Params::markers_key, "The basins' numbers where they begin, else 0.")
        .param("connectivity", &Params::connectivity,
               "In how many coordinates neighbours may differ at once.")
        .range(1, 3)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image, 2, 3)
        .takes("@markers_key", Form::image, 2, 3)
        .takes("@mask_key", Form::image, 2, 3)
        .when("mask_key")
        .gives("@keys", Form::image)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (const std::string& key : p.keys) {
      if (p.allow_missing_keys && !out.has(key)) continue;
      const at::Tensor &image = map_of(out, key, 3), &markers = map_of(out, p.markers_key, 3);
      require_extents(markers, p.markers_key, image, key);
      at::Tensor mask = at::ones_like(image, at::kByte);
      if (p.mask_key) {
        mask = map_of(out, *p.mask_key, 3);
        require_extents(mask, *p.mask_key, image, key);
      }
      const auto meta = out.at(key).meta;
      out.set(key, Field(watershed(image, markers, mask, static_cast<int>(p.connectivity)), meta));
    }
    f.emit(std::move(out));
  }
};

const Register<Watershed> registered;

}  // namespace
}  // namespace sluice
