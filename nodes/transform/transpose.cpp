// transpose: MONAI's Transposed.
#include <set>

#include "kernels/image/spatial.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct Transpose final : EachKey<Transpose> {
  struct Params : KeyParams {
    std::optional<std::vector<std::int64_t>> indices;
    bool geometry = false;
  } p;

  static Spec spec() {
    return each_key_spec("transpose", "Puts the axes into another order.", "Fields to change.")
        .param("indices", &Params::indices,
               "For each axis of the result that of the field, the channels' included; null: the "
               "reverse order.")
        .param("geometry", &Params::geometry,
               "The affine follows the spatial axes, and the history tells it, so that invert and "
               "resample_argmax find the way back; the channels stay first. Else, as in MONAI, the "
               "affine stays.")
        .any_device()
        .takes("@keys", Form::any)
        .gives("@keys", Form::any);
  }

  void open(const OpenContext&) override {
    if (!p.indices) return;
    const std::int64_t rank = std::ssize(*p.indices);
    std::set<std::int64_t> axes;
    for (const std::int64_t d : *p.indices) axes.insert(d < 0 ? d + rank : d);
    if (rank == 0 || std::ssize(axes) != rank || *axes.begin() != 0 || *axes.rbegin() != rank - 1)
      throw Error(Exit::usage,
                  "indices " + list_text(*p.indices) + " do not name each axis once, from 0 on");
  }

  void change(Field& field, std::size_t i) const {
    const std::int64_t rank = field.tensor.dim();
    std::vector<std::int64_t> order;
    for (std::int64_t d = rank; d-- > 0;) order.push_back(d);
    if (p.indices) order = *p.indices;  // each axis of one of their number once: open()
    if (std::ssize(order) != rank)
      throw shape_error(p.keys[i], field.tensor,
                        "; indices " + list_text(order) + " do not name each of its axes once");
    for (std::int64_t& d : order) d = d < 0 ? d + rank : d;
    const at::Tensor turned = permuted(field.tensor, order);
    if (!p.geometry) {
      field.tensor = turned;
      return;
    }
    require_spatial(field.tensor, p.keys[i]);
    if (order[0] != 0)
      throw DataError("indices " + list_text(order) +
                      " move the channels, which have no place in a geometry");
    const Affine before = field.geometry().affine;
    Affine affine = before;
    for (std::size_t d = 1; d < order.size(); ++d)
      for (std::size_t row = 0; row < 3; ++row)
        affine[4 * row + d - 1] = before[4 * row + static_cast<std::size_t>(order[d]) - 1];
    record(field, turned, affine, "transpose", {order.begin() + 1, order.end()});
  }

 private:
  // Voxels within each channel go by blocks that caches hold.
  static at::Tensor permuted(const at::Tensor& t, const std::vector<std::int64_t>& order) {
    if (t.dim() != 4 || order[0] != 0 || !t.device().is_cpu() || t.element_size() > 8)
      return t.permute(order).contiguous();
    Reorder r;
    for (std::size_t d = 0; d < 3; ++d) r.from[d] = static_cast<int>(order[d + 1]) - 1;
    return reorder(t.contiguous(), r);
  }
};

const Register<Transpose> registered;

}  // namespace
}  // namespace sluice
