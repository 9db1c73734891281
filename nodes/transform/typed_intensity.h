// What the transforms of intensities share whose result has a type of its own: MONAI's `dtype`.
// They compute in float32.
#pragma once

#include "engine/run/registry.h"
#include "engine/state/dtype.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

struct TypedParams : IntensityParams {
  std::optional<std::string> dtype = "float32";
};

inline Spec& add_typed_params(Spec& s) {
  s.param("dtype", &TypedParams::dtype,
          "The result's type; where it is whole, fractions are cut off. null: the type it had.")
      .choices(dtype_names());
  add_intensity_params(s).when("dtype", "float32");
  return s.changes("@keys").unless("dtype", "float32");
}

// What a field of type `before` becomes.
inline at::ScalarType result_type(const TypedParams& p, at::ScalarType before) {
  return p.dtype ? find_dtype(&Dtype::name, *p.dtype)->type : before;
}

struct TypedNode : FusedNode {
  void open(const OpenContext& context) override {
    FusedNode::open(context);
    lazy_ = context.lazy;
  }

 protected:
  // Calls change(), which leaves float32, and gives the field the wanted type.
  template <class Change>
  void change_typed(Field& field, const TypedParams& p, Change&& change) const {
    const at::ScalarType type = result_type(p, dtype_of(field));
    change();
    if (type == at::kFloat) return;
    settle(field, lazy_);
    field.tensor = field.tensor.to(type);
  }

 private:
  bool lazy_ = false;
};

}  // namespace sluice
