#include "engine/run/registry.h"

#include <algorithm>
#include <stdexcept>

namespace sluice {

Registry& Registry::global() {
  static Registry registry;
  return registry;
}

// ".../nodes/transform/rand_flip.cpp" -> "transform"
static std::string family_of(std::string_view file) {
  const auto slash = file.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return "";
  const auto before = file.rfind('/', slash - 1);
  return std::string(file.substr(before + 1, slash - before - 1));
}

void Registry::add(Spec spec, MakeNode node, MakeNetwork network, std::string_view file) {
  if (spec.family.empty()) spec.family = family_of(file);
  entries_.push_back({spec.name, node, network});
  catalogue_.add(std::move(spec));
}

const Registry::Entry& Registry::entry(const std::string& type) const {
  auto at = std::find_if(entries_.begin(), entries_.end(),
                         [&](const Entry& e) { return e.type == type; });
  if (at == entries_.end()) throw std::logic_error("type not registered: " + type);
  return *at;
}

std::unique_ptr<Node> Registry::make_node(const std::string& type, const Json& params) const {
  return entry(type).node(*catalogue_.find(type), params);
}

std::shared_ptr<Network> Registry::make_network(const std::string& type, const Json& params) const {
  return entry(type).network(*catalogue_.find(type), params);
}

}  // namespace sluice
