#include "engine/graph/check_members.h"

#include <algorithm>

#include "engine/base/diagnostic.h"
#include "engine/base/error.h"
#include "engine/graph/graph_reader.h"

namespace sluice {

void check_members(const Json& written, const Spec& spec, const std::string& at,
                   const std::string& unknown, const std::vector<std::string>& also) {
  for (const auto& [key, value] : written.items()) {
    if (reading::is_ignored(key) || std::find(also.begin(), also.end(), key) != also.end())
      continue;
    if (const ParamSpec* param = spec.find_param(key)) {
      if (const auto refusal = param->reject(value))
        throw Error(Exit::usage, at + "." + key + ": " + refusal->text +
                                     (refusal->hint.empty() ? "" : "; " + refusal->hint));
      continue;
    }
    std::vector<std::string> known = also;
    for (const ParamSpec& p : spec.params) known.push_back(p.name);
    const std::string hint = did_you_mean(key, known);
    throw Error(Exit::usage,
                at + ": " + unknown + " \"" + key + "\"" + (hint.empty() ? "" : "; " + hint));
  }
}

}  // namespace sluice
