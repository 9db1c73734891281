// What the steps of reading a graph share; private to graph*.cpp.
//
//   document --overrides--> document --variables, parts--> Written[] --Specs--> GraphNode[]
//                                                      \-> Names --------------> inputs
//
// Invariant: every step reports all it finds and hands on what it could read. What was faulty is
// handed on as "unknown" (an empty optional, a null Spec, a Target without a node), and later steps
// say nothing about it, so one mistake gives one diagnostic.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/graph.h"
#include "engine/override.h"

namespace sluice::reading {

// ---- variables ----------------------------------------------------------------------------------

// What "@name" stands for; no value: its definition was faulty.
struct Binding {
  std::optional<Json> value;
  Place place;
  std::string path;  // "vars.lr"
};
using Bindings = std::map<std::string, Binding, std::less<>>;

// Where "@name" is looked up: a part's parameters first, then the file's variables.
struct Scope {
  const Bindings* params = nullptr;
  const Bindings* vars = nullptr;
};

// ---- what is written in the file ----------------------------------------------------------------

// One member of an object. The value has its variables replaced.
struct Field {
  std::string key;
  std::optional<Json> value;
  Place place;
  std::string origin;  // "the value comes from vars.lr at a.json:3:12"; "" where it stands here
};

struct Written {
  std::string path;  // "nodes.pre/load", as diagnostics name it
  Place place;
  std::vector<Field> fields;

  const Field* find(std::string_view key) const;
};

// "node" or "node.port" as written somewhere.
struct Ref {
  std::string text, prefix;  // names are looked up behind the prefix: "pre/"
  Place place;
  std::string path;  // "nodes.pre/load.in"
};

// ---- what the names of a graph stand for --------------------------------------------------------

struct Name {
  enum class Kind { node, part, input, faulty } kind = Kind::faulty;
  int node = -1;                                  // kind node: index into Expanded::nodes
  std::vector<std::pair<std::string, Ref>> outs;  // kind part: port ("" for the one out) -> inner
  std::optional<Ref> outer;                       // kind input: what the part is given
};

struct WrittenNode : Written {
  std::string name;    // "pre/load"
  std::string prefix;  // "pre/"
};

struct Expanded {
  std::vector<WrittenNode> nodes;
  std::map<std::string, Name, std::less<>> names;
};

// A node that is connected to, or nothing where that is unknown.
struct Target {
  int node = -1, port = 0;
};

// ---- the steps ----------------------------------------------------------------------------------

struct Reading {
  DocumentPtr document;
  const Catalogue& catalogue;
  Diagnostics& diagnostics;
  Bindings vars;
  std::set<std::string> model_names;
  std::size_t budget = 50'000'000;  // bytes, roughly, that variables and parts may expand to

  Diagnostic& error(std::string code, std::string message, const Place& place, std::string path,
                    std::string hint = "") const {
    return diagnostics.error(std::move(code), std::move(message), place, std::move(path),
                             std::move(hint));
  }
  // Adds where the value came from.
  void error_at(const Field& field, std::string code, std::string message, std::string path,
                std::string hint = "") const;
};

// Keys that are never read: "ui" and "x-...".
bool is_ignored(std::string_view key);
// Letters, digits, _ and -; with `/` between them where `nested`.
bool is_name(std::string_view name, bool nested);
std::vector<std::string> keys_of(const Json& object);
// `value` is an object (SL0201 otherwise).
bool expect_object(const Reading& reading, const Json& value, const Place& place,
                   const std::string& path);

// graph_vars.cpp
void read_variables(Reading& reading);
// The bindings of an object of values, "@name" replaced.
Bindings bind(Reading& reading, const Json& object, const Place& place, const std::string& path,
              const Scope& scope);
Field resolve_field(Reading& reading, std::string key, const Json& value, const Place& place,
                    const std::string& path, const Scope& scope);
// Every member but the ignored ones.
Written read_object(Reading& reading, const Json& object, const Place& place,
                    const std::string& path, const Scope& scope);

// graph_parts.cpp
Expanded expand(Reading& reading, InnerOverrides& inner);

// graph_params.cpp
// The Spec of `type`; null and a diagnostic where there is none of that kind.
const Spec* find_spec(const Reading& reading, const Written& written, bool network);
// Fields that are not `reserved`, checked against the Spec, and defaults for the others.
void read_params(const Reading& reading, const Spec& spec, const Written& written,
                 const std::vector<std::string>& reserved, Json& params,
                 std::vector<std::string>& given);
// Whether a field can be this parameter; SL0222 or SL0223 where it cannot.
bool accepts(const Reading& reading, const Field& field, const ParamSpec& spec,
             const std::string& path);
extern const std::vector<std::string> node_keys;
// Everything of a node but its inputs.
GraphNode read_node(const Reading& reading, const WrittenNode& written, bool& disabled);

// graph_wires.cpp
// `in` of a node or a part whose in-ports are `ports`: port index -> reference. Ports that stand
// in the file but are faulty are in `mentioned` all the same.
std::vector<std::pair<int, Ref>> read_inputs(const Reading& reading, const Written& written,
                                             const std::string& prefix,
                                             const std::vector<std::string>& ports,
                                             const std::string& owner, std::set<int>& mentioned);
// Connects the nodes, takes the disabled ones out, looks for cycles.
void connect(const Reading& reading, const Expanded& expanded, std::vector<GraphNode>& nodes,
             const std::vector<bool>& disabled);

// graph_requires.cpp
// Finds what `requires` names; nodes are still as expanded, disabled ones among them.
void connect_requires(const Reading& reading, const Expanded& expanded,
                      std::vector<GraphNode>& nodes, const std::vector<bool>& disabled);

}  // namespace sluice::reading
