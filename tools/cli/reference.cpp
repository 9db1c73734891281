#include "tools/cli/reference.h"

#include <algorithm>
#include <map>

#include "tools/assist/describe.h"

namespace sluice::cli {

using namespace assist;

namespace {

// The order in which a sample meets them.
const std::vector<std::pair<std::string, std::string>> families{
    {"io", "Sources, and what reads and writes files."},
    {"transform", "What MONAI's transforms do, by their names and defaults."},
    {"flow", "Where samples wait, are kept, batched or reordered."},
    {"device", "Between host memory and a GPU's."},
    {"augment", "Random transforms of whole batches."},
    {"model", "Forward passes, and a running mean of weights."},
    {"loss", "What training makes small, in the field `loss`."},
    {"optimizer", "What updates a network."},
    {"metric", "What is measured at the end of an epoch."},
    {"output", "What a run leaves to look at."},
    {"network", "Entries of `models`."}};

std::string cell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

bool same(const ParamSpec& a, const ParamSpec& b) {
  return a.name == b.name && type_of(a) == type_of(b) && a.doc == b.doc &&
         a.fallback == b.fallback && a.required == b.required;
}

bool has(const std::vector<ParamSpec>& list, const ParamSpec& p) {
  return std::any_of(list.begin(), list.end(), [&](const ParamSpec& q) { return same(p, q); });
}

// What all types of a family take; none where that is too little to be said apart.
std::vector<ParamSpec> shared_params(const std::vector<const Spec*>& family) {
  std::vector<ParamSpec> shared = family.front()->params;
  std::erase_if(shared, [&](const ParamSpec& p) {
    return std::any_of(family.begin(), family.end(),
                       [&](const Spec* s) { return !has(s->params, p); });
  });
  if (family.size() < 3 || shared.size() < 6) shared.clear();
  return shared;
}

std::string parameters(const std::vector<ParamSpec>& params) {
  if (params.empty()) return "";
  std::string out = "\n| parameter | type | default | |\n|---|---|---|---|\n";
  for (const ParamSpec& p : params)
    out += "| `" + p.name + "` | " + cell(type_of(p)) + " | " +
           (p.required ? "required" : "`" + cell(p.fallback.dump()) + "`") + " | " + cell(p.doc) +
           " |\n";
  return out;
}

std::string section(const Spec& s, const std::vector<ParamSpec>& shared) {
  std::string out = "### " + s.name + "\n\n" + s.doc + "\n\n";
  std::string words;
  for (const auto& word : traits(s))
    if (word != s.family && word != "network") words += (words.empty() ? "" : " · ") + word;
  if (!words.empty()) out += words + "\n\n";
  auto rows = fields_of(s);
  for (auto& row : rules_of(s)) rows.push_back(std::move(row));
  for (const auto& row : rows)
    out += "- " + row[0] + " `" + row[1] + "`" + (row[2].empty() ? "" : " " + row[2]) + "\n";
  std::vector<ParamSpec> own = s.params;
  std::erase_if(own, [&](const ParamSpec& p) { return has(shared, p); });
  out += parameters(own);
  if (!shared.empty()) out += "\nAnd what [all of them](#" + s.family + ") take.\n";
  return out + "\n```json\n" + example(s) + "\n```\n\n";
}

}  // namespace

std::string node_reference(const Catalogue& catalogue) {
  std::map<std::string, std::vector<const Spec*>> by_family;
  for (const auto& s : catalogue.all())
    by_family[s->is_network ? "network" : s->family].push_back(s.get());
  std::string out =
      "# The nodes\n\nWritten by `sluice inspect --markdown` from what the nodes declare; a test "
      "holds it to that.\n\n";
  for (const auto& [family, text] : families) {
    if (!by_family.count(family)) continue;
    out += "- [" + family + "](#" + family + "): ";
    std::string names;
    for (const Spec* s : by_family[family])
      names += (names.empty() ? "" : ", ") + ("[" + s->name + "](#" + s->name + ")");
    out += names + "\n";
  }
  for (const auto& [family, text] : families) {
    if (!by_family.count(family)) continue;
    out += "\n## " + family + "\n\n" + text + "\n\n";
    const auto shared = shared_params(by_family[family]);
    if (!shared.empty()) out += "All of them take:\n" + parameters(shared) + "\n";
    for (const Spec* s : by_family[family]) out += section(*s, shared);
  }
  out.pop_back();
  return out;
}

}  // namespace sluice::cli
