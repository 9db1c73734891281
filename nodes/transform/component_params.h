// What the transforms share that work on some labels of a map.
#pragma once

#include "kernels/image/components.h"
#include "nodes/transform/each_key.h"

namespace sluice {

struct ComponentParams {
  std::vector<std::string> keys{"pred"};
  std::optional<std::vector<std::int64_t>> applied_labels;
  std::optional<std::int64_t> connectivity;
  bool allow_missing_keys = false;
};

inline Spec& add_applied_labels(Spec& s) {
  using Params = ComponentParams;
  return s.in("sample")
      .out("sample")
      .param("keys", &Params::keys,
             "Label maps [1, X, Y(, Z)] or one-hot [C, X, Y(, Z)]; their type stays.")
      .param("applied_labels", &Params::applied_labels,
             "Labels (channels, where one-hot) to work on; null: all but 0.")
      .length(1)
      .takes("@keys", Form::image, 2, 3);
}

inline Spec& add_connectivity(Spec& s, std::string text) {
  return s.param("connectivity", &ComponentParams::connectivity, std::move(text)).range(1, 3);
}

}  // namespace sluice
