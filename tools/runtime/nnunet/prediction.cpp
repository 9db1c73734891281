#include "tools/runtime/nnunet/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/files/nifti.h"
#include "tools/runtime/new/starter.h"
#include "tools/runtime/nnunet/plan_nodes.h"
#include "tools/runtime/nnunet/postprocessing.h"
#include "tools/runtime/nnunet/recipe_run.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;
using Channels = std::set<std::size_t>;

std::string channel_ending(std::size_t channel, const std::string& ending) {
  return fmt::format("_{:04}{}", channel, ending);
}

// Cases by name, with the numbers of the channels that are there.
std::map<std::string, Channels> cases_in(const fs::path& folder, const std::string& ending) {
  std::map<std::string, Channels> cases;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    const std::string digits = name.size() > 5 ? name.substr(name.size() - 4) : "";
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (digits.empty() || name[name.size() - 5] != '_' ||
        !std::all_of(digits.begin(), digits.end(), is_digit))
      continue;
    cases[name.substr(0, name.size() - 5)].insert(std::stoul(digits));
  }
  return cases;
}

// nnU-Net would fill a slice up to the patch, and segment nothing that it was trained on.
void must_be_volumes(const fs::path& folder, const std::map<std::string, Channels>& cases,
                     const TrainedModel& m) {
  if (m.patch.size() < 3 || !m.dataset.ending.starts_with(".nii")) return;
  for (const auto& [name, channels] : cases) {
    const fs::path file = folder / (name + channel_ending(0, m.dataset.ending));
    const NiftiHeader header = read_nifti_header(file);
    const std::int64_t x = header.axis(0), y = header.axis(1), z = header.axis(2);
    if (std::min({x, y, z}) == 1)
      throw DataError(
          fmt::format("{}: has one slice, {} x {} x {}; the model of {} is for volumes, "
                      "a plan's 2d for slices",
                      file.string(), x, y, z, m.configuration));
  }
}

fs::path folder_of_images(const fs::path& given, const TrainedModel& m) {
  if (!fs::is_directory(given)) throw DataError(given.string() + ": is no folder");
  const fs::path folder =
      cases_in(given, m.dataset.ending).empty() && fs::is_directory(given / "imagesTs")
          ? given / "imagesTs"
          : given;
  const auto cases = cases_in(folder, m.dataset.ending);
  if (cases.empty())
    throw DataError(folder.string() + ": no file is named CASE_0000" + m.dataset.ending +
                    ", as the model's images are");
  for (const auto& [name, channels] : cases) {
    if (channels.size() == m.dataset.channels.size() && *channels.rbegin() + 1 == channels.size())
      continue;
    std::string there, wanted;
    for (const std::size_t c : channels)
      there += (there.empty() ? "" : ", ") + channel_ending(c, "").substr(1);
    for (std::size_t c = 0; c < m.dataset.channels.size(); ++c)
      wanted += (c ? ", " : "") + channel_ending(c, "").substr(1) + " " +
                printable(m.dataset.channels[c]);
    throw DataError(folder.string() + ": case \"" + printable(name) + "\" has the channels " +
                    there + "; the model's are " + wanted);
  }
  must_be_volumes(folder, cases, m);
  return fs::absolute(folder).lexically_normal();
}

// A model, and of a cascade the model of the stage before.
struct Stages {
  TrainedModel model;
  std::optional<TrainedModel> before;
};

Stages stages_of(const TrainedModel& model) {
  if (model.previous.empty()) return {model, {}};
  const std::string name = model.folder.filename().string();
  const fs::path folder =
      model.folder.parent_path() / (name.substr(0, name.rfind("__") + 2) + model.previous);
  if (!fs::exists(folder / "plans.json"))
    throw DataError(model.folder.string() + ": takes the labels of \"" + printable(model.previous) +
                    "\", whose model is not beside it, in " + folder.string());
  // Not those beside it, where it was trained on the labels of others.
  std::error_code none;
  const auto runs =
      model.previous_runs.empty() ? std::vector<fs::path>() : runs_listed_in(model.previous_runs);
  if (!runs.empty() &&
      !fs::equivalent(model.previous_runs, folder.parent_path() / model.previous, none))
    return {model, model_of_runs(folder, runs)};
  return {model, read_trained_model(folder)};
}

class Graph {
 public:
  Graph(const fs::path& images, std::vector<Stages> all, const std::vector<Group>& kept)
      : all_(std::move(all)), images_(images), kept_(kept) {}

  std::string text() {
    read();
    if (several() || all_[0].before)
      add("keep", {{"type", "copy_items"}, {"keys", {"image"}}, {"names", {"whole"}}});
    for (std::size_t k = 0; k < all_.size(); ++k) predict(k);
    if (several()) {
      add("mean", {{"type", "mean_ensemble"}, {"keys", predicted_}, {"output_key", "pred"}},
          "Of configurations: the mean of their probabilities.");
      Json label{{"type", "argmax"}};
      const Dataset& d = all_[0].model.dataset;
      if (d.regions) label["regions_class_order"] = d.region_order;
      add("label", label);
    }
    add_postprocessing(nodes_, all_[0].model.dataset, kept_);
    add("save", saved_labels(all_[0].model, "segmentations"));
    std::string models, said;
    for (const Stages& s : all_) {
      const TrainedModel& m = s.model;
      said +=
          fmt::format("  // - {} ({}, {}, {} fold{})\n", printable(m.folder.filename().string()),
                      printable(m.trainer), printable(m.configuration), m.checkpoints.size(),
                      m.checkpoints.size() == 1 ? "" : "s");
    }
    return fmt::format(
        R"({{
  // Written by `sluice new`: predicts as nnU-Net does with
{}  "name": {},
  "desc": "A folder of images in, segmentations on the images' own grids out",
  "vars": {{
    "images": {},
    // Of the folds: the mean of their logits.
{}
  }},
  "models": {{
{}
  }},
  "nodes": {{
{}  }}
}}
)",
        said,
        json_text(all_[0].model.plans.value("dataset_name", all_[0].model.dataset.name) +
                  "_prediction"),
        json_text(images_.string()), weights_, networks_, nodes_.text("    "));
  }

 private:
  bool several() const { return all_.size() > 1; }
  void add(const std::string& name, Json node, const std::string& why = "") {
    nodes_.add(name, std::move(node), why);
  }

  void read() {
    const Dataset& d = all_[0].model.dataset;
    Json patterns = Json::object(), keys = Json::array();
    for (std::size_t c = 0; c < d.channels.size(); ++c) {
      const std::string key = c == 0 ? "image" : "image_" + std::to_string(c);
      keys.push_back(key);
      patterns[key] = "*" + channel_ending(c, d.ending);
    }
    add("cases", {{"type", "file_patterns"}, {"root", "@images"}, {"patterns", patterns}});
    add("load", {{"type", "load_image"}, {"keys", keys}});
    if (keys.size() > 1) add("join", {{"type", "concat_items"}, {"keys", keys}, {"name", "image"}});
  }

  // Labels of the one model in "pred"; of several each one's probabilities in a field of its own,
  // beside "whole", the image as it was loaded.
  void predict(std::size_t k) {
    const auto& [model, before] = all_[k];
    const std::string number = std::to_string(k + 1), prefix = several() ? "m" + number + "_" : "";
    const std::string end = several() ? "_" + number : "";
    if (k > 0)
      add(prefix + "image", {{"type", "copy_items"}, {"keys", {"whole"}}, {"names", {"image"}}},
          model.configuration + ", from the image as it was loaded.");
    if (before) first_stage(*before, prefix, end);
    add_prepared(nodes_, model, "", prefix);
    add_previous(nodes_, model, prefix);
    add_inference(nodes_, model, prefix, name_network(model, "net" + end, "weights" + end),
                  several());
    if (!several()) return;
    predicted_.push_back("pred_" + number);
    add(prefix + "named",
        {{"type", "copy_items"}, {"keys", {"pred"}}, {"names", {"pred_" + number}}});
    add(prefix + "done", {{"type", "select_items"}, {"keys", with_predicted({"whole"})}});
  }

  // Of a cascade: labels on the image's own grid, in "previous", beside the image as it was loaded.
  void first_stage(const TrainedModel& before, const std::string& prefix, const std::string& end) {
    add_prepared(nodes_, before, "", prefix + "before_");
    add_inference(nodes_, before, prefix + "before_",
                  name_network(before, "before" + end, "weights_before" + end));
    add(prefix + "found", {{"type", "select_items"}, {"keys", with_predicted({"whole", "pred"})}},
        "The second stage reads the image as it was loaded, and these labels.");
    add(prefix + "again",
        {{"type", "copy_items"}, {"keys", {"whole", "pred"}}, {"names", {"image", "previous"}}});
    Json both{"image", "previous"};
    if (several()) both.push_back("whole");
    add(prefix + "both", {{"type", "select_items"}, {"keys", with_predicted(both)}});
  }

  Json with_predicted(Json keys) const {
    keys.insert(keys.end(), predicted_.begin(), predicted_.end());
    return keys;
  }

  // The network among "models", with its weights among "vars"; its name.
  std::string name_network(const TrainedModel& m, const std::string& name,
                           const std::string& weights) {
    std::string files;
    for (const auto& file : m.checkpoints)
      files += (files.empty() ? "" : ",\n      ") + json_text(file.string());
    const std::string comma = weights_.empty() ? "" : ",\n";
    weights_ += comma + "    " + json_text(weights) + ": [" + files + "]";
    Json network = m.network;
    network["weights"] = "@" + weights;
    // A run of the recipe's graph names its tensors after the network, "net".
    if (name != "net" && fs::is_directory(m.checkpoints.front())) network["strip_prefix"] = "net.";
    networks_ += comma + "    " + json_text(name) + ": { " +
                 members_of(network, "      ", name.size() + 12) + " }";
    return name;
  }

  const std::vector<Stages> all_;
  const fs::path images_;
  const std::vector<Group> kept_;
  NodeList nodes_;
  std::string weights_, networks_;
  Json predicted_ = Json::array();
};

}  // namespace

std::string prediction_graph(const fs::path& images, const std::vector<TrainedModel>& models,
                             const std::vector<Group>& kept) {
  static const std::set<std::string> known{"", "SimpleITKIO", "SimpleITKIOWithReorient",
                                           "NibabelIO", "NibabelIOWithReorient"};
  std::vector<Stages> all;
  const TrainedModel& first = models.front();
  for (const TrainedModel& model : models) {
    if (!known.contains(model.reader))
      throw DataError((model.folder / "plans.json").string() + ": image_reader_writer \"" +
                      printable(model.reader) +
                      "\" is for pictures or not known; known are SimpleITKIO and NibabelIO, each "
                      "also WithReorient");
    const Dataset &a = model.dataset, &b = first.dataset;
    if (a.channels != b.channels || a.ending != b.ending || a.outputs() != b.outputs() ||
        a.classes() != b.classes() || a.region_order != b.region_order)
      throw DataError(model.folder.string() + ": is of other channels or labels than " +
                      first.folder.string());
    all.push_back(stages_of(model));
  }
  const fs::path folder = images.empty() ? "images" : folder_of_images(images, first);
  return Graph(folder, std::move(all), kept).text();
}

}  // namespace sluice::nnunet
