// orientation: MONAI's Orientationd. Flips and permutes the voxel axes; no voxel changes.
#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct OrientationNode final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::string axcodes = "RAS";
    bool as_closest_canonical = false;
    bool allow_missing_keys = false;
  } p;
  Orientation want;

  static Spec spec() {
    return Spec("orientation", "Reorders the voxel axes to run along the given world directions.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to reorder, each [C, X, Y, Z].")
        .param("axcodes", &Params::axcodes,
               "A letter a voxel axis, the direction in which it grows: L/R, P/A, I/S.")
        .param("as_closest_canonical", &Params::as_closest_canonical, "As axcodes \"RAS\".")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 3, 3)
        .per_axis("@keys", "axcodes")
        .resizes("@keys");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    want = parse_axcodes(p.as_closest_canonical ? "RAS" : p.axcodes);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i], 3);
      const Affine& affine = field.geometry().affine;
      const Reorder r = reorder_between(orientation_of(affine), want);
      if (r == Reorder{}) return;
      // values: the source axis of each output axis, then whether it is flipped.
      std::vector<double> values(r.from.begin(), r.from.end());
      values.insert(values.end(), r.flip.begin(), r.flip.end());
      record(field, reordered(r), "orientation", std::move(values));
    });
    finish(f, std::move(out));
  }
};

const Register<OrientationNode> registered;

}  // namespace
}  // namespace sluice
