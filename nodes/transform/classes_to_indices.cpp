// classes_to_indices: MONAI's ClassesToIndicesd, with a bit a voxel for each class instead of lists
// of numbers, as fg_bg_to_indices has them.
#include "engine/run/registry.h"
#include "nodes/transform/label_classes.h"

namespace sluice {
namespace {

struct ClassesToIndices final : Node {
  struct Params : ClassRule<NoParams> {
    std::vector<std::string> keys{"label"};
    std::string indices_postfix = "_cls_indices";
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    Spec s("classes_to_indices", "Says which voxels belong to each class of a label.");
    s.in("sample")
        .out("sample",
             "With one more field a key, in host memory: for each class a bit a voxel and ranks, "
             "int32 [classes, n].")
        .param("keys", &Params::keys, "Labels; one-hot where they have several channels.")
        .param("indices_postfix", &Params::indices_postfix, "Ends the name of the new field.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .gives("@keys@indices_postfix", Form::any);
    return add_class_rule<Params>(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_image(
        out, p.keys, p.allow_missing_keys, [&](const std::string& key, const Field& field) {
          out.set(key + p.indices_postfix, Field(class_bits(f.in(), key, p), field.meta));
        });
    f.emit(std::move(out));
  }
};

const Register<ClassesToIndices> registered;

}  // namespace
}  // namespace sluice
