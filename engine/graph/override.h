// Overrides: `--set nodes.step.lr=3e-4` changes the document before anything is checked, so a value
// from the command line meets the same checks as one from the file.
//
// Invariant: a path whose names do not exist is an error with a suggestion, never a new name that
// nothing reads; `+path` alone adds names. Without it only what the checks know by themselves may
// be new: a node's parameters, a setting of `run`. What is wrong with an overridden value is
// reported at "--set nodes.step.lr=x".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice {

// One member of a node inside a part ("nodes.pre/load.keys"): no place in the file belongs to it
// alone, because the part may be used twice, so it is applied when the part is expanded.
struct InnerOverride {
  std::vector<std::string> keys;  // {"keys"} or {"size", "0"}
  Json value;
  Override::Act act = Override::Act::set;
  Place place;  // reads "--set nodes.pre/load.keys=..."
  bool used = false;
};
using InnerOverrides = std::multimap<std::string, InnerOverride>;  // by node: "pre/load"

// "path=value", "+path=value" and "~path", as behind --set.
std::vector<Override> parse_overrides(const std::vector<std::string>& texts,
                                      Diagnostics& diagnostics);

// JSON, or the text itself where it is none. JSON that a file would not be allowed to hold
// (duplicate keys, too large numbers) is reported to `found`.
Json override_value(const std::string& text, Diagnostics& found);

// The document with `overrides` applied in order; itself where there are none.
DocumentPtr apply_overrides(DocumentPtr document, const std::vector<Override>& overrides,
                            InnerOverrides& inner, Diagnostics& diagnostics);

// Applies one to a node's own object. Returns what is wrong, "" where nothing is.
std::string apply_inner(Json& object, const InnerOverride& override);

}  // namespace sluice
