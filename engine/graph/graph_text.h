// Changes to a graph file's text that leave everything else as its author wrote it: comments,
// order, spaces.
//
//   GraphText text(document);
//   text.set("/nodes/step/lr", 0.01);                    // the value, or a new member
//   text.remove("/run/threads");
//   text.add_behind("/nodes/norm", "cached", {{"type", "cache"}, {"in", "norm"}}, "why");
//   text.text();
//
// Invariant: pointers are those of `document`; where changes do not overlap, text() is JSON again
// (with comments) and holds what was asked for.
#pragma once

#include <string>
#include <vector>

#include "engine/base/document.h"

namespace sluice {

class GraphText {
 public:
  explicit GraphText(DocumentPtr document);

  // False where the value does not stand in this text: it was merged in from another file.
  bool holds(const std::string& pointer) const;

  void set(const std::string& pointer, const Json& value);
  void remove(const std::string& pointer);
  // A member of the same object, on a line of its own after the member `pointer`.
  void add_behind(const std::string& pointer, const std::string& key, const Json& value,
                  const std::string& comment = "");
  // A comment on a line of its own above a member.
  void comment(const std::string& pointer, const std::string& text);

  std::string text() const;

 private:
  struct Edit {
    std::size_t at = 0, length = 0;
    std::string text;
  };
  std::size_t byte(const Mark& mark) const;
  std::size_t key_begin(const std::string& pointer) const;
  std::size_t value_begin(const std::string& pointer) const;
  std::size_t value_end(const std::string& pointer) const;
  std::size_t skip_blank(std::size_t at) const;  // and comments
  std::size_t line_end(std::size_t at) const;    // of nothing but blanks and comments, else `at`
  std::string indent(std::size_t at) const;      // of its line
  std::size_t comma_before(const std::string& pointer) const;
  void add_last(const std::string& object, const std::string& key, const Json& value);

  DocumentPtr document_;
  const std::string& from_;
  std::vector<std::size_t> lines_;  // where each begins
  std::string new_line_ = "\n";     // as the first one ends
  std::vector<Edit> edits_;
};

// {"type": "cache"} as graph files write a node: one line, spaces behind colons and commas, and
// inside the outer braces.
std::string in_one_line(const Json& value);

}  // namespace sluice
