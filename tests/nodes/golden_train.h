// Golden values of tests/golden/*.json and the sines their inputs are filled with.
#pragma once

#include <ATen/ATen.h>

#include <fstream>
#include <string>

#include "engine/spec.h"

namespace sluice {

inline Json golden(const std::string& file) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + file);
  return Json::parse(in).at("cases");
}

// scale * sin(first), scale * sin(first + 1), ...
inline at::Tensor sines(at::IntArrayRef shape, double first = 0, double scale = 1) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  return (at::sin(k) * scale).to(at::kFloat).reshape(shape);
}

}  // namespace sluice
