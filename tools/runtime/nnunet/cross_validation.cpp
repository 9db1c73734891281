#include "tools/runtime/nnunet/cross_validation.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/files/volume.h"
#include "kernels/image/components.h"
#include "kernels/lists/data_list.h"
#include "kernels/lists/nnunet_list.h"
#include "tools/nnunet/wording.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> runs_in(const fs::path& folder) {
  if (fs::exists(folder / "graph.json")) return {folder};
  const fs::path list = folder / "each.json";
  if (!fs::exists(list))
    throw DataError(folder.string() +
                    ": holds no graph.json of a run and no each.json of `sluice run --each`");
  std::vector<fs::path> runs;
  const Json all = read_json(list).value("runs", Json::array());
  for (const Json& run : all) runs.push_back(folder / run.value("folder", std::string()));
  if (runs.empty()) throw DataError(list.string() + ": names no run");
  return runs;
}

// The node of a run's graph that `fits`, by its name.
template <class Fits>
Json node_of(const fs::path& run, const std::string& what, Fits&& fits) {
  const fs::path file = run / "graph.json";
  if (!fs::exists(file)) throw DataError(file.string() + ": no such file: the run was not begun");
  const Json nodes = read_json(file).value("nodes", Json::object());
  for (const auto& [name, node] : nodes.items())
    if (node.is_object() && fits(node)) return node;
  throw DataError(file.string() + ": has no node " + what);
}

Json source_of(const fs::path& run) {
  return node_of(run, "`nnunet` with the split \"validation\"", [](const Json& node) {
    return node.value("type", "") == "nnunet" && node.value("split", "") == "validation";
  });
}

at::Tensor in_group(const at::Tensor& map, const Group& group) {
  at::Tensor inside = at::zeros_like(map, at::kBool);
  for (const std::int64_t label : group) inside.logical_or_(map.eq(label));
  return inside;
}

}  // namespace

std::vector<ValidatedCase> validated_cases(const fs::path& folder) {
  std::vector<ValidatedCase> cases;
  std::set<std::string> names;
  for (const fs::path& run : runs_in(folder)) {
    const Json source = source_of(run);
    const Json saved = node_of(run, "`save_image` of \"pred\"", [](const Json& node) {
      return node.value("type", "") == "save_image" && node.value("keys", Json()) == "pred";
    });
    const NnunetFolder data = read_nnunet_folder(source.at("root").get<std::string>());
    const auto keys = source.value("keys", std::vector<std::string>{"image"});
    DataList list = nnunet_list(
        data, {"validation", source.value("fold", 0), source.value("folds", 5)}, keys, "label");
    if (const auto limit = source.find("limit"); limit != source.end() && limit->is_number())
      limit_list(list, limit->get<std::int64_t>());
    for (const DataItem& item : list) {
      const fs::path place = run / saved.at("output_dir").get<std::string>();
      const std::string ending = saved.value("output_ext", ".nii.gz");
      const fs::path prediction = place / (item.name + ending);
      if (!fs::exists(prediction))
        throw DataError(prediction.string() +
                        ": no such file; the run has not validated its fold as a whole");
      if (!names.insert(item.name).second)
        throw DataError(run.string() + ": validates case \"" + item.name +
                        "\", as another run does");
      ValidatedCase found{item.name, run.filename().string(), source.value("fold", 0), prediction};
      if (const fs::path kept = place / (item.name + "_probabilities" + ending); fs::exists(kept))
        found.probabilities = kept;
      for (const auto& [key, file] : item.files)
        if (key == "label")
          found.truth = file;
        else
          found.images.emplace_back(file);
      cases.push_back(std::move(found));
    }
  }
  return cases;
}

Dataset dataset_of(const fs::path& folder) {
  return read_dataset(source_of(runs_in(folder).front()).at("root").get<std::string>());
}

std::vector<Group> foreground(const Dataset& d) {
  std::vector<Group> groups;
  for (const Label& label : d.labels)
    if (label.name != "background" && label.name != "ignore") groups.push_back(label.values);
  if (!d.regions) std::sort(groups.begin(), groups.end());
  return groups;
}

std::string name_of(const Dataset& d, const Group& group) {
  for (const Label& label : d.labels)
    if (label.values == group) return label.name;
  return list(group);
}

std::string number_of(double dice) { return std::isnan(dice) ? "-" : fmt::format("{:.4f}", dice); }

void keep_largest(at::Tensor& map, const Group& group) {
  const at::Tensor mask = in_group(map, group).to(at::kByte).contiguous();
  map.masked_fill_(mask.ne(largest_components(mask, 3, 1)), 0);
}

DiceTable dice_of(const std::vector<ValidatedCase>& cases, const Dataset& d,
                  const std::vector<Group>& groups, const std::vector<Group>& kept) {
  DiceTable table(groups.size(), std::vector<double>(cases.size()));
  tbb::parallel_for(std::size_t{0}, cases.size(), [&](std::size_t i) {
    at::Tensor pred = read_volume(cases[i].prediction, at::kInt).data[0];
    const at::Tensor truth = read_volume(cases[i].truth, at::kInt).data[0];
    if (pred.sizes() != truth.sizes())
      throw DataError(cases[i].prediction.string() + ": is of another shape than " +
                      cases[i].truth.string());
    for (const Group& group : kept) keep_largest(pred, group);
    if (d.ignore) pred = pred.masked_fill(truth.eq(*d.ignore), 0);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const at::Tensor p = in_group(pred, groups[g]), t = in_group(truth, groups[g]);
      const double both = static_cast<double>(p.logical_and(t).sum().item<std::int64_t>());
      const double all = static_cast<double>(p.sum().item<std::int64_t>()) +
                         static_cast<double>(t.sum().item<std::int64_t>());
      table[g][i] = all > 0 ? 2 * both / all : NAN;
    }
  });
  return table;
}

double mean(const std::vector<double>& values) {
  double sum = 0, n = 0;
  for (const double v : values)
    if (!std::isnan(v)) sum += v, ++n;
  return n > 0 ? sum / n : NAN;
}

double foreground_mean(const DiceTable& table) {
  std::vector<double> means;
  for (const auto& row : table) means.push_back(mean(row));
  return mean(means);
}

double case_mean(const DiceTable& table, std::size_t index) {
  std::vector<double> own;
  for (const auto& row : table) own.push_back(row[index]);
  return mean(own);
}

}  // namespace sluice::nnunet
