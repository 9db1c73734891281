// The types that a graph may name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

// Specs by name; what `check`, `dot` and `inspect` need. Made from a registry or from a catalogue.
class Catalogue {
 public:
  void add(Spec spec);
  const Spec* find(std::string_view type) const;
  const std::vector<std::unique_ptr<Spec>>& all() const { return specs_; }
  Json to_json() const;
  static Catalogue from_json(const Json& j);

 private:
  std::vector<std::unique_ptr<Spec>> specs_;  // sorted by name
};

}  // namespace sluice
