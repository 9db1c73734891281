#include "tools/runtime/nnunet/postprocessing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "kernels/lists/nnunet_list.h"
#include "tools/nnunet/wording.h"
#include "tools/runtime/new/starter.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_worst = 5;

}  // namespace

Postprocessing find_postprocessing(const std::vector<ValidatedCase>& cases, const Dataset& d) {
  Postprocessing p;
  p.groups = foreground(d);
  p.before = p.after = dice_of(cases, d, p.groups);
  const auto try_group = [&](const Group& group, const auto& is_better) {
    auto kept = p.kept;
    kept.push_back(group);
    DiceTable now = dice_of(cases, d, p.groups, kept);
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

void add_postprocessing(NodeList& nodes, const Dataset& d, const std::vector<Group>& kept) {
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const Group& group = kept[k];
    const bool all = group == d.classes() && group.size() > 1;
    nodes.add("keep" + std::to_string(k),
              {{"type", "keep_largest_connected_component"},
               {"keys", {"pred"}},
               {"applied_labels", group},
               {"independent", false}},
              all ? "The foreground as a whole: the mean rose and no label fell."
                  : fmt::format("Of {} alone: its own mean rose.", name_of(d, group)));
  }
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
    if (const double m = case_mean(p.after, i); !std::isnan(m)) worst.emplace_back(m, i);
  }
  std::sort(worst.begin(), worst.end());
  text += "  worst:";
  for (std::size_t k = 0; k < std::min(most_worst, worst.size()); ++k)
    text += fmt::format(" {} {}", cases[worst[k].second].name, number_of(worst[k].first));
  return text + "\n";
}

std::string postprocessing_graph(const fs::path& folder, const Dataset& d,
                                 const std::vector<ValidatedCase>& cases, const Postprocessing& p) {
  const std::string ending = prediction_ending(d.ending);
  NodeList nodes;
  nodes.add("cases", {{"type", "file_patterns"},
                      {"root", "@segmentations"},
                      {"patterns", {{"pred", "*" + ending}}}});
  nodes.add("load", {{"type", "load_image"}, {"keys", {"pred"}}, {"dtype", {"int32"}}});
  add_postprocessing(nodes, d, p.kept);
  nodes.add("save", {{"type", "save_image"},
                     {"keys", {"pred"}},
                     {"output_dir", "postprocessed"},
                     {"output_postfix", {""}},
                     {"output_ext", ending},
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
