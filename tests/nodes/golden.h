// Golden files that MONAI wrote (tests/golden/make_*.py), and the inputs that their formulas give.
#pragma once

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

// SLUICE_GOLDEN names another folder, where the tests run without the sources.
inline std::string golden_folder() {
  const char* given = std::getenv("SLUICE_GOLDEN");
  return given ? given : SLUICE_SOURCE_DIR "/tests/golden";
}

// Kept, so that a loop over a part of it may name it in its head.
inline const Json& golden(const std::string& name) {
  static std::map<std::string, Json> all;
  if (const auto known = all.find(name); known != all.end()) return known->second;
  std::ifstream file(golden_folder() + "/" + name);
  REQUIRE(file.good());
  return all[name] = Json::parse(file);
}

// 100 sin(0.7 i) + 20, with every fifth voxel 0.
inline at::Tensor golden_image(at::IntArrayRef shape) {
  const at::Tensor i = at::arange(c10::multiply_integers(shape), at::kDouble);
  const at::Tensor x = i.mul(0.7).sin().mul(100).add(20).mul(i.remainder(5).ne(0));
  return x.to(at::kFloat).view(shape);
}

inline std::vector<std::int64_t> shape_of(const Json& j) { return j["shape"]; }

// The largest difference, relative to the golden values' own scale.
inline double difference(const at::Tensor& got, const Json& expected) {
  const auto values = expected.get<std::vector<double>>();
  const at::Tensor want = at::tensor(values, at::kDouble);
  REQUIRE(got.numel() == want.numel());
  const at::Tensor error = (got.cpu().flatten().to(at::kDouble) - want).abs().max();
  return error.item<double>() / std::max(want.abs().max().item<double>(), 1e-30);
}

}  // namespace sluice
