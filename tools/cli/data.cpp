// `sluice data`: the runtime reads the files; a command line that cannot be meant is refused here.
#include "tools/cli/cli.h"

namespace sluice::cli {

int data(const Options& o) {
  const std::vector<std::string> actions{"check", "index", "diff"};
  const auto refuse = [](const std::string& why) {
    print_error(why);
    return code(Exit::usage);
  };
  if (std::find(actions.begin(), actions.end(), o.name) == actions.end()) {
    const std::string hint = did_you_mean(o.name, actions);
    return refuse("data can check, index and diff, not " + o.name +
                  (hint.empty() ? "" : "; " + hint));
  }
  if (o.graphs.empty()) return refuse("name a folder or a graph: sluice data " + o.name + " DIR");
  if (o.name == "diff" && o.graphs.size() > 2) return refuse("diff compares two, not more");
  if (o.name != "index" && !o.out.empty()) return refuse("--out is for index");
  return run_in_runtime({{"command", "data"},
                         {"action", o.name},
                         {"graphs", o.graphs},
                         {"set", o.set},
                         {"out", o.out},
                         {"json", o.json}});
}

}  // namespace sluice::cli
