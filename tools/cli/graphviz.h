// Graphviz's `dot` as a child process.
#pragma once

#include <string>

namespace sluice::cli {

// What `dot -Tformat` makes of the text: a file's content. Throws IoError where dot is missing or
// fails; `file` is named in the message.
std::string graphviz(const std::string& text, const std::string& format, const std::string& file);

}  // namespace sluice::cli
