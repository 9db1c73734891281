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

#include "engine/graph/graph.h"
#include "engine/graph/override.h"

namespace sluice::reading {

// ---- variables ----------------------------------------------------------------------------------

// What "@name" stands for; no value: its definition was faulty.
struct Binding {
  std::optional<Json> value;
  Place place;
  std::string path;  // "vars.lr"
  bool used = false;
};
using Bindings = std::map<std::string, Binding, std::less<>>;

// Where "@name" is looked up: a part's parameters first, then the file's variables.
struct Scope {
  Bindings* params = nullptr;
  Bindings* vars = nullptr;
  bool partial = false;  // some names are unknown, because what declares them is faulty
};

// ---- what is written in the file ----------------------------------------------------------------

// A reference that was replaced: where it stands in its field ("", "/0", "/image/1"), and what it
// stands for.
struct Origin {
  std::string at;
  Place place;
  std::string path;  // "vars.lr"
};

// One member of an object. The value has its variables replaced.
struct Field {
  std::string key;
  std::optional<Json> value;
  Place place;
  std::vector<Origin> origins;

  const Origin* origin(std::string_view pointer) const;  // of the element there; null: written here
  // Of an object or a list: the member, as a field of its own.
  Field member(const std::string& name) const;
  std::vector<Field> members() const;
};

struct Written {
  std::string path;  // "nodes.pre/load", as diagnostics name it
  Place place;
  std::vector<Field> fields;

  const Field* find(std::string_view key) const;
  Field* find(std::string_view key);
};

// "node" or "node.port" as written somewhere.
struct Ref {
  std::string text, prefix;  // names are looked up after the prefix: "pre/"
  Place place;
  std::string path;  // "nodes.pre/load.in"
};

// ---- what the names of a graph stand for --------------------------------------------------------

struct Name {
  enum class Kind { node, part, input, faulty } kind = Kind::faulty;
  int node = -1;                                  // kind node: index into Expanded::nodes
  std::vector<std::pair<std::string, Ref>> outs;  // kind part: port ("" for the one out) -> inner
  std::optional<Ref> outer;                       // kind input: what the part is given
  Place place;
};

struct WrittenNode : Written {
  std::string name;        // "pre/load"
  std::string prefix;      // "pre/"
  bool rehearsed = false;  // of a part that nothing uses: checked, and not in the graph
};

struct Expanded {
  std::vector<WrittenNode> nodes;
  std::map<std::string, Name, std::less<>> names;
  std::set<std::string> partial;  // prefixes in which some names are unknown
  std::vector<std::pair<std::string, Place>> unused_parts;
};

// A node that is connected to, or nothing where that is unknown.
struct Target {
  int node = -1, port = 0;
};

// ---- the steps ----------------------------------------------------------------------------------

// The members of an object whose keys are known: "nodes", "vars", ... A misspelt key is reported
// and then read as the one that it is nearest to, so it is said once and hides nothing.
class Members {
 public:
  Members() = default;
  Members(const struct Reading& reading, const Json& object, const Place& place,
          const std::string& path, const std::vector<std::string>& known, const std::string& where);
  const Json* find(std::string_view key) const;  // null where it is not there
  Place place(std::string_view key) const;

 private:
  const Json* object_ = nullptr;
  Place place_;
  std::map<std::string, std::string, std::less<>> misspelt_;  // "vars" -> "vras"
};

struct Reading {
  DocumentPtr document;
  const Catalogue& catalogue;
  Diagnostics& diagnostics;
  Members top;               // of the file
  bool has_refused = false;  // some values of the file stand for nothing
  Bindings vars;
  bool vars_partial = false;
  std::set<std::string> model_names, used_models;
  bool models_partial = false;
  std::size_t budget = 50'000'000;  // bytes, roughly, that variables and parts may expand to

  Diagnostic& error(std::string code, std::string message, const Place& place, std::string path,
                    std::string hint = "") const {
    return diagnostics.error(std::move(code), std::move(message), place, std::move(path),
                             std::move(hint));
  }
  // At a field, or at the element of it that `pointer` leads to; adds where the value came from.
  Diagnostic& error_at(const Field& field, std::string code, std::string message, std::string path,
                       std::string hint = "", const std::string& pointer = "") const;
  Scope scope() { return {nullptr, &vars, vars_partial}; }
};

// Keys that are never read: "ui" and "x-...".
bool is_ignored(std::string_view key);
// Letters, digits, _ and -; with `/` between them where `nested`.
bool is_name(std::string_view name, bool nested);
std::vector<std::string> keys_of(const Json& object);
std::string listed(const std::vector<std::string>& words);    // "a", "b"
std::string counted(std::size_t n, const std::string& what);  // "2 inputs"
// `value` is an object. Else SL0216 for a list, where `named` says what its members would be, and
// SL0201 for all others.
bool expect_object(const Reading& reading, const Json& value, const Place& place,
                   const std::string& path, const std::string& named = "");

// graph_vars.cpp
void read_variables(Reading& reading);
// The bindings of an object of values, "@name" replaced.
Bindings bind_values(Reading& reading, const Json& object, const Place& place,
                     const std::string& path, const Scope& scope);
Field resolve_field(Reading& reading, std::string key, const Json& value, const Place& place,
                    const std::string& path, const Scope& scope);
// Every member but the ignored ones.
Written read_object(Reading& reading, const Json& object, const Place& place,
                    const std::string& path, const Scope& scope);

// graph_parts.cpp
Expanded expand(Reading& reading, InnerOverrides& inner);

// graph_params.cpp
// Where neither "type" nor "part" is there, a key that is nearly one of them is taken for it.
void mend_kind(const Reading& reading, Written& written, bool network);
// The Spec of `type`; null and a diagnostic where there is none of that kind.
const Spec* find_spec(const Reading& reading, Written& written, bool network);
// Reports fields whose key is not in `known`, with `code`. One that is nearly a key that is missing
// takes its place: a `structural` key with the value, others as faulty, so that nothing else is
// said of them.
void mend_keys(const Reading& reading, Written& written, const std::vector<std::string>& known,
               const std::vector<std::string>& structural, const std::string& code,
               const std::string& owner, const std::string& otherwise);
// Fields that are not `reserved`, checked against the Spec, and defaults for the others.
void read_params(const Reading& reading, const Spec& spec, Written& written,
                 const std::vector<std::string>& reserved, Json& params,
                 std::vector<std::string>& given, const std::string& unknown = "SL0221");
// Whether a field can be this parameter; SL0222, SL0223 and the like where it cannot.
bool accepts(const Reading& reading, const Field& field, const ParamSpec& spec,
             const std::string& path);
extern const std::vector<std::string> node_keys;
// Everything of a node but its inputs.
GraphNode read_node(const Reading& reading, WrittenNode& written, bool& disabled);

// graph_wires.cpp
// `in` of a node or a part whose in-ports are `ports`: port index -> reference. Ports that stand
// in the file but are faulty are in `mentioned` all the same.
std::vector<std::pair<int, Ref>> read_inputs(const Reading& reading, const Written& written,
                                             const std::string& prefix,
                                             const std::vector<std::string>& ports,
                                             const std::string& owner, std::set<int>& mentioned,
                                             const char* unknown_port = "SL0303");
// Says that these inputs, of all `ports`, are not connected.
void not_connected(const Reading& reading, const Written& written, const char* code,
                   const std::vector<std::string>& lacking, const std::string& owner,
                   const std::vector<std::string>& ports);
// Connects the nodes, takes the disabled ones out, looks for cycles.
void connect(const Reading& reading, const Expanded& expanded, std::vector<GraphNode>& nodes,
             const std::vector<bool>& disabled);
// Whether `in` has a form that it may have, whatever it names.
bool is_input_form(const Reading& reading, const Field& in, const std::vector<std::string>& ports,
                   const std::string& path);

// graph_requires.cpp
// Finds what `requires` names; nodes are still as expanded, disabled ones among them.
void connect_requires(const Reading& reading, const Expanded& expanded,
                      std::vector<GraphNode>& nodes, const std::vector<bool>& disabled);

}  // namespace sluice::reading
