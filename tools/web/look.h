// What a page asks of the text in its editor, as JSON: tools/assist in the positions that browsers'
// editors count in (lines, and UTF-16 units in them).
//
// Invariant: pure functions of a text; nothing is kept between two questions.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/assist/analysis.h"

namespace sluice::web {

class Look {
 public:
  // `draw`: DOT text to SVG; "" where nothing on this machine can.
  Look(const Catalogue& catalogue, std::function<std::string(const std::string&)> draw)
      : catalogue_(catalogue), draw_(std::move(draw)) {}

  // {"ok", "nodes": number, "streams", "diagnostics": [{"severity", "code", "message", "hint",
  // "notes", "range", "fixes": [{"title", "range", "text"}]}], "marks": [{"pointer", "path",
  // "range"}]}
  Json check(const std::string& file, const std::string& text) const;
  // {"svg", "nodes": [{"id", "path", "type", "pointer", "range", "lane", "fields"}]}; null where
  // the text is wrong. `profile`: of a run, whose measures are drawn.
  Json picture(const std::string& file, const std::string& text,
               const Json& profile = Json()) const;
  // What stands at a pointer: {"type", "doc", "params": [...], "flow", ...}; null where nothing is.
  Json node(const std::string& file, const std::string& text, const std::string& pointer) const;
  // Each edit is {"op", ...}: set (pointer, value), remove (pointer), add (pointer, key, value),
  // insert (type, after, before), connect (pointer, from, port). {"text", "pointer"}; a Refusal
  // (422) where the text is no JSON.
  Json edit(const std::string& file, std::string text, const Json& edits) const;

  Json complete(const std::string& file, const std::string& text, const Json& position) const;
  Json hover(const std::string& file, const std::string& text, const Json& position) const;
  Json define(const std::string& file, const std::string& text, const Json& position) const;
  Json rename(const std::string& file, const std::string& text, const Json& position,
              const std::string& to) const;

  Json types() const;                        // [{"name", "family", "doc"}]
  Json type(const std::string& name) const;  // null where there is none

 private:
  std::unique_ptr<assist::Analysis> analyse(const std::string& file, const std::string& text) const;
  const Catalogue& catalogue_;
  const std::function<std::string(const std::string&)> draw_;
};

}  // namespace sluice::web
