// label_filter: MONAI's LabelFilterd.
#include "kernels/image/labels.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct LabelFilter final : EachKey<LabelFilter> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"label"};
    std::vector<std::int64_t> applied_labels;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("label_filter", "Keeps some labels; the others become 0.",
                                 "Fields to change, each [C, ...].")
        .param("applied_labels", &Params::applied_labels, "The labels to keep.")
        .required()
        .length(1)
        .takes("@keys", Form::image);
  }

  void change(Field& field, std::size_t) const {
    const std::vector<double> kept(p.applied_labels.begin(), p.applied_labels.end());
    const at::ScalarType type = field.tensor.scalar_type();
    field.tensor = kernels::map_labels(field.tensor, kept, kept, type, 0);
  }
};

const Register<LabelFilter> registered;

}  // namespace
}  // namespace sluice
