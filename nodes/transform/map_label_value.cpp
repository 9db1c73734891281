// map_label_value: MONAI's MapLabelValued.
#include "engine/run/registry.h"
#include "engine/state/dtype.h"
#include "kernels/image/labels.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct MapLabelValue final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::vector<double> orig_labels, target_labels;
    std::string dtype = "float32";
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("map_label_value", "Gives labels other numbers.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...].")
        .param("orig_labels", &Params::orig_labels, "The numbers to replace; others stay.")
        .required()
        .length(1)
        .param("target_labels", &Params::target_labels, "What each of them becomes.")
        .required()
        .length_of("orig_labels")
        .param("dtype", &Params::dtype, "The type of the result.")
        .choices(dtype_names())
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image)
        .changes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      std::vector<double> from, to;
      for (std::size_t i = 0; i < p.orig_labels.size(); ++i)
        if (p.orig_labels[i] != p.target_labels[i])
          from.push_back(p.orig_labels[i]), to.push_back(p.target_labels[i]);
      field.tensor = kernels::map_labels(field.tensor, from, to, type());
    });
    f.emit(std::move(out));
  }

  at::ScalarType type() const { return find_dtype(&Dtype::name, p.dtype)->type; }
};

const Register<MapLabelValue> registered;

}  // namespace
}  // namespace sluice
