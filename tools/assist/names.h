// Where the names of a graph stand: nodes, networks, variables, parts, fields. One walk over the
// text finds them all, so that definition, references and rename are the same list.
#pragma once

#include <string>
#include <vector>

#include "tools/assist/analysis.h"

namespace sluice::assist {

enum class Thing : std::uint8_t { node, model, variable, part, field, type };

struct Name {
  Thing thing = Thing::node;
  std::string scope;  // of nodes and variables: the part that they belong to; "": the graph
  std::string name;
  bool operator==(const Name&) const = default;
};

struct Occurrence {
  Name of;
  std::size_t source = 0;  // index into Analysis::sources
  Span span;               // of the name alone, without quotes
  bool defines = false;
};

// A field that a node names without its author having written it: its type always does (`param`
// empty), or by a parameter's default.
struct Unwritten {
  std::string field;
  const Value* node = nullptr;
  std::size_t source = 0;
  const Spec* spec = nullptr;
  std::string param;
};

struct Names {
  std::vector<Occurrence> all;
  std::vector<Unwritten> unwritten;
  // What a name of these scopes may be.
  std::vector<std::string> known(Thing thing, const std::string& scope) const;
  const Occurrence* at(std::size_t byte) const;  // in the open file; null where there is none
  const Occurrence* definition(const Name& name) const;
};

Names find_names(const Analysis& a);

struct TextEdit {
  std::size_t source = 0;
  Span span;
  std::string text;
};

struct Rename {
  std::string refused;  // why; "" where it can be done
  std::vector<TextEdit> edits;
  std::string warning;  // "crop draws at random: ..."
};
Rename rename(const Analysis& a, const Names& names, const Name& from, const std::string& to);

}  // namespace sluice::assist
