#include "nodes/optimizer/layer_decay.h"

#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include "engine/base/error.h"

namespace sluice {

std::vector<double> layer_factors(double decay, const std::vector<std::string>& patterns,
                                  const std::vector<std::string>& names) {
  using Layer = std::pair<std::size_t, std::int64_t>;  // the pattern, the number in it
  std::vector<std::optional<Layer>> layer(names.size());
  std::map<Layer, double> depths;
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    std::regex pattern;
    try {
      pattern = std::regex(patterns[k]);
    } catch (const std::regex_error& e) {
      throw Error(Exit::usage,
                  "layers: \"" + patterns[k] + "\" is no regular expression: " + e.what());
    }
    bool any = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::smatch found;
      if (layer[i] || !std::regex_search(names[i], found, pattern)) continue;
      any = true;
      const std::string number = found.size() > 1 ? found[1].str() : "";
      const bool counts = !number.empty() && number.size() < 10 &&
                          number.find_first_not_of("0123456789") == std::string::npos;
      layer[i] = {k, counts ? std::stoll(number) : 0};
      depths[*layer[i]] = 0;
    }
    if (!any)
      throw Error(Exit::usage, "layers: no parameter's name has \"" + patterns[k] +
                                   "\" that is in no layer before; the first is " +
                                   (names.empty() ? "none" : names.front()));
  }
  double depth = 0;
  for (auto& [key, value] : depths) value = depth++;
  std::vector<double> factors(names.size(), 1);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (layer[i]) factors[i] = std::pow(decay, depth - depths[*layer[i]]);
  return factors;
}

}  // namespace sluice
