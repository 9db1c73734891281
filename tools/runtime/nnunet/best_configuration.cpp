#include "tools/runtime/nnunet/best_configuration.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/files/meta_image.h"
#include "kernels/files/nifti.h"
#include "kernels/image/labels.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

// The model's folder of a configuration, TRAINER__PLANS__CONFIGURATION.
std::optional<fs::path> model_of(const fs::path& folder, const std::string& configuration) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().ends_with("__" + configuration) &&
        fs::exists(entry.path() / "plans.json"))
      found.push_back(entry.path());
  if (found.size() > 1)
    throw DataError(folder.string() + ": holds models of several plans of " + configuration + ": " +
                    found[0].filename().string() + " and " + found[1].filename().string());
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::string folds_of(const Candidate& c) {
  std::set<std::int64_t> folds;
  for (const ValidatedCase& one : c.cases) folds.insert(one.fold);
  std::string text;
  for (const std::int64_t fold : folds) text += (text.empty() ? "" : "_") + std::to_string(fold);
  return text;
}

std::map<std::string, const ValidatedCase*> by_name(const Candidate& c) {
  std::map<std::string, const ValidatedCase*> cases;
  for (const ValidatedCase& one : c.cases) cases[one.name] = &one;
  return cases;
}

void must_be_comparable(const Candidate& a, const Candidate& b) {
  const auto mine = by_name(a), theirs = by_name(b);
  for (const auto& [cases, others, lacks] :
       {std::tuple(&mine, &theirs, &b), std::tuple(&theirs, &mine, &a)})
    for (const auto& [name, one] : *cases)
      if (!others->contains(name))
        throw DataError(lacks->name + ": has not validated case \"" + name + "\", which " +
                        one->run + " of the other configuration has; train the same folds of both");
}

// What an ensemble cannot be made of: the first case without probabilities.
const ValidatedCase* without_probabilities(const Candidate& c) {
  for (const ValidatedCase& one : c.cases)
    if (one.probabilities.empty()) return &one;
  return nullptr;
}

Volume read_probabilities(const ValidatedCase& one, const Dataset& d) {
  Volume volume = read_volume(one.probabilities);
  if (volume.data.dim() != 4 || volume.data.size(0) != d.outputs())
    throw DataError(one.probabilities.string() + ": has " + std::to_string(volume.data.size(0)) +
                    " channels; the labels make " + std::to_string(d.outputs()));
  return volume;
}

// As the node `argmax` does it of probabilities.
at::Tensor labels_of(const at::Tensor& probabilities, const Dataset& d) {
  if (!d.regions) return kernels::argmax_channels(probabilities);
  at::Tensor labels = at::zeros_like(probabilities[0], at::kByte);
  for (std::size_t c = 0; c < d.region_order.size(); ++c)
    labels.masked_fill_(probabilities[static_cast<std::int64_t>(c)].gt(0.5), d.region_order[c]);
  return labels.unsqueeze(0);
}

// Two cases' volumes a thread are in memory.
Candidate ensemble(const Candidate& a, const Candidate& b, const Dataset& d,
                   const fs::path& below) {
  Candidate pair{fmt::format("ensemble___{}___{}___{}", a.name, b.name, folds_of(a)),
                 {a.models[0], b.models[0]},
                 a.cases,
                 0};
  const auto others = by_name(b);
  const fs::path folder = below / pair.name;
  fs::create_directories(folder);
  tbb::parallel_for(std::size_t{0}, pair.cases.size(), [&](std::size_t i) {
    ValidatedCase& one = pair.cases[i];
    const ValidatedCase& other = *others.at(one.name);
    const Volume first = read_probabilities(one, d), second = read_probabilities(other, d);
    if (first.data.sizes() != second.data.sizes())
      throw DataError(other.probabilities.string() + ": is of another shape than " +
                      one.probabilities.string());
    const at::Tensor mean = (first.data + second.data).div_(2);
    one.prediction = folder / one.prediction.filename();
    const auto write = has_ending(one.prediction, ".mha") ? write_meta_image : write_nifti;
    write(one.prediction, labels_of(mean, d), first.affine,
          d.classes().size() < 255 ? "uint8" : "uint16", 1);
  });
  return pair;
}

void score(Candidate& c, const Dataset& d) {
  c.dice = foreground_mean(dice_of(c.cases, d, foreground(d)));
}

}  // namespace

BestConfiguration find_best_configuration(const fs::path& folder, const fs::path& ensembles) {
  if (!fs::is_directory(folder)) throw DataError(folder.string() + ": no such folder");
  BestConfiguration found;
  std::vector<Candidate>& all = found.candidates;
  bool planned = false;
  for (const char* name : {"2d", "3d_fullres", "3d_lowres", "3d_cascade_fullres"}) {
    const auto model = model_of(folder, name);
    if (!model) continue;  // not in the plan
    planned = true;
    const fs::path runs = folder / name;
    if (!fs::exists(runs / "each.json")) {
      found.left_out.push_back(std::string(name) + ": not trained, " +
                               (runs / "each.json").string() + " is not there");
      continue;
    }
    all.push_back(
        {model->filename().string(), {read_trained_model(*model)}, validated_cases(runs), 0});
    if (all.size() == 1) found.dataset = dataset_of(runs);
    must_be_comparable(all.front(), all.back());
  }
  if (!planned)
    throw DataError(folder.string() +
                    ": holds no TRAINER__PLANS__CONFIGURATION/plans.json, as `sluice new "
                    "segmentation --recipe nnunet` writes it");
  if (all.empty()) throw DataError(folder.string() + ": " + found.left_out.front());
  const std::size_t single = all.size();
  for (std::size_t i = 0; i < single; ++i)
    for (std::size_t k = i + 1; k < single; ++k) {
      const ValidatedCase* lacks = without_probabilities(all[i]);
      if (!lacks) lacks = without_probabilities(all[k]);
      if (lacks)
        found.left_out.push_back(
            all[i].models[0].configuration + " with " + all[k].models[0].configuration +
            ": no probabilities beside " + lacks->prediction.string() +
            "; graphs of `sluice new segmentation --recipe nnunet --probabilities` keep them");
      else
        all.push_back(ensemble(all[i], all[k], found.dataset, ensembles));
    }
  for (Candidate& c : all) score(c, found.dataset);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].dice > found.chosen().dice || std::isnan(found.chosen().dice)) found.best = i;
  found.postprocessing = find_postprocessing(found.chosen().cases, found.dataset);
  return found;
}

std::string best_configuration_text(const BestConfiguration& found) {
  std::string text = fmt::format("mean foreground Dice of {} cases\n", found.chosen().cases.size());
  for (const Candidate& c : found.candidates)
    text +=
        fmt::format("{} {}  {}\n", &c == &found.chosen() ? "*" : " ", number_of(c.dice), c.name);
  for (const std::string& line : found.left_out) text += "  not tried: " + line + "\n";
  const Postprocessing& p = found.postprocessing;
  text += fmt::format("  after post-processing {}: ", number_of(foreground_mean(p.after)));
  if (p.kept.empty()) text += "nothing is better than what there is";
  for (const Group& group : p.kept)
    text += (group == p.kept.front() ? "" : ", then ") + std::string("the largest component of ") +
            (group == found.dataset.classes() && group.size() > 1 ? "the foreground"
                                                                  : name_of(found.dataset, group));
  return text + "\n";
}

Json inference_information(const BestConfiguration& found) {
  const Postprocessing& p = found.postprocessing;
  const auto about = [](const TrainedModel& m) {
    return Json{{"configuration", m.configuration},
                {"trainer", m.trainer},
                {"plans_identifier", m.plans.value("plans_name", std::string())}};
  };
  Json results = Json::object(), considered = Json::array(), selected = Json::array();
  for (const Candidate& c : found.candidates) {
    results[c.name] = c.dice;
    if (c.models.size() == 1) considered.push_back(about(c.models[0]));
  }
  std::set<std::int64_t> folds;
  for (const ValidatedCase& one : found.chosen().cases) folds.insert(one.fold);
  for (const TrainedModel& m : found.chosen().models) selected.push_back(about(m));
  return {
      {"folds", folds},
      {"dataset_name_or_id", found.dataset.name},
      {"considered_models", considered},
      {"ensembling_allowed", std::any_of(found.candidates.begin(), found.candidates.end(),
                                         [](const Candidate& c) { return c.models.size() > 1; })},
      {"all_results", results},
      {"best_model_or_ensemble",
       {{"result_on_crossval_pre_pp", foreground_mean(p.before)},
        {"result_on_crossval_post_pp", foreground_mean(p.after)},
        {"postprocessing_kwargs", p.kept},
        {"some_plans_file", (found.chosen().models[0].folder / "plans.json").string()},
        {"selected_model_or_models", selected}}},
      {"left_out", found.left_out}};
}

}  // namespace sluice::nnunet
