// Positions of the language server protocol: lines from 0, and in them UTF-16 units, or bytes where
// the editor counts so. Out of range they are the nearest there is.
#pragma once

#include <string_view>
#include <vector>

#include "engine/base/json.h"
#include "tools/assist/tree.h"

namespace sluice::lsp {

class Lines {
 public:
  Lines(std::string_view text, bool utf8);
  std::size_t byte(const Json& position) const;
  Json position(std::size_t byte) const;
  Json range(const assist::Span& span) const;
  assist::Span span(const Json& range) const;

 private:
  // A character's beginning, and the units before it in its line.
  struct Stop {
    std::size_t byte, units;
  };
  std::size_t end_of(std::size_t line) const;  // without its line end
  void stop_within(std::size_t line);
  std::string_view text_;
  bool utf8_;
  std::vector<std::size_t> begins_;
  std::vector<Stop> stops_;  // within long lines, so that none is counted from its beginning
};

}  // namespace sluice::lsp
