// orientation: MONAI's Orientationd. Flips and permutes the voxel axes; no voxel changes.
#include "engine/run/registry.h"
#include "kernels/image/axes.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct OrientationNode final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::string> axcodes{"RAS"};
    bool as_closest_canonical = false;
    std::optional<AxisLabels> labels;
    bool allow_missing_keys = false;
  } p;
  std::vector<std::string> codes;
  AxisLabels labels;

  static Spec spec() {
    return Spec("orientation", "Reorders the voxel axes to run along the given world directions.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to reorder, each [C, X, Y, Z] or [C, X, Y].")
        .param("axcodes", &Params::axcodes,
               "A letter a voxel axis, the direction in which it grows: L/R, P/A, I/S; a word or a "
               "list. An image of two axes takes the first two.")
        .length(1, 3)
        .param("as_closest_canonical", &Params::as_closest_canonical, "As axcodes \"RAS\".")
        .param("labels", &Params::labels,
               "Other names of directions than letters: [[negative, positive], ...] of the three "
               "world axes.")
        .length(2, 3)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .rearranging()
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    labels = p.labels.value_or(ras_labels);
    for (const auto& pair : labels)
      if (pair.size() != 2 || pair[0] == pair[1])
        throw Error(Exit::usage, "labels are pairs of two names, [negative, positive]");
    codes = p.axcodes;
    if (codes.size() == 1) {  // a word
      codes.clear();
      for (const char c : p.axcodes[0]) codes.emplace_back(1, c);
    }
    if (p.as_closest_canonical) {
      codes.clear();
      for (const auto& pair : labels) codes.push_back(pair[1]);
    }
    if (codes.size() > 3)
      throw Error(Exit::usage, "axcodes name " + std::to_string(codes.size()) + " axes");
    try {
      parse_axcodes(codes, static_cast<std::int64_t>(codes.size()), labels);
    } catch (const DataError& e) {
      throw Error(Exit::usage, e.what());
    }
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      const std::int64_t axes = field.tensor.dim() - 1;
      const Reorder r = reorder_between(orientation_of(of_axes(field.geometry().affine, axes)),
                                        parse_axcodes(codes, axes, labels));
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
