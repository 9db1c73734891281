#include "nodes/optimizer/groups.h"

#include <optional>
#include <regex>

#include "engine/base/error.h"
#include "engine/graph/check_members.h"
#include "engine/graph/parameter_groups.h"

namespace sluice {
namespace {

std::string name_of(std::size_t group) { return "groups[" + std::to_string(group) + "]"; }

[[noreturn]] void refuse(std::size_t group, const std::string& why) {
  throw Error(Exit::usage, name_of(group) + ": " + why);
}

ParameterGroup read(std::size_t group, const Json& written) {
  if (!written.is_object()) refuse(group, "expected an object, found " + describe_json(written));
  check_members(written, parameter_group_spec(), name_of(group), "no key is called");
  if (!written.contains("match")) refuse(group, "\"match\" is missing");
  for (const ParamRule& rule : parameter_group_spec().param_rules)
    if (written.contains(rule.a) && written.contains(rule.b))
      refuse(group, "\"" + rule.a + "\" and \"" + rule.b + "\" exclude each other");
  ParameterGroup p;
  parameter_group_spec().apply(&p, written);
  return p;
}

}  // namespace

std::vector<ParameterSettings> group_settings(const std::vector<Json>& groups,
                                              const std::vector<std::string>& names,
                                              const ParameterSettings& others) {
  std::vector<ParameterSettings> settings(names.size(), others);
  std::vector<std::optional<std::size_t>> taken(names.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ParameterGroup p = read(g, groups[g]);
    std::regex pattern;
    try {
      pattern = std::regex(p.match);
    } catch (const std::regex_error& e) {
      refuse(g, "\"" + p.match + "\" is no regular expression: " + e.what());
    }
    bool any = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!std::regex_search(names[i], pattern)) continue;
      any = true;
      if (taken[i]) refuse(g, names[i] + " is in " + name_of(*taken[i]) + " already");
      taken[i] = g;
      ParameterSettings& s = settings[i];
      s.lr = p.lr.value_or(others.lr * p.lr_scale.value_or(1));
      s.weight_decay = p.weight_decay.value_or(others.weight_decay);
      s.from_epoch = p.frozen ? ParameterSettings::never
                              : static_cast<std::uint64_t>(p.from_epoch.value_or(0));
    }
    if (!any)
      refuse(g, "no parameter's name has \"" + p.match + "\"; the first is " +
                    (names.empty() ? "none" : names.front()));
  }
  return settings;
}

}  // namespace sluice
