#include "tools/runtime/bundle/bundle.h"

#include <iostream>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/shell_word.h"
#include "engine/plan/plan.h"
#include "engine/run/registry.h"
#include "tools/runtime/bundle/translate.h"
#include "tools/runtime/write_graph.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using namespace bundle;

fs::path find_config(const fs::path& folder, const std::string& name) {
  for (const fs::path& place : {fs::path(name), folder / "configs" / name, folder / name})
    if (fs::is_regular_file(place)) return place;
  throw Error(Exit::usage, name + ": no such file, and none in " + (folder / "configs").string());
}

std::vector<fs::path> configs_of(const fs::path& folder, const Json& request) {
  std::vector<fs::path> files;
  for (const auto& name : request.value("configs", Json::array()))
    files.push_back(find_config(folder, name));
  if (!files.empty()) return files;
  const std::string task = request.value("task", "inference");
  for (const char* ending : {".json", ".yaml", ".yml"})
    if (const auto file = folder / "configs" / (task + ending); fs::is_regular_file(file))
      return {file};
  std::string there;
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "configs", error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const auto& name : names) there += (there.empty() ? "" : ", ") + name;
  throw Error(Exit::usage, folder.string() + ": has no configs/" + task + ".json or .yaml" +
                               (there.empty() ? "" : "; name one with --config: " + there));
}

std::string version_of(const fs::path& folder) {
  const auto file = folder / "configs" / "metadata.json";
  const auto root = fs::exists(file) ? read_config(file, file.string()) : nullptr;
  const auto version = root ? root->find("version") : nullptr;
  return version ? " " + version->text() : "";
}

std::string shown(const fs::path& file, const fs::path& folder) {
  const auto relative = file.lexically_relative(folder);
  return relative.empty() || relative.string().starts_with("..") ? file.string()
                                                                 : relative.string();
}

// Everything that `sluice check` would say; "" where it is content.
std::string checked(const std::string& text) {
  Diagnostics diagnostics;
  const auto graph = load_graph(parse_document("the new graph", text, diagnostics),
                                Registry::global().catalogue(), {}, diagnostics);
  if (graph && make_plan(*graph, {}, diagnostics) && diagnostics.ok()) return "";
  std::ostringstream out;
  diagnostics.print(out, false);
  return out.str();
}

}  // namespace

int new_bundle(const Json& request) {
  fs::path folder = request.at("folder").get<std::string>();
  while (!folder.has_filename() && folder.has_parent_path() && folder != folder.root_path())
    folder = folder.parent_path();
  if (!fs::is_directory(folder)) throw Error(Exit::usage, folder.string() + ": is no folder");
  const auto files = configs_of(folder, request);
  Config config(folder);
  std::string names;
  try {
    for (const auto& file : files) {
      config.merge(read_config(file, shown(file, folder)));
      names += (names.empty() ? "" : ", ") + shown(file, folder);
    }
    for (const std::string text : request.value("set", Json::array())) {
      const auto equals = text.find('=');
      if (equals == std::string::npos) throw Error(Exit::usage, "--set " + text + ": no =");
      config.set(text.substr(0, equals), config_of_text(text.substr(equals + 1), "--set " + text));
    }
    config.finish();
  } catch (const Refused& refused) {
    throw Error(Exit::data, refused.what());
  }

  const Catalogue& catalogue = Registry::global().catalogue();
  Translator translator(config, catalogue);
  const std::string task = request.value("task", "inference");
  try {
    task == "train" ? translator.train() : translator.inference();
    translator.finish();
  } catch (const Refused& refused) {
    translator.report.add(*config.root(), task, Fate::missing, refused.what(), true);
  }
  for (const auto& [item, why] : translator.values.left_out)
    translator.report.add(*item, last_name(item->target()), Fate::dropped, "_disabled_ is " + why);
  for (const auto& [item, text] : translator.values.true_texts)
    translator.report.add(*item, item->id.substr(item->id.rfind('#') + 1), Fate::replaced,
                          "by true: every text but \"\" is true in Python, \"" + text + "\" too");
  translator.report.account_for(config);
  Report& report = translator.report;
  translator.graph.name = fs::absolute(folder).lexically_normal().filename().string() + "_" + task;
  translator.graph.head = "Written by `sluice new bundle` from " + folder.string() +
                          version_of(folder) + ": " + names +
                          ".\nEach part's place in it stands beside it; graph.import.txt says what "
                          "became of every one.";
  const std::string text = graph_text(translator.graph);
  const std::string wrong = translator.graph.models.empty() ? "" : checked(text);

  const std::string out = request.value("out", "");
  std::cerr << report.text() << wrong;
  if (!out.empty()) {
    const std::string lines = report.text() + wrong;
    fs::path beside = fs::path(out).replace_extension(".import.txt");
    write_text(beside, lines);
  }
  const bool strict = request.value("strict", false), partial = request.value("partial", false);
  const bool refused = report.blocked() || !wrong.empty() || translator.graph.nodes.empty() ||
                       (strict && report.count(Fate::replaced) + report.count(Fate::missing) > 0);
  if (refused && (!partial || translator.graph.nodes.empty()))
    throw Error(Exit::data, folder.string() +
                                ": parts between the data and the output have no counterpart; " +
                                "they are listed above; --partial writes the graph without them");
  write_graph(out, text);
  if (!out.empty()) tell("wrote " + out + "; `sluice run " + shell_word(out) + "` runs it");
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
