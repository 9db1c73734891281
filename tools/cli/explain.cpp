// `sluice explain CODE`: what a diagnostic means, at length.
#include <algorithm>
#include <cctype>
#include <iostream>

#include "engine/base/letter_case.h"
#include "tools/cli/cli.h"

namespace sluice::cli {

int explain(const Options& options) {
  if (options.name.empty()) {
    for (const CodeText& c : all_codes()) std::cout << c.code << "  " << c.title << '\n';
    return code(Exit::done);
  }
  const std::string name = upper_case(options.name);
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
