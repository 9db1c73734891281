#include "tools/runtime/nnunet/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "tools/runtime/new/starter.h"

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

struct Step {
  std::string name, why;
  Json node;
};

class Graph {
 public:
  Graph(const fs::path& images, const TrainedModel& model)
      : m_(model), images_(images), flat_(model.patch.size() == 2) {}

  std::string text() {
    read();
    prepare();
    predict();
    std::string nodes;
    for (const Step& s : steps_) {
      if (!s.why.empty()) nodes += "    // " + s.why + "\n";
      const std::string name = json_text(s.name);
      nodes += "    " + name + ": { " + members_of(s.node, "      ", name.size() + 8) + " }" +
               (&s == &steps_.back() ? "\n" : ",\n");
    }
    std::string weights;
    for (const auto& file : m_.checkpoints)
      weights += (weights.empty() ? "" : ",\n      ") + json_text(file.string());
    Json network = m_.network;
    network["weights"] = "@weights";
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
    "weights": [{}]
  }},
  "models": {{
    "net": {{ {} }}
  }},
  "nodes": {{
{}  }}
}}
)",
        folder, m_.trainer, m_.configuration, m_.checkpoints.size(),
        m_.checkpoints.size() == 1 ? "" : "s",
        json_text(m_.plans.value("dataset_name", m_.dataset.name) + "_prediction"),
        json_text(images_.string()), weights, members_of(network, "      ", 15), nodes);
  }

 private:
  void add(const std::string& name, Json node, const std::string& why = "") {
    Json whole{{"type", node["type"]}};
    if (!steps_.empty()) whole["in"] = steps_.back().name;
    whole.update(node);
    steps_.push_back({name, why, whole});
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
    if (reoriented())
      add("turn", {{"type", "orientation"}, {"keys", "image"}, {"axcodes", "RAS"}},
          "As the model's " + m_.plans["image_reader_writer"].get<std::string>() + " reads it.");
    Json order{0};
    for (const std::int64_t axis : m_.transpose) order.push_back(3 - axis);
    add("axes", {{"type", "transpose"}, {"keys", "image"}, {"indices", order}, {"geometry", true}},
        "The file's i, j, k are nnU-Net's last, middle and first axis" +
            std::string(std::is_sorted(m_.transpose.begin(), m_.transpose.end())
                            ? "."
                            : "; the plan puts them into another order."));
  }

  // Whether nnU-Net's reader turns images; of pictures it has others.
  bool reoriented() const {
    const std::string reader = m_.plans.value("image_reader_writer", std::string("SimpleITKIO"));
    const bool turns = reader.ends_with("WithReorient");
    const std::string kind = reader.substr(0, reader.size() - (turns ? 12 : 0));
    if (kind == "SimpleITKIO" || kind == "NibabelIO") return turns;
    throw DataError((m_.folder / "plans.json").string() + ": image_reader_writer \"" +
                    printable(reader) +
                    "\" is for pictures or not known; known are SimpleITKIO "
                    "and NibabelIO, each also WithReorient");
  }

  void prepare() {
    const bool masked = std::count(m_.in_mask.begin(), m_.in_mask.end(), true) > 0;
    Json box{{"type", "crop_nonzero"}, {"key", "image"}};
    if (masked) box["mask_key"] = "mask";
    add("box", box);
    add("norm", normalization(masked));
    Json spacing = m_.spacing;
    if (flat_) spacing.insert(spacing.begin(), 0);
    add("grid", {{"type", "resample_spline"}, {"keys", "image"}, {"spacing", spacing}},
        flat_ ? "The plan's spacing in the slices, which stay as many." : "The plan's spacing.");
  }

  Json normalization(bool masked) const {
    static const std::map<std::string, std::string> known{
        {"ZScoreNormalization", "zscore"},
        {"CTNormalization", "ct"},
        {"NoNormalization", "none"},
        {"RescaleTo01Normalization", "rescale_to_0_1"},
        {"RGBTo01Normalization", "rgb_to_0_1"}};
    Json node{{"type", "normalize_channels"}, {"key", "image"}, {"schemes", Json::array()}};
    bool ct = false;
    for (const std::string& scheme : m_.normalization) {
      const auto found = known.find(scheme);
      if (found == known.end())
        throw DataError((m_.folder / "plans.json").string() + ": normalization \"" +
                        printable(scheme) +
                        "\" is not known; known are ZScore-, CT-, No-, "
                        "RescaleTo01- and RGBTo01Normalization");
      node["schemes"].push_back(found->second);
      ct = ct || found->second == "ct";
    }
    if (masked) {
      node["mask_key"] = "mask";
      node["masked"] = m_.in_mask;
    }
    if (!ct) return node;
    for (const auto& [from, to] : {std::pair{"percentile_00_5", "lower"},
                                   {"percentile_99_5", "upper"},
                                   {"mean", "mean"},
                                   {"std", "std"}})
      for (std::size_t c = 0; c < m_.normalization.size(); ++c)
        node[to].push_back(node["schemes"][c] == "ct" ? intensity(c, from) : 1.0);
    return node;
  }

  double intensity(std::size_t channel, const char* what) const {
    const Json all = m_.plans.value("foreground_intensity_properties_per_channel", Json::object()),
               one = all.value(std::to_string(channel), Json::object());
    if (!one.contains(what) || !one[what].is_number())
      throw DataError((m_.folder / "plans.json").string() +
                      ": foreground_intensity_properties_per_channel has no \"" + what +
                      "\" of channel " + std::to_string(channel));
    return one[what];
  }

  void predict() {
    Json roi = m_.patch, mirror = m_.mirror_axes, overlap = 0.5;
    if (flat_) {
      roi.insert(roi.begin(), 1);
      overlap = {0, 0.5, 0.5};
      for (Json& axis : mirror) axis = axis.get<std::int64_t>() + 1;
    }
    add("gpu", {{"type", "to_device"}}, "On the GPU where there is one, and back.");
    Json infer{{"type", "sliding_window"}, {"net", "net"}, {"roi_size", roi}, {"overlap", overlap}};
    infer.update({{"starts", "even"}, {"mode", "nnunet"}, {"sums", "float16"}});
    infer["mirror_axes"] = mirror;
    if (flat_) infer["slice_axis"] = 0;
    std::string why = "nnU-Net sums in float16.";
    if (!mirror.empty())
      why += fmt::format(" Without mirror_axes {} times as fast, and a little less exact.",
                         1 << mirror.size());
    add("infer", infer, why);
    add("host", {{"type", "to_device"}, {"device", "cpu"}});
    Json label{{"type", "resample_argmax"}, {"keys", "pred"}, {"logits", "float16"}};
    if (m_.dataset.regions) label["regions_class_order"] = m_.dataset.region_order;
    add("label", label, "Back to the grid of the image's file, one label a voxel.");
    const bool plain = m_.dataset.ending == ".nii";
    const auto classes = m_.dataset.classes();
    add("save", {{"type", "save_image"},
                 {"keys", "pred"},
                 {"output_dir", "segmentations"},
                 {"output_postfix", ""},
                 {"output_ext", plain ? ".nii" : ".nii.gz"},
                 {"separate_folder", false},
                 {"output_dtype", classes.size() < 255 ? "uint8" : "uint16"}});
  }

  const TrainedModel& m_;
  fs::path images_;
  bool flat_;  // slices of a volume
  std::vector<Step> steps_;
};

}  // namespace

std::string prediction_graph(const fs::path& images, const TrainedModel& model) {
  return Graph(folder_of_images(images, model), model).text();
}

}  // namespace sluice::nnunet
