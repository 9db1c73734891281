// What may stand where the cursor is.
#pragma once

#include <string>
#include <vector>

#include "tools/assist/names.h"

namespace sluice::assist {

struct Candidate {
  // Numbers are those of the language server protocol's CompletionItemKind.
  enum class Kind : std::uint8_t {
    key = 5,
    variable = 6,
    type = 7,
    value = 12,
    choice = 20,
    node = 18
  };
  std::string label;
  Kind kind = Kind::value;
  std::string detail, doc;
  std::string text;     // what is written, quotes and all
  std::string snippet;  // the same with ${1:places}; "": `text`
};

struct Completion {
  Span replaces;
  std::vector<Candidate> candidates;
};
Completion complete(const Analysis& a, std::size_t at);

}  // namespace sluice::assist
