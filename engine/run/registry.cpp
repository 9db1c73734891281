#include "engine/run/registry.h"

#include <algorithm>
#include <stdexcept>

namespace sluice {

void Catalogue::add(Spec spec) {
  auto at = std::lower_bound(specs_.begin(), specs_.end(), spec.name,
                             [](const auto& s, const std::string& n) { return s->name < n; });
  if (at != specs_.end() && (*at)->name == spec.name)
    throw std::logic_error("type registered twice: " + spec.name);
  specs_.insert(at, std::make_unique<Spec>(std::move(spec)));
}

const Spec* Catalogue::find(std::string_view type) const {
  auto at = std::lower_bound(specs_.begin(), specs_.end(), type,
                             [](const auto& s, std::string_view n) { return s->name < n; });
  return at != specs_.end() && (*at)->name == type ? at->get() : nullptr;
}

Json Catalogue::to_json() const {
  Json j = Json::array();
  for (const auto& s : specs_) j.push_back(s->to_json());
  return j;
}

Catalogue Catalogue::from_json(const Json& j) {
  Catalogue c;
  for (const auto& s : j) c.add(Spec::from_json(s));
  return c;
}

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
