// `sluice check`: every diagnostic at once.
#include <iostream>

#include "tools/cli/cli.h"

namespace sluice::cli {

static std::string count(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

int check(const Options& options) {
  bool ok = true;
  Json all = Json::array();
  std::vector<std::vector<std::string>> sets;
  if (options.merge)
    sets.push_back(options.graphs);
  else
    for (const auto& file : options.graphs) sets.push_back({file});
  for (const auto& files : sets) {
    Checked checked;
    check_graph(files, options, checked);
    ok &= checked.diagnostics.ok();
    Json j = {{"file", checked.file}, {"ok", checked.diagnostics.ok()}};
    if (checked.plan) {
      j["nodes"] = checked.plan->nodes.size();
      j["streams"] = checked.plan->streams.size();
    }
    j["diagnostics"] = checked.diagnostics.to_json();
    all.push_back(std::move(j));
    if (options.json) continue;
    if (checked.plan)
      std::cout << "ok: " << checked.file << " (" << count(checked.plan->nodes.size(), "node")
                << ", " << count(checked.plan->streams.size(), "stream") << ")\n"
                << std::flush;
    print(checked.diagnostics);
  }
  if (options.json) std::cout << dump({{"ok", ok}, {"graphs", all}});
  return ok ? code(Exit::done) : code(Exit::usage);
}

}  // namespace sluice::cli
