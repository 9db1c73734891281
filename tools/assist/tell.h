// What is known of a place: a page for the mouse, an outline, what flows beside each node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/assist/names.h"

namespace sluice::assist {

struct Page {
  Span span;
  std::string markdown;
};
std::optional<Page> hover(const Analysis& a, std::size_t at);

struct Symbol {
  std::string name, detail;
  int kind = 13;  // SymbolKind of the language server protocol
  Span span, name_span;
  std::vector<Symbol> members;
};
std::vector<Symbol> outline(const Analysis& a);

struct Hint {
  std::size_t at = 0;
  std::string text;
};
// After a node that changes what flows: "→ image f32 [4,?,64,64,64]".
std::vector<Hint> hints(const Analysis& a, Span within);

}  // namespace sluice::assist
