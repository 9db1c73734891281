// A graph's text as a file or on stdout, laid out as `sluice fmt` leaves it.
#pragma once

#include <iostream>

#include "tools/assist/format.h"
#include "tools/runtime/write_text.h"

namespace sluice {

// `file` empty: stdout.
inline void write_graph(const std::filesystem::path& file, const std::string& text) {
  const std::string graph = assist::formatted(text);
  if (file.empty())
    std::cout << graph << std::flush;
  else
    write_text(file, graph);
}

}  // namespace sluice
