// `sluice lsp` and `sluice fmt`: graph files in editors.
#include <unistd.h>

#include <iostream>

#include "engine/base/message.h"
#include "engine/base/read_file.h"
#include "tools/assist/format.h"
#include "tools/cli/cli.h"
#include "tools/lsp/server.h"

namespace sluice::cli {

int lsp() {
  sluice::lsp::FileStream in(STDIN_FILENO);
  return sluice::lsp::Server(catalogue(), in, std::cout, std::cerr).serve();
}

int format(const Options& options) {
  bool same = true, right = true;
  for (const auto& file : options.graphs) {
    const std::string text = read_text(file), changed = assist::formatted(text);
    if (!assist::is_json(text)) {
      print_error(file + " is no JSON; `sluice check` says where");
      right = false;
      continue;
    }
    if (text == changed) continue;
    same = false;
    if (!options.check)
      write_whole(file, changed);
    else
      std::cout << printable(file) << '\n';
  }
  return code(right && (same || !options.check) ? Exit::done : Exit::usage);
}

}  // namespace sluice::cli
