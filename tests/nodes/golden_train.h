// Golden cases of the training nodes and the sines their inputs are filled with.
#pragma once

#include "tests/nodes/golden.h"

namespace sluice {

inline Json golden_cases(const std::string& file) { return golden(file).at("cases"); }

// scale * sin(first), scale * sin(first + 1), ...
inline at::Tensor sines(at::IntArrayRef shape, double first = 0, double scale = 1) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  return (at::sin(k) * scale).to(at::kFloat).reshape(shape);
}

}  // namespace sluice
