// A graph file's layout: indents and spaces. Lines stay where their author broke them, and so do
// comments and columns that were aligned by hand.
#pragma once

#include <string>

namespace sluice::assist {

// Lines are indented by two after a bracket that ends its line, and stand below what follows the
// bracket where that does not; one space at least comes after ':' and ',' and none before them;
// nothing at a line's end; one line's end at the file's. All lines end as the first one does, with
// LF or CR LF. Formatting twice is formatting once.
std::string formatted(const std::string& text);
// Whether it can be indented: quotes and brackets of what is no JSON may be anywhere.
bool is_json(const std::string& text);

}  // namespace sluice::assist
