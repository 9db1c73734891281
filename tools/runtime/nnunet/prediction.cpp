#include "tools/runtime/nnunet/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "tools/runtime/new/starter.h"
#include "tools/runtime/nnunet/plan_nodes.h"

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
  return fs::absolute(folder).lexically_normal();
}

class Graph {
 public:
  Graph(const fs::path& images, const TrainedModel& model,
        const std::optional<TrainedModel>& before)
      : m_(model), before_(before), images_(images) {}

  std::string text() {
    read();
    if (before_) first_stage();
    add_prepared(nodes_, m_);
    add_previous(nodes_, m_);
    add_inference(nodes_, m_);
    add("save", saved_labels(m_, "segmentations"));
    const std::string folder = m_.folder.filename().string();
    return fmt::format(
        R"({{
  // Written by `sluice new`: predicts as nnU-Net does with {}
  // ({}, {}, {} fold{}).
  "name": {},
  "desc": "A folder of images in, segmentations on the images' own grids out",
  "vars": {{
    "images": {},
    // Of the folds: the mean of their logits.
{}  }},
  "models": {{
{}  }},
  "nodes": {{
{}  }}
}}
)",
        folder, m_.trainer, m_.configuration, m_.checkpoints.size(),
        m_.checkpoints.size() == 1 ? "" : "s",
        json_text(m_.plans.value("dataset_name", m_.dataset.name) + "_prediction"),
        json_text(images_.string()),
        (before_ ? weights_of(*before_, "weights_before") + ",\n" : "") +
            weights_of(m_, "weights") + "\n",
        (before_ ? network_of(*before_, "before", "weights_before") + ",\n" : "") +
            network_of(m_, "net", "weights") + "\n",
        nodes_.text("    "));
  }

 private:
  void add(const std::string& name, Json node, const std::string& why = "") {
    nodes_.add(name, std::move(node), why);
  }

  void read() {
    Json patterns = Json::object(), keys = Json::array();
    for (std::size_t c = 0; c < m_.dataset.channels.size(); ++c) {
      const std::string key = c == 0 ? "image" : "image_" + std::to_string(c);
      keys.push_back(key);
      patterns[key] = "*" + channel_ending(c, m_.dataset.ending);
    }
    add("cases", {{"type", "file_patterns"}, {"root", "@images"}, {"patterns", patterns}});
    add("load", {{"type", "load_image"}, {"keys", keys}});
    if (keys.size() > 1) add("join", {{"type", "concat_items"}, {"keys", keys}, {"name", "image"}});
  }

  // Of a cascade: labels on the image's own grid, in "previous", beside the image as it was loaded.
  void first_stage() {
    add("keep", {{"type", "copy_items"}, {"keys", {"image"}}, {"names", {"whole"}}});
    add_prepared(nodes_, *before_, "", "before_");
    add_inference(nodes_, *before_, "before_", "before");
    add("found", {{"type", "select_items"}, {"keys", {"whole", "pred"}}},
        "The second stage reads the image as it was loaded, and these labels.");
    add("again",
        {{"type", "copy_items"}, {"keys", {"whole", "pred"}}, {"names", {"image", "previous"}}});
    add("both", {{"type", "select_items"}, {"keys", {"image", "previous"}}});
  }

  static std::string weights_of(const TrainedModel& m, const std::string& name) {
    std::string files;
    for (const auto& file : m.checkpoints)
      files += (files.empty() ? "" : ",\n      ") + json_text(file.string());
    return "    " + json_text(name) + ": [" + files + "]";
  }
  static std::string network_of(const TrainedModel& m, const std::string& name,
                                const std::string& weights) {
    Json network = m.network;
    network["weights"] = "@" + weights;
    return "    " + json_text(name) + ": { " + members_of(network, "      ", name.size() + 12) +
           " }";
  }

  const TrainedModel& m_;
  const std::optional<TrainedModel>& before_;
  fs::path images_;
  NodeList nodes_;
};

}  // namespace

std::string prediction_graph(const fs::path& images, const TrainedModel& model) {
  static const std::set<std::string> known{"", "SimpleITKIO", "SimpleITKIOWithReorient",
                                           "NibabelIO", "NibabelIOWithReorient"};
  if (!known.contains(model.reader))
    throw DataError((model.folder / "plans.json").string() + ": image_reader_writer \"" +
                    printable(model.reader) +
                    "\" is for pictures or not known; known are SimpleITKIO and NibabelIO, each "
                    "also WithReorient");
  std::optional<TrainedModel> before;
  if (!model.previous.empty()) {
    const std::string name = model.folder.filename().string();
    const fs::path folder =
        model.folder.parent_path() / (name.substr(0, name.rfind("__") + 2) + model.previous);
    if (!fs::exists(folder / "plans.json"))
      throw DataError(model.folder.string() + ": takes the labels of \"" +
                      printable(model.previous) + "\", whose model is not beside it, in " +
                      folder.string());
    before = read_trained_model(folder);
  }
  return Graph(folder_of_images(images, model), model, before).text();
}

}  // namespace sluice::nnunet
