// What the user of a run should know and what does not end it: said on stderr at once, and kept for
// summary.json. Thread-safe.
#pragma once

#include <string>
#include <vector>

namespace sluice {

void warn(const std::string& text);  // a text that was said already is not said again
std::vector<std::string> warnings();
void forget_warnings();  // those of the run before

}  // namespace sluice
