// transpose: MONAI's Transposed.
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct Transpose final : EachKey<Transpose> {
  struct Params : KeyParams {
    std::optional<std::vector<std::int64_t>> indices;
  } p;

  static Spec spec() {
    return each_key_spec("transpose", "Puts the axes into another order; the affine stays.",
                         "Fields to change.")
        .param("indices", &Params::indices,
               "For each axis of the result that of the field, the channels' included; null: the "
               "reverse order.")
        .any_device()
        .takes("@keys", Form::any)
        .gives("@keys", Form::any);
  }

  void change(Field& field, std::size_t i) const {
    const std::int64_t rank = field.tensor.dim();
    std::vector<std::int64_t> order, sorted;
    for (std::int64_t d = rank; d-- > 0;) order.push_back(d);
    if (p.indices) order = *p.indices;
    for (std::int64_t& d : order) sorted.push_back(d < 0 ? d += rank : d);
    std::sort(sorted.begin(), sorted.end());
    for (std::int64_t d = 0; d < std::max(rank, std::ssize(sorted)); ++d)
      if (std::ssize(sorted) != rank || sorted[d] != d)
        throw DataError("field \"" + p.keys[i] + "\" has shape " + list_text(field.tensor.sizes()) +
                        "; indices " + list_text(order) + " do not name each of its axes once");
    field.tensor = field.tensor.permute(order).contiguous();
  }
};

const Register<Transpose> registered;

}  // namespace
}  // namespace sluice
