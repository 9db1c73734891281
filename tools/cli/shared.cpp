#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "engine/graph/merge.h"
#include "engine/graph/override.h"
#include "tools/cli/cli.h"

namespace sluice::cli {

const Catalogue& catalogue() {
  static constexpr char text[] =
#include "catalogue.inc"
      ;
  static const Catalogue types = Catalogue::from_json(Json::parse(text, text + sizeof text - 1));
  return types;
}

void check_graph(const std::vector<std::string>& files, const Options& options, Checked& checked) {
  checked.file = files.front();
  for (std::size_t i = 1; i < files.size(); ++i) checked.file += " " + files[i];
  const auto overrides = parse_overrides(options.set, checked.diagnostics);
  const DocumentPtr document = read_graph_files(files, checked.diagnostics);
  checked.graph = load_graph(document, catalogue(), overrides, checked.diagnostics);
  if (!checked.graph) return;
  PlanOptions plan;
  if (const auto asked = checked.graph->run.threads; asked > 0)
    plan.threads = static_cast<int>(asked);
  checked.plan = make_plan(*checked.graph, plan, checked.diagnostics);
}

void plan_as_run(const Json& profile, Checked& checked) {
  PlanOptions options;
  const auto threads = profile.is_object() ? profile.find("threads") : profile.end();
  if (threads == profile.end() || !threads->is_number_integer()) return;
  options.threads = threads->get<int>();
  Diagnostics said_before;
  if (auto plan = make_plan(*checked.graph, options, said_before)) checked.plan = std::move(plan);
}

static bool color() {
  const char *no_color = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  return isatty(2) && !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

void print(const Diagnostics& diagnostics) { diagnostics.print(std::cerr, color()); }

void print_error(const std::string& message) {
  std::cerr << (color() ? "\x1b[1;31merror\x1b[0m: " : "error: ") << message << '\n';
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli
