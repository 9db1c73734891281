// Thresholds of MONAI's ForegroundMask as parameters write them.
#pragma once

#include "kernels/image/tissue.h"
#include "nodes/transform/transform.h"

namespace sluice {

// R, G, B, H, S, V from {"S": "otsu", "R": 200} or one for all channels of a part.
inline std::array<TissueThreshold, 6> tissue_thresholds(const Json& rgb, const Json& hsv) {
  std::array<TissueThreshold, 6> all;
  const auto one = [](const Json& j, const std::string& where) -> TissueThreshold {
    if (j == "otsu") return {true, 0};
    if (j.is_number()) return {false, j.get<double>()};
    throw Error(Exit::usage, where + ": expected \"otsu\" or a number, found " + j.dump());
  };
  const auto part = [&](const Json& j, std::size_t first, const char* param, const char* letters) {
    if (j.is_null()) return;
    if (!j.is_object()) {
      for (std::size_t c = 0; c < 3; ++c) all[first + c] = one(j, param);
      return;
    }
    for (const auto& [key, value] : j.items()) {
      const std::string_view names = letters;
      const auto at =
          key.size() == 1
              ? names.find(static_cast<char>(std::toupper(static_cast<unsigned char>(key[0]))))
              : std::string_view::npos;
      if (at == std::string_view::npos)
        throw Error(Exit::usage, std::string(param) + ": expected one of the channels " + letters +
                                     ", found \"" + key + "\"");
      all[first + at] = one(value, param + ("." + key));
    }
  };
  part(rgb, 0, "threshold", "RGB");
  part(hsv, 3, "hsv_threshold", "HSV");
  if (std::none_of(all.begin(), all.end(), [](const auto& t) { return t.otsu || t.value != 0; }))
    throw Error(Exit::usage, "threshold or hsv_threshold must name at least one channel");
  return all;
}

}  // namespace sluice
