// A label of one channel, as clicks need it.
#pragma once

#include <string>

#include "engine/state/list_field.h"
#include "nodes/fields.h"

namespace sluice {

// The label that clicks are drawn in, [1, X, Y(, Z)]: of `least` axes or more.
inline const at::Tensor& one_channel(const Sample& sample, const std::string& key, int least = 2) {
  const at::Tensor& t = sample.tensor(key);
  require_spatial(t, key, least);
  if (t.size(0) != 1)
    throw DataError("field \"" + key + "\" has " + std::to_string(t.size(0)) +
                    " channels; clicks need a label of one");
  return t;
}

}  // namespace sluice
