// Text that people read on a terminal. Names in it come from files, so nothing they hold may move
// the cursor, change a colour or begin a line of its own.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Control characters, those that turn the direction of text around, and bytes that are not UTF-8
// become \x1b, \u202e and the like. `lines` keeps '\n' and '\t'.
std::string printable(std::string_view text, bool lines = false);

// A message to stderr, printable, on lines of its own.
void tell(std::string_view text);

}  // namespace sluice
