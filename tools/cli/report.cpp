// `sluice report`: a run folder, or the folds of one configuration, as one HTML file that needs no
// network.
//
// Nothing that comes from the run is ever written as HTML: it stands in the page as JSON, in which
// every "<" is escaped, and the page's script shows it as text. A content security policy lets no
// other script run and loads nothing. The picture is Graphviz's, without its links.
#include "tools/cli/report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "engine/base/message.h"
#include "engine/base/missing_folder.h"
#include "engine/base/shell_word.h"
#include "engine/judge/dot.h"
#include "tools/cli/cli.h"
#include "tools/cli/graphviz.h"
#include "tools/edge/manifest.h"
#include "tools/runs/files.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr char frame[] =
#include "report/frame.html.inc"
    ;
constexpr char page[] =
#include "report/page.html.inc"
    ;
constexpr char style[] =
#include "report/style.css.inc"
    ;
constexpr char script[] =
#include "report/script.js.inc"
    ;

constexpr char folds_page[] =
#include "report/folds.html.inc"
    ;
constexpr char folds_script[] =
#include "report/folds.js.inc"
    ;

// "{{name}}" in the template, replaced in one pass: what is put in is not looked at again.
std::string filled(const std::string& form, const std::map<std::string, std::string>& values) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const auto open = form.find("{{", at);
    const auto close = form.find("}}", open);
    if (open == std::string::npos || close == std::string::npos) return out + form.substr(at);
    out += form.substr(at, open - at) + values.at(form.substr(open + 2, close - open - 2));
    at = close + 2;
  }
}

void replace(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string escaped(std::string text) {
  replace(text, "&", "&amp;");
  replace(text, "<", "&lt;");
  replace(text, ">", "&gt;");
  return text;
}

// Takes ` name="..."` out of every element.
void remove_attribute(std::string& svg, const std::string& name) {
  const std::string begin = " " + name + "=\"";
  for (auto at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at)) {
    const auto end = svg.find('"', at + begin.size());
    if (end == std::string::npos) return;
    svg.erase(at, end + 1 - at);
  }
}

// The picture as SVG, or its text where Graphviz is not there.
std::string picture(const Plan& plan, const Json& data, const fs::path& out) {
  DotOptions how;
  how.figures = Figures::from_json(plan, data["profile"]);
  const std::string dot = to_dot(plan, how);
  std::string svg;
  try {
    svg = graphviz(dot, "svg", out.string());
  } catch (const Error&) {
    return "<pre>" + escaped(dot) + "</pre>";
  }
  svg.erase(0, svg.find("<svg"));
  for (const char* name : {"xlink:href", "href", "target"}) remove_attribute(svg, name);
  replace(svg, " id=\"", " id=\"graph-");  // the page has names of its own
  replace(svg, "url(#", "url(#graph-");
  return svg;
}

std::string random_word() {
  std::random_device source;
  char word[33];
  std::snprintf(word, sizeof word, "%08x%08x%08x%08x", source(), source(), source(), source());
  return word;
}

std::string in_page(const Json& data) {
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  replace(json, "<", "\\u003c");
  return json;
}

std::string framed(const std::string& body, const char* program, const std::string& name,
                   const Json& data) {
  return filled(frame, {{"nonce", random_word()},
                        {"title", escaped(name + " - Sluice")},
                        {"style", style},
                        {"body", body},
                        {"script", program},
                        {"data", in_page(data)}});
}

std::string html(const fs::path& folder, const fs::path& out) {
  Checked checked;
  const fs::path graph = folder / "graph.json";
  if (fs::exists(graph)) check_graph({graph.string()}, Options{}, checked);
  if (checked.plan) plan_as_run(runs::read_json(folder / "profile.json"), checked);
  const Json data = report_data(folder, checked.plan);
  const std::string name = data["graph"]["name"].get<std::string>();
  const std::string graph_picture = checked.plan ? picture(*checked.plan, data, out) : "";
  return framed(filled(page, {{"graph", graph_picture}}), script, name.empty() ? "run" : name,
                data);
}

// Refuses runs of `sluice run --each` that are no folds of nnU-Net's. What a run that was not begun
// is, the others say.
void must_be_folds(const fs::path& folder) {
  const auto in = [](const fs::path& file, const char* key) {
    const Json all = runs::read_json(file);
    return all.is_object() ? all.value(key, Json()) : Json();
  };
  for (const Json& run : in(folder / "each.json", "runs")) {
    const fs::path one = folder / runs::text(run, "folder");
    const Json nodes = in(one / "graph.json", "nodes");
    if (std::any_of(nodes.begin(), nodes.end(),
                    [](const Json& node) { return runs::text(node, "type") == "nnunet"; }))
      return;
    if (!nodes.empty())
      throw Error(
          Exit::usage,
          folder.string() +
              ": its runs are no folds of nnU-Net's, which have one report; `sluice report " +
              shell_word(one.string()) + "` is of one run, `sluice runs " +
              shell_word(folder.string()) + "` lists them all");
  }
}

// A folder of `sluice run --each`: the folds of one configuration on one page. In `result` what the
// runtime, which reads the predictions, ended with.
std::string folds_html(const fs::path& folder, const fs::path& out, int& result) {
  must_be_folds(folder);
  const fs::path work = out.string() + ".part.d";
  fs::create_directories(work);
  result =
      run_in_runtime({{"command", "folds"}, {"folder", folder.string()}, {"out", work.string()}});
  const Json data = result == 0 ? folds_data(folder, work) : Json();
  fs::remove_all(work);
  if (result != 0) return "";
  return framed(folds_page, folds_script, data["name"].get<std::string>(), data);
}

}  // namespace

int report(const Options& options) {
  const fs::path folder = options.run;
  const fs::path out = options.out.empty() ? folder / "report.html" : fs::path(options.out);
  if (!fs::is_directory(folder))
    throw IoError(folder.string() + ": no such folder" + missing_folder(folder));
  if (is_package(folder))
    throw Error(Exit::usage, folder.string() +
                                 ": is a package, no run's folder: report the run that it was "
                                 "exported from");
  const bool folds = fs::exists(folder / "each.json") && !fs::exists(folder / "graph.json");
  int result = 0;
  const std::string page = folds ? folds_html(folder, out, result) : html(folder, out);
  if (result != 0) return result;
  write_whole(out.string(), page);
  tell("wrote " + out.string());
  return code(Exit::done);
}

}  // namespace sluice::cli
