// Diagnostics: everything wrong with a graph is collected and shown at once, each with a code,
// its place in the file, the node's path, and what might have been meant.
//
//   error[SL0203]: unknown node type "load_imgae"
//     --> graphs/brain.json:9:24  (nodes.load.type)
//      |
//    9 |     "load":  { "type": "load_imgae", "in": "cases" },
//      |                        ^^^^^^^^^^^^ did you mean "load_image"?
#pragma once

#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/document.h"

namespace sluice {

enum class Severity { error, warning, note };

struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;                // "SL0203"; every code is described in codes.cpp
  std::string message;             // one sentence, lower case, no full stop
  Place place;                     // where; place.document may be null (command line)
  std::string path;                // "nodes.load.type"
  std::string hint;                // shown after the caret: `did you mean "load_image"?`
  std::vector<std::string> notes;  // further lines: "the value comes from vars.lr at a.json:3:12"
  bool indirect = false;           // the faulty value stands elsewhere: a variable's
};

// What `sluice explain SL0203` prints.
struct CodeText {
  std::string_view code, title, explanation;
  // Whether the JSON Schema refuses such a file too, where no variable hides the value. A file that
  // the schema refuses has a diagnostic with one of these codes, and the other way round.
  bool by_schema = false;
};
// Every code that a diagnostic can carry, in order; codes.cpp.
std::span<const CodeText> all_codes();
const CodeText* find_code(std::string_view code);

// Invariant: nothing is said twice. What is wrong in a part that is used twice is one diagnostic.
class Diagnostics {
 public:
  Diagnostic& add(Diagnostic diagnostic);
  Diagnostic& error(std::string code, std::string message, Place place = {}, std::string path = "",
                    std::string hint = "");
  Diagnostic& warning(std::string code, std::string message, Place place = {},
                      std::string path = "", std::string hint = "");
  // As error(), but further places of one code and message become notes of the first: a name that
  // is misspelt where it is declared is one mistake, however often it is used.
  void error_once(const std::string& code, const std::string& message, const Place& place,
                  const std::string& path, const std::string& hint, const std::string& scope = "");
  // As error(), but of nodes that a part which is used twice makes, the further ones become notes
  // of the first: `also in "vpre/norm"`.
  void error_of_node(const std::string& node, const std::string& code, const std::string& message,
                     const Place& place, const std::string& path, const std::string& hint);
  bool ok() const { return errors_ == 0; }
  std::size_t errors() const { return errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  // The text above for each, in file order, and "found 4 errors, 0 warnings". Of one kind the first
  // hundred are printed, and how many more there are.
  void print(std::ostream& out, bool color) const;
  Json to_json() const;

 private:
  std::vector<Diagnostic> all_;
  std::unordered_map<std::string, std::size_t> known_;  // code, message, place -> index in all_
  std::unordered_map<std::string, std::size_t> once_;   // code, message, scope -> index in all_
  std::size_t errors_ = 0;

  // The first of a kind, or null where this one became it.
  Diagnostic* first_of(const std::string& kind, const std::string& code, const std::string& message,
                       const Place& place, const std::string& path, const std::string& hint);
};

// The nearest of `known` by Damerau-Levenshtein distance (optimal string alignment), or "" where
// none is near enough (distance at most 1 + length/4, ties go to the first).
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// `did you mean "x"?` or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace sluice
