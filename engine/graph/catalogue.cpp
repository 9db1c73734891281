#include "engine/graph/catalogue.h"

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

}  // namespace sluice
