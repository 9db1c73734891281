// The parameter `alpha` of focal_loss: a number and a list of one number are not the same.
#pragma once

#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

struct FocalAlpha {
  std::vector<double> values;
  bool by_class = false;  // else of the foreground: one value
  double value() const { return values.front(); }
};

template <>
struct ParamType<FocalAlpha> {
  using List = ParamType<std::vector<double>>;
  static std::string name() { return List::name(); }
  static FocalAlpha parse(const Json& j) { return {List::parse(j), j.is_array()}; }
  static Json write(const FocalAlpha& a) {
    return a.by_class ? List::write(a.values) : Json(a.value());
  }
};

}  // namespace sluice
