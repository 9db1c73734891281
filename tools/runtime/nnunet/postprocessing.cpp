#include "tools/runtime/nnunet/postprocessing.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/files/volume.h"
#include "kernels/image/components.h"
#include "kernels/lists/data_list.h"
#include "kernels/lists/nnunet_list.h"
#include "tools/nnunet/wording.h"
#include "tools/runtime/new/starter.h"
#include "tools/runtime/nnunet/plan_nodes.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_worst = 5;

// ---- what the runs left -------------------------------------------------------------------------

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

// ---- Dice ---------------------------------------------------------------------------------------

at::Tensor in_group(const at::Tensor& map, const Group& group) {
  at::Tensor inside = at::zeros_like(map, at::kBool);
  for (const std::int64_t label : group) inside.logical_or_(map.eq(label));
  return inside;
}

// Of one label map [X, Y, Z]: what is of the group and not of its largest component becomes 0.
void keep_largest(at::Tensor& map, const Group& group) {
  const at::Tensor mask = in_group(map, group).to(at::kByte).contiguous();
  map.masked_fill_(mask.ne(largest_components(mask, 3, 1)), 0);
}

DiceTable dice_after(const std::vector<ValidatedCase>& cases, const Dataset& d,
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

// Without what is not defined.
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

std::string name_of(const Dataset& d, const Group& group) {
  for (const Label& label : d.labels)
    if (label.values == group) return label.name;
  return list(group);
}

std::string number_of(double dice) { return std::isnan(dice) ? "-" : fmt::format("{:.4f}", dice); }

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
      const fs::path prediction = run / saved.at("output_dir").get<std::string>() /
                                  (item.name + saved.value("output_ext", ".nii.gz"));
      if (!fs::exists(prediction))
        throw DataError(prediction.string() +
                        ": no such file; the run has not validated its fold as a whole");
      if (!names.insert(item.name).second)
        throw DataError(run.string() + ": validates case \"" + item.name +
                        "\", as another run does");
      for (const auto& [key, file] : item.files)
        if (key == "label") cases.push_back({item.name, run.filename().string(), prediction, file});
    }
  }
  return cases;
}

Dataset dataset_of(const fs::path& folder) {
  return read_dataset(source_of(runs_in(folder).front()).at("root").get<std::string>());
}

Postprocessing find_postprocessing(const std::vector<ValidatedCase>& cases, const Dataset& d) {
  Postprocessing p;
  for (const Label& label : d.labels)
    if (label.name != "background" && label.name != "ignore") p.groups.push_back(label.values);
  p.before = p.after = dice_after(cases, d, p.groups, {});
  const auto try_group = [&](const Group& group, const auto& is_better) {
    auto kept = p.kept;
    kept.push_back(group);
    DiceTable now = dice_after(cases, d, p.groups, kept);
    if (!is_better(now)) return;
    p.kept = std::move(kept);
    p.after = std::move(now);
  };
  try_group(d.classes(), [&](const DiceTable& now) {
    if (!(foreground_mean(now) > foreground_mean(p.after))) return false;
    for (std::size_t g = 0; g < p.groups.size(); ++g)
      if (mean(now[g]) < mean(p.after[g])) return false;
    return true;
  });
  if (p.groups.size() > 1)
    for (std::size_t g = 0; g < p.groups.size(); ++g)
      try_group(p.groups[g], [&](const DiceTable& now) { return mean(now[g]) > mean(p.after[g]); });
  return p;
}

std::string postprocessing_text(const std::vector<ValidatedCase>& cases, const Postprocessing& p) {
  std::map<std::string, std::vector<std::size_t>> runs;
  for (std::size_t i = 0; i < cases.size(); ++i) runs[cases[i].run].push_back(i);
  std::string text = fmt::format("Dice of {} cases, before and after\n", cases.size());
  const auto line = [&](const std::string& name, const auto& picked) {
    text += fmt::format("  {:<12}", name);
    for (std::size_t g = 0; g < p.groups.size(); ++g)
      text +=
          fmt::format("  {}: {} {}", list(p.groups[g], "+"), number_of(mean(picked(p.before[g]))),
                      number_of(mean(picked(p.after[g]))));
    text += "\n";
  };
  for (const auto& [run, members] : runs)
    line(run, [&](const std::vector<double>& row) {
      std::vector<double> some;
      for (const std::size_t i : members) some.push_back(row[i]);
      return some;
    });
  line("all", [](const std::vector<double>& row) { return row; });
  std::vector<std::pair<double, std::size_t>> worst;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<double> own;
    for (const auto& row : p.after) own.push_back(row[i]);
    if (const double m = mean(own); !std::isnan(m)) worst.emplace_back(m, i);
  }
  std::sort(worst.begin(), worst.end());
  text += "  worst:";
  for (std::size_t k = 0; k < std::min(most_worst, worst.size()); ++k)
    text += fmt::format(" {} {}", cases[worst[k].second].name, number_of(worst[k].first));
  return text + "\n";
}

std::string postprocessing_graph(const fs::path& folder, const Dataset& d,
                                 const std::vector<ValidatedCase>& cases, const Postprocessing& p) {
  NodeList nodes;
  nodes.add("cases", {{"type", "file_patterns"},
                      {"root", "@segmentations"},
                      {"patterns", {{"pred", "*" + d.ending}}}});
  nodes.add("load", {{"type", "load_image"}, {"keys", {"pred"}}, {"dtype", {"int32"}}});
  for (std::size_t k = 0; k < p.kept.size(); ++k) {
    const Group& group = p.kept[k];
    const bool all = group == d.classes() && group.size() > 1;
    nodes.add("keep" + std::to_string(k),
              {{"type", "keep_largest_connected_component"},
               {"keys", {"pred"}},
               {"applied_labels", group},
               {"independent", false}},
              all ? "The foreground as a whole: the mean rose and no label fell."
                  : fmt::format("Of {} alone: its own mean rose.", name_of(d, group)));
  }
  nodes.add("save", {{"type", "save_image"},
                     {"keys", {"pred"}},
                     {"output_dir", "postprocessed"},
                     {"output_postfix", {""}},
                     {"output_ext", d.ending == ".nii" ? ".nii" : ".nii.gz"},
                     {"separate_folder", false},
                     {"output_dtype", d.classes().size() < 255 ? "uint8" : "uint16"}});
  std::string why;
  std::istringstream lines(postprocessing_text(cases, p));
  for (std::string line; std::getline(lines, line);) why += "  // " + line + "\n";
  return fmt::format(
      R"({{
  // Written by `sluice new postprocessing`, after nnU-Net's rule on {}{}.
{}  "name": {},
  "desc": "A folder of segmentations in, the same with largest components out",
  "vars": {{ "segmentations": "segmentations" }},
  "nodes": {{
{}  }}
}}
)",
      json_text(folder.string()), p.kept.empty() ? ": nothing is better than what there is" : "",
      why, json_text(d.name + " postprocessing"), nodes.text("    "));
}

}  // namespace sluice::nnunet
