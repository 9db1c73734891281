// Reads spatial.json and makes the volume that make_spatial.py made.
#pragma once

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice {

inline const nlohmann::ordered_json& spatial_golden() {
  static const auto document = [] {
    std::ifstream in(SLUICE_SOURCE_DIR "/tests/golden/spatial.json");
    return nlohmann::ordered_json::parse(in);
  }();
  return document;
}

inline std::vector<nlohmann::ordered_json> spatial_cases(const std::string& name) {
  std::vector<nlohmann::ordered_json> found;
  for (const auto& c : spatial_golden()["cases"])
    if (c["case"] == name) found.push_back(c);
  REQUIRE(!found.empty());
  return found;
}

// [channels, 13, 9, 11], or [channels, 13, 9] where flat.
inline at::Tensor made_volume(std::int64_t channels = 2, bool flat = false) {
  const at::Tensor v = at::empty({channels, 13, 9, flat ? 1 : 11}, at::kFloat);
  float* p = v.mutable_data_ptr<float>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (int x = 0; x < 13; ++x)
      for (int y = 0; y < 9; ++y)
        for (int z = 0; z < v.size(3); ++z) {
          const double wave = std::sin(0.7 * x + 0.3) * std::cos(0.9 * y) + 0.3 * double(c);
          *p++ = float(wave + (flat ? 0 : 0.5 * std::sin(1.3 * z + double(c))));
        }
  return flat ? v.squeeze(-1) : v;
}

inline void check_golden(const at::Tensor& got, const nlohmann::ordered_json& expected,
                         double tolerance = 1e-5) {
  const std::string name = expected["case"].dump() + " " + expected["params"].dump();
  INFO(name);
  CHECK(got.sizes().vec() == expected["out_shape"].get<std::vector<std::int64_t>>());
  const at::Tensor flat = got.to(at::kDouble).contiguous().flatten();
  const double* p = flat.const_data_ptr<double>();
  const auto values = expected["values"].get<std::vector<double>>();
  const auto every = spatial_golden()["every"].get<std::size_t>();
  REQUIRE((values.size() - 1) * every < static_cast<std::size_t>(flat.numel()));
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(p[i * every] - values[i]));
  CHECK(worst < tolerance);
}

}  // namespace sluice
