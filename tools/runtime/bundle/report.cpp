#include "tools/runtime/bundle/report.h"

#include <algorithm>

namespace sluice::bundle {
namespace {

const char* word(Fate state) {
  switch (state) {
    case Fate::translated:
      return "translated";
    case Fate::dropped:
      return "without effect here";
    case Fate::replaced:
      return "replaced";
    case Fate::missing:
      return "no counterpart";
    case Fate::unused:
      return "not used";
  }
  return "";
}

void collect(const ItemPtr& item, std::vector<ItemPtr>& components) {
  if (!item->target().empty()) components.push_back(item);
  for (const auto& element : item->elements) collect(element, components);
  for (const auto& [key, member] : item->members) collect(member, components);
}

}  // namespace

void Report::add(const Item& item, const std::string& what, Fate state, const std::string& text,
                 bool blocks) {
  ids_.insert(item.id);
  for (const Line& line : lines_)
    if (line.at.str() == item.at.str() && line.what == what && line.text == text &&
        line.state == state)
      return;
  lines_.push_back({item.at, what, state, text, blocks});
}

void Report::account_for(const Config& config) {
  std::vector<ItemPtr> components;
  collect(config.root(), components);
  for (const auto& component : components) {
    if (ids_.contains(component->id)) continue;
    const std::string target = component->target();
    add(*component, last_name(target), Fate::unused, component->id);
  }
}

std::size_t Report::count(Fate state) const {
  return static_cast<std::size_t>(
      std::count_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.state == state; }));
}

bool Report::blocked() const {
  return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.blocks; });
}

std::string Report::text() const {
  std::string out;
  for (const Line& line : lines_)
    out += line.at.file + ":" + std::to_string(line.at.line) + ": " + line.what + ": " +
           word(line.state) + (line.text.empty() ? "" : ": " + line.text) + "\n";
  return out;
}

}  // namespace sluice::bundle
