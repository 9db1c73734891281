// `sluice explain CODE`: what a diagnostic means, at length.
#include <algorithm>
#include <cctype>
#include <iostream>

#include "tools/cli/cli.h"

namespace sluice::cli {

int explain(const Options& options) {
  if (options.name.empty()) {
    for (const CodeText& c : all_codes()) std::cout << c.code << "  " << c.title << '\n';
    return code(Exit::done);
  }
  std::string name = options.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const CodeText* found = find_code(name);
  if (!found) {
    std::vector<std::string> known;
    for (const CodeText& c : all_codes()) known.emplace_back(c.code);
    const std::string hint = did_you_mean(name, known);
    print_error("no diagnostic has the code " + options.name + (hint.empty() ? "" : "; " + hint) +
                "\n`sluice explain` lists them all");
    return code(Exit::usage);
  }
  std::cout << found->code << ": " << found->title << "\n\n" << found->explanation << '\n';
  return code(Exit::done);
}

}  // namespace sluice::cli
