// A text that an editor holds, checked as `sluice check` checks a file, and what is known of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/merge.h"
#include "engine/plan/plan.h"
#include "tools/assist/tree.h"

namespace sluice::assist {

struct Checked {
  Diagnostics diagnostics;
  std::optional<Graph> graph;
  std::optional<Plan> plan;  // points into graph
};
// A plan where nothing is wrong.
void check_document(const DocumentPtr& document, const Catalogue& catalogue,
                    const std::vector<Override>& overrides, Checked& checked);

// A file whose text is looked at: the open one first, then what it is a difference to, then those
// of its parts.
struct Source {
  std::string file, text;
  Tree tree;
  std::string part;  // it holds this part of the graph; "": a graph
};

// What flows out of a node, by the pointer of the node's object ("/parts/prepare/nodes/norm"; of a
// part that is used twice the first use).
struct Leaving {
  std::vector<std::pair<std::string, std::string>> fields;  // "image", "float32 [1, 64, 64, 64]"
  std::vector<std::string> changed;                         // a line a kind, as `dot` shows it
};
using Flows = std::map<std::string, Leaving>;

struct Analysis {
  const Catalogue* catalogue = nullptr;
  bool is_graph = false;  // false: some other JSON file, of which nothing is said
  std::vector<Source> sources;
  Checked said;  // what `check` says
  Flows flows;   // of this text, or where it is not right, of the last one that was
  std::size_t nodes = 0, streams = 0;  // where a plan was made

  const Source& main() const { return sources.front(); }
  const std::string& text() const { return main().text; }
  const Tree& tree() const { return main().tree; }
  // A member of "nodes" or "parts": of the open file, else of what it is a difference to.
  const Value* member(std::string_view group, std::string_view name) const;
};

// A file that is only a difference says to what: "x-base": "base.json", or a list of files. The sum
// is checked, and what belongs to this file is said. `open`: what editors hold of other files.
// `before`: what was known of the text as it was.
std::unique_ptr<Analysis> analyse(const std::string& file, std::string text,
                                  const Catalogue& catalogue, const OpenFiles& open = {},
                                  const Analysis* before = nullptr);

// Where a diagnostic stands in the open file: the place where that names the other file, if it is
// about another one.
Span span_of(const Diagnostic& d, const Analysis& a, const Bytes& bytes);

}  // namespace sluice::assist
