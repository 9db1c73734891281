// The expressions of a bundle ("$...") as syntax trees. Reading one executes nothing.
//
// Read is Python's expression grammar without await, yield, := and starred assignment; which of
// its calls mean something is the business of values.h.
#pragma once

#include <optional>

#include "tools/runtime/bundle/config.h"

namespace sluice::bundle {

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

struct Expr {
  enum class Kind : std::uint8_t {
    constant,     // value
    name,         // text
    reference,    // text: the absolute id of an item
    attribute,    // args[0].text
    call,         // args[0](args[1...]); names: "" or the keyword; text "*" or "**": unpacked
    subscript,    // args[0][args[1]]
    slice,        // args[0]:args[1]:args[2], null where left out
    unary,        // text args[0]
    binary,       // args[0] text args[1]; also comparisons, and, or
    conditional,  // args[0] if args[1] else args[2]
    list,
    tuple,
    set,
    dict,           // key, value, key, value; a null key: ** of the value
    lambda,         // names; args[0]: the body
    comprehension,  // text: list, set, dict or generator; names: the targets;
                    // args: element(, value), the list, conditions
    star,           // text * or **, args[0]
    format,         // an f-string's parts
  } kind;
  std::string text;
  Json value;
  std::vector<ExprPtr> args;
  std::vector<std::string> names;
};

// `text` without its "$"; `id` is the item's, for relative references. Refused where it is no
// expression that is known; an `import` gives null.
ExprPtr parse_expression(const std::string& text, const std::string& id, const At& at);

// A number, text, True, False, None, or lists and dictionaries of these, in which a name stands for
// its own text: how MONAI's command line reads a value. Nothing where `text` is anything else.
std::optional<Json> python_literal(const std::string& text);

// One canonical text for a tree, the same for all that differ in blanks, quotes and the names of a
// lambda's arguments.
std::string text_of(const Expr& e);

}  // namespace sluice::bundle
