// concat_items: MONAI's ConcatItemsd.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct ConcatItems final : Node {
  struct Params {
    std::vector<std::string> keys;
    std::string name;
    std::int64_t dim = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("concat_items", "Joins fields to one, by default channels behind channels.")
        .in("sample")
        .out("sample", "The fields stay; select_items lets them go.")
        .param("keys", &Params::keys, "Fields to join, alike but for the axis.")
        .required()
        .param("name", &Params::name,
               "The field that is made, with the first one's geometry; it may be one of keys.")
        .required()
        .param("dim", &Params::dim, "The axis, 0 for the channels; negative: from the last.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .any_device()
        .differentiable()
        .takes("@keys", Form::any)
        .gives("@name", Form::image)
        .like("@keys")
        .resizes("@name")
        .unless("dim", 0);
  }

  void process(Firing& f) override {
    std::vector<at::Tensor> parts;
    const Field* first = nullptr;
    for (const auto& key : p.keys) {
      if (p.allow_missing_keys && !f.in().has(key)) continue;
      const Field& field = f.in().at(key);
      if (!first) first = &field;
      check_alike(*first, field, key);
      parts.push_back(field.tensor);
    }
    if (!first) throw DataError("none of the keys is there");
    Sample out = f.in();
    out.set(p.name, Field(at::cat(parts, p.dim), first->meta));
    f.emit(std::move(out));
  }

 private:
  void check_alike(const Field& first, const Field& other, const std::string& key) const {
    const at::Tensor &a = first.tensor, &b = other.tensor;
    if (!b.defined())
      throw DataError("field \"" + key + "\" is a record that no node has loaded yet");
    const std::int64_t axis = p.dim < 0 ? p.dim + a.dim() : p.dim;
    bool alike = a.dim() == b.dim() && axis >= 0 && axis < a.dim();
    for (std::int64_t d = 0; alike && d < a.dim(); ++d) alike = d == axis || a.size(d) == b.size(d);
    if (!alike)
      throw shape_error(key, b,
                        ", which does not go with " + list_text(a.sizes()) + " along axis " +
                            std::to_string(p.dim));
    if (a.scalar_type() != b.scalar_type())
      throw DataError("field \"" + key + "\" is of another type than the first");
  }
};

const Register<ConcatItems> registered;

}  // namespace
}  // namespace sluice
