// Whether a field is a batch or one sample's, where a node takes both.
#pragma once

#include <string>

#include "engine/state/sample.h"
#include "nodes/fields.h"

namespace sluice {

// [N, C, X, Y, Z] or [C, X, Y, Z], with so many spatial axes. Refuses other shapes (`hint` ends
// what is said), and a batch of several samples whose axes are those of one.
inline bool is_batch(const Field& field, const std::string& key, std::int64_t axes,
                     const std::string& hint = "") {
  const at::Tensor& t = field.tensor;
  const std::size_t members = field.meta.size();
  if (t.defined() && t.dim() == axes + 2) return true;
  if (t.defined() && t.dim() == axes + 1 && members == 1) return false;
  const std::string shape = t.defined() ? list_text(t.sizes()) + " " : "";
  throw DataError("field \"" + key + "\" " + shape + "is " +
                  (members > 1 && t.defined() && t.dim() > 1
                       ? "a batch of " + std::to_string(members) + " samples of " +
                             std::to_string(t.dim() - 2) + " spatial axes, and spatial_dims is " +
                             std::to_string(axes)
                       : "neither a sample nor a batch of " + std::to_string(axes) +
                             " spatial axes, as spatial_dims says" + hint));
}

}  // namespace sluice
