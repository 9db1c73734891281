#include "tools/runtime/nnunet/recipe_run.h"

#include <algorithm>
#include <string>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/lists/data_list.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

// A run of the recipe's graph: that graph's "name", "Dataset004_Hippocampus 3d_fullres", and its
// configuration, which is "" of anything else.
struct RecipeRun {
  std::string name, configuration;
};

RecipeRun recipe_run(const fs::path& run) {
  if (!fs::exists(run / "graph.json")) return {};
  const Json graph = read_json(run / "graph.json");
  const Json nodes = graph.value("nodes", Json::object());
  const bool fits = std::any_of(nodes.begin(), nodes.end(), [](const Json& node) {
    return node.is_object() && node.value("type", Json()) == "nnunet";
  });
  const Json name = graph.value("name", Json()), desc = graph.value("desc", Json());
  const std::string begins = "nnU-Net's ";
  if (!fits || !name.is_string() || !desc.is_string() ||
      !desc.get_ref<const std::string&>().starts_with(begins))
    return {};
  return {name, desc.get<std::string>().substr(begins.size())};
}

// Whether a folder is named as a model of the run's configuration and has plans of its data set.
bool is_model_of(const RecipeRun& run, const fs::path& folder) {
  if (!folder.filename().string().ends_with("__" + run.configuration) ||
      !fs::exists(folder / "plans.json"))
    return false;
  const Json name = read_json(folder / "plans.json").value("dataset_name", Json());
  return name.is_string() && name.get<std::string>() + " " + run.configuration == run.name;
}

}  // namespace

bool is_recipe_run(const fs::path& at) { return !recipe_run(at).configuration.empty(); }

fs::path folder_of_run(const fs::path& at) {
  const RecipeRun run = recipe_run(at);
  std::vector<fs::path> places{at.parent_path().parent_path(), at.parent_path()};
  if (fs::exists(at / "run.json")) {
    const Json graphs = read_json(at / "run.json").value("graphs", Json::array());
    if (graphs.is_array() && !graphs.empty() && graphs[0].is_string())
      places.push_back(fs::absolute(graphs[0].get<std::string>()).parent_path());
  }
  std::error_code problem;
  for (const fs::path& place : places) {
    std::vector<fs::path> found;
    for (fs::directory_iterator entry(place, problem), end; !problem && entry != end;
         entry.increment(problem))
      if (is_model_of(run, entry->path())) found.push_back(entry->path());
    if (found.size() == 1) return found.front();
    if (found.size() > 1)
      throw DataError(place.string() + ": holds models of several plans of " +
                      printable(run.configuration) + "; name one of them in place of " +
                      at.string());
  }
  throw DataError(at.string() + ": is a run of " + printable(run.name) +
                  ", and the folder TRAINER__PLANS__" + printable(run.configuration) +
                  " that the recipe wrote beside its graph is not near it");
}

std::vector<fs::path> runs_listed_in(const fs::path& folder) {
  std::vector<fs::path> all;
  if (!fs::exists(folder / "each.json")) return all;
  const Json list = read_json(folder / "each.json").value("runs", Json::array());
  for (const Json& run : list) all.push_back(folder / run.value("folder", std::string()));
  return all;
}

std::vector<fs::path> runs_beside(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const auto at = name.rfind("__");
  if (at == std::string::npos) return {};
  return runs_listed_in(folder.parent_path() / name.substr(at + 2));
}

}  // namespace sluice::nnunet
