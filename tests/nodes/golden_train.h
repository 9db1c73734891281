// Golden cases of the training nodes and the sines their inputs are filled with.
#pragma once

#include "engine/run/registry.h"
#include "tests/nodes/golden.h"

namespace sluice {

inline Json golden_cases(const std::string& file) { return golden(file).at("cases"); }

// The registered nodes of a family: "loss", "metric".
inline std::vector<std::string> node_types(const std::string& family) {
  std::vector<std::string> names;
  for (const auto& spec : Registry::global().catalogue().all())
    if (spec->family == family) names.push_back(spec->name);
  REQUIRE_FALSE(names.empty());
  return names;
}

// scale * sin(first), scale * sin(first + 1), ...
inline at::Tensor sines(at::IntArrayRef shape, double first = 0, double scale = 1) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  return (at::sin(k) * scale).to(at::kFloat).reshape(shape);
}

}  // namespace sluice
