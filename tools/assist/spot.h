// What an object of a graph file is, and so what may stand in it.
#pragma once

#include <string>
#include <vector>

#include "tools/assist/names.h"

namespace sluice::assist {

struct Owner {
  enum class Is : std::uint8_t {
    unknown,
    graph,
    run,
    stop,
    checkpoint,
    model,
    node,
    use,  // of a part
    part,
    ports,  // the object of an `in`
    held,   // a transform that another node holds
    layer,  // an object with a type of its own in a network's parameter
    names,  // an object whose keys its author chooses: vars, nodes, models, parts
  } is = Is::unknown;
  const Value* object = nullptr;
  const Spec* spec = nullptr;       // of its parameters; null: none, or unknown
  std::vector<const Spec*> beside;  // whose parameters may stand there too
  std::string scope;                // the part that it stands in
  const Value* node = nullptr;      // ports, held: the node around it; layer: the object of all
  const std::vector<Spec>* types = nullptr;  // layer: those that it may be of
};

// Of path[level], an object or a list's owner.
Owner owner_of(const Analysis& a, const std::vector<const Value*>& path, std::size_t level);

// The parameter of this name, whichever Spec has it; null where none has.
const ParamSpec* param_of(const Owner& owner, const std::string& key);

struct Key {
  std::string name, doc;
};
// The keys that are no parameters: "type", "in", "parts".
std::vector<Key> plain_keys(const Owner& owner);

// The definition of a part; null where there is none. Its text is that of its source.
const Value* find_part(const Analysis& a, const std::string& name);
// A node of a part, or with scope "" of the graph; null where there is none.
const Value* find_node(const Analysis& a, const std::string& scope, const std::string& name);
// What leaves the node or use of a part with this name in a scope; null where that is unknown.
const Leaving* leaving(const Analysis& a, const std::string& scope, const std::string& name);
// The nodes that a node reads from, as its text names them.
std::vector<std::string> inputs_of(const Value& node);

}  // namespace sluice::assist
