// `sluice dot`: the plan's picture, as text, drawn by Graphviz, or as a page for a browser.
#include "engine/judge/dot.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "engine/base/message.h"
#include "engine/base/read_file.h"
#include "engine/graph/merge.h"
#include "tools/cli/cli.h"
#include "tools/cli/dot_page.h"
#include "tools/cli/graphviz.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// A run's profile.json.
Json measured(const std::string& folder) {
  const fs::path file = fs::path(folder) / "profile.json";
  Json profile = Json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
  if (profile.is_discarded()) throw IoError(file.string() + " is not JSON");
  return profile;
}

std::optional<Graph> graph_of_run(const std::string& folder) {
  const fs::path file = fs::path(folder) / "graph.json";
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return std::nullopt;
  Diagnostics diagnostics;
  const DocumentPtr document = read_graph_files({file.string()}, diagnostics);
  return load_graph(document, catalogue(), {}, diagnostics);
}

bool same_settings(const Graph& a, const GraphNode& of_a, const Graph& b, const GraphNode& of_b) {
  const auto from = [](const Graph& graph, const GraphInput& in) {
    return graph.nodes[static_cast<std::size_t>(in.from)].path;
  };
  return of_a.params == of_b.params &&
         std::equal(of_a.inputs.begin(), of_a.inputs.end(), of_b.inputs.begin(), of_b.inputs.end(),
                    [&](const GraphInput& x, const GraphInput& y) {
                      return x.port == y.port && x.from_port == y.from_port &&
                             from(a, x) == from(b, y);
                    });
}

// A graph that was changed since the run, or another one, has nodes that nothing was measured of,
// or that did something else.
void tell_differences(const Plan& plan, const Figures& figures, const Json& profile,
                      const std::string& run) {
  std::string none, types, settings, more;
  const auto add = [](std::string& list, const std::string& name) {
    list += (list.empty() ? "" : ", ") + name;
  };
  const auto graph = graph_of_run(run);
  const Json measured = profile.is_object() ? profile.value("nodes", Json()) : Json();
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& n = plan.nodes[i];
    const bool is_there = measured.is_object() && measured.contains(n.path());
    const int at = graph ? graph->find(n.path()) : -1;
    if (!figures.nodes[i].known)
      add(is_there ? types : none, n.path());
    else if (at >= 0 && !same_settings(*graph, graph->nodes[static_cast<std::size_t>(at)],
                                       *plan.graph, *n.graph))
      add(settings, n.path());
  }
  if (measured.is_object())
    for (const auto& [path, figure] : measured.items())
      if (plan.graph->find(path) < 0) add(more, path);
  std::string text;
  const auto say = [&](const char* what, const std::string& list) {
    if (!list.empty()) text += (text.empty() ? ", " : "; ") + (what + list);
  };
  say("without ", none);
  say("with other types of ", types);
  say("with other settings or inputs of ", settings);
  say("with more nodes: ", more);
  if (!text.empty())
    std::cerr << printable("note: " + run + " was of another graph" + text) << '\n';
}

std::string format_of(const std::string& file) {
  const std::string extension = fs::path(file).extension().string();
  return extension.empty() ? "" : extension.substr(1);
}

void draw_to(const std::string& file, const Checked& checked, DotOptions how) {
  how.base = fs::path(file).parent_path().string();
  const std::string text = to_dot(*checked.plan, how), format = format_of(file);
  if (file.empty())
    std::cout << text;
  else if (format == "dot")
    write_whole(file, text);
  else if (format == "html")
    write_whole(file, dot_page(*checked.plan, how.figures, graphviz(text, "svg", file)));
  else
    write_whole(file, graphviz(text, format, file));
}

// The steps of a network, which the runtime knows.
int draw_network(const Options& o, const std::string& run, const std::string& format) {
  const bool drawn = !o.out.empty() && format != "dot";
  const std::string to = drawn ? o.out + ".dot" : o.out;
  const int code = run_in_runtime({{"command", "net_picture"},
                                   {"run", run},
                                   {"net", o.key},
                                   {"size", o.size},
                                   {"measured", o.run},
                                   {"out", to}});
  if (code != 0 || !drawn) return code;
  const std::string text = read_text(to);
  fs::remove(to);
  write_whole(o.out, graphviz(text, format, o.out));
  return code;
}

}  // namespace

int draw(const Options& options) {
  const std::string format = format_of(options.out);
  if (!options.out.empty() && format != "dot" && format != "svg" && format != "png" &&
      format != "pdf" && format != "html") {
    print_error("-o " + options.out +
                ": expected a name that ends in .dot, .svg, .png, .pdf or .html");
    return code(Exit::usage);
  }
  std::vector<std::string> files = options.graphs;
  if (files.empty() && !options.run.empty()) files.push_back(options.run);
  if (files.empty()) {
    print_error("name a graph, or a run's folder with --run");
    return code(Exit::usage);
  }
  if (!options.key.empty()) try {
      if (files.size() > 1 || !options.set.empty() || format == "html") {
        print_error("--net takes one graph or run without --set, and draws no .html");
        return code(Exit::usage);
      }
      return draw_network(options, files.front(), format);
    } catch (const Error& e) {
      print_error(e.what());
      return code(e.exit);
    }
  Checked checked;
  check_graph(files, options, checked, /*may_be_stdin=*/true);
  print(checked.diagnostics);
  if (!checked.plan) return code(Exit::usage);
  try {
    DotOptions how;
    if (!options.run.empty()) {
      const Json profile = measured(options.run);
      plan_as_run(profile, checked);
      how.figures = Figures::from_json(*checked.plan, profile);
      tell_differences(*checked.plan, how.figures, profile, options.run);
    }
    draw_to(options.out, checked, how);
  } catch (const Error& e) {
    print_error(e.what());
    return code(e.exit);
  }
  return code(Exit::done);
}

}  // namespace sluice::cli
