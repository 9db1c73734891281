// rand_orientation: stores volumes along randomly drawn axes, as archives do. Not in MONAI.
#include "engine/run/registry.h"
#include "kernels/image/spatial.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct RandOrientation final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::string> axcodes{"RAS", "LAS", "LPS", "PSR"};
  } p;
  std::vector<Orientation> wanted;

  static Spec spec() {
    return Spec("rand_orientation", "Reorders the voxel axes of all keys by one random choice.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to reorder, each [C, X, Y, Z].")
        .param("axcodes", &Params::axcodes, "Choices, each as for orientation: \"RAS\".")
        .length(1)
        .random()
        .takes("@keys", Form::image, 3, 3)
        .resizes("@keys");
  }

  void open(const OpenContext&) override {
    for (const auto& codes : p.axcodes) wanted.push_back(parse_axcodes(codes));
  }

  void process(Firing& f) override {
    Random random = f.random();
    const Orientation& want = wanted[random.integer(wanted.size())];
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i], 3);
      const Affine& affine = field.geometry().affine;
      const Reorder r = reorder_between(orientation_of(affine), want);
      std::vector<double> values(r.from.begin(), r.from.end());
      values.insert(values.end(), r.flip.begin(), r.flip.end());
      const Shape3 shape = shape_of(field.tensor);
      record(field, reorder(field.tensor, r), multiply(affine, reorder_affine(r, shape)),
             "rand_orientation", std::move(values));
    });
    f.emit(std::move(out));
  }
};

const Register<RandOrientation> registered;

}  // namespace
}  // namespace sluice
