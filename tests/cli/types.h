// The node types of this build, for tests that check many graphs in their own process.
#pragma once

#include "engine/plan/plan.h"
#include "tests/cli/shell.h"

namespace types {

inline const sluice::Catalogue& real() {
  static const sluice::Catalogue catalogue =
      sluice::Catalogue::from_json(sluice::Json::parse(shell::run("$SLUICE inspect --json").out));
  return catalogue;
}

// What `sluice check` finds, plan included.
inline sluice::Diagnostics check(const std::string& file, const std::string& text,
                                 const sluice::Catalogue& catalogue = real(),
                                 const std::vector<sluice::Override>& overrides = {}) {
  sluice::Diagnostics found;
  const auto document = sluice::parse_document(file, text, found);
  const auto graph = sluice::load_graph(document, catalogue, overrides, found);
  if (graph) sluice::make_plan(*graph, {}, found);
  return found;
}

}  // namespace types
