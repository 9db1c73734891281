// Labels of one channel.
#pragma once

#include <string>

#include "engine/state/list_field.h"
#include "nodes/fields.h"

namespace sluice {

// A label [1, X, Y(, Z)] as it is: of `least` axes or more.
inline const at::Tensor& one_channel(const at::Tensor& t, const std::string& key, int least = 2) {
  require_spatial(t, key, least);
  if (t.size(0) != 1)
    throw DataError("field \"" + key + "\" has " + std::to_string(t.size(0)) +
                    " channels; needed is a label of one");
  return t;
}
inline const at::Tensor& one_channel(const Sample& sample, const std::string& key, int least = 2) {
  return one_channel(sample.tensor(key), key, least);
}

}  // namespace sluice
