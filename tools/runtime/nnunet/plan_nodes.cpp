#include "tools/runtime/nnunet/plan_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/lists/nnunet_list.h"
#include "tools/runtime/new/starter.h"

namespace sluice::nnunet {
namespace {

double intensity(const TrainedModel& m, std::size_t channel, const char* what) {
  const Json all = m.plans.value("foreground_intensity_properties_per_channel", Json::object()),
             one = all.value(std::to_string(channel), Json::object());
  if (!one.contains(what) || !one[what].is_number())
    throw DataError((m.folder / "plans.json").string() +
                    ": foreground_intensity_properties_per_channel has no \"" + what +
                    "\" of channel " + std::to_string(channel));
  return one[what];
}

Json normalization(const TrainedModel& m, bool masked) {
  static const std::map<std::string, std::string> known{
      {"ZScoreNormalization", "zscore"},
      {"CTNormalization", "ct"},
      {"NoNormalization", "none"},
      {"RescaleTo01Normalization", "rescale_to_0_1"},
      {"RGBTo01Normalization", "rgb_to_0_1"}};
  Json node{{"type", "normalize_channels"}, {"key", "image"}, {"schemes", Json::array()}};
  bool ct = false;
  for (const std::string& scheme : m.normalization) {
    const auto found = known.find(scheme);
    if (found == known.end())
      throw DataError((m.folder / "plans.json").string() + ": normalization \"" +
                      printable(scheme) +
                      "\" is not known; known are ZScore-, CT-, No-, "
                      "RescaleTo01- and RGBTo01Normalization");
    node["schemes"].push_back(found->second);
    ct = ct || found->second == "ct";
  }
  if (masked) {
    node["mask_key"] = "mask";
    node["masked"] = m.in_mask;
  }
  if (!ct) return node;
  for (const auto& [from, to] : {std::pair{"percentile_00_5", "lower"},
                                 {"percentile_99_5", "upper"},
                                 {"mean", "mean"},
                                 {"std", "std"}})
    for (std::size_t c = 0; c < m.normalization.size(); ++c)
      node[to].push_back(node["schemes"][c] == "ct" ? intensity(m, c, from) : 1.0);
  return node;
}

// Nodes whose names begin with `prefix`, as the model's runs have them.
class AsTrained {
 public:
  AsTrained(NodeList& nodes, const TrainedModel& model, const std::string& prefix)
      : nodes_(nodes), model_(model), prefix_(prefix) {}

  // `own`: the node's name in the model's changes, where that is another one.
  void add(const std::string& name, Json node, std::string why = "",
           const std::string& own = "") const {
    if (const auto found = model_.changes.find(own.empty() ? name : own);
        found != model_.changes.end()) {
      std::string keys;
      for (const auto& [key, value] : found->second.items()) {
        if (value.is_null())
          node.erase(key);
        else
          node[key] = value;
        keys += (keys.empty() ? "" : ", ") + key;
      }
      why = "Otherwise than the plan, as it was trained: " + keys + ".";
    }
    nodes_.add(prefix_ + name, std::move(node), why);
  }

 private:
  NodeList& nodes_;
  const TrainedModel& model_;
  const std::string& prefix_;
};

}  // namespace

void NodeList::add(const std::string& name, Json node, const std::string& why) {
  Json whole{{"type", node["type"]}};
  if (!nodes_.empty()) whole["in"] = last();
  whole.update(node);
  nodes_.push_back({name, why, whole});
}

void NodeList::add_part(const std::string& name, const std::string& part) {
  nodes_.push_back({name, "", {{"part", part}, {"in", last()}}});
}

std::string NodeList::text(const std::string& indent, bool more) const {
  std::string text;
  for (const One& one : nodes_) {
    if (!one.why.empty()) text += indent + "// " + one.why + "\n";
    const std::string name = json_text(one.name);
    text += indent + name + ": { " + members_of(one.node, indent + "  ", name.size() + 8) + " }" +
            (&one == &nodes_.back() && !more ? "\n" : ",\n");
  }
  return text;
}

std::vector<std::string> channel_keys(const Dataset& dataset) {
  std::vector<std::string> keys{"image"};
  if (!dataset.decathlon)
    for (std::size_t c = 1; c < dataset.channels.size(); ++c)
      keys.push_back("image_" + std::to_string(c));
  return keys;
}

void add_prepared(NodeList& nodes, const TrainedModel& m, const std::string& label,
                  const std::string& prefix) {
  const AsTrained as_trained(nodes, m, prefix);
  Json labels = Json::array();
  if (!label.empty()) labels.push_back(label);
  if (!m.previous.empty()) labels.push_back("previous");
  Json all = Json::array({"image"});
  all.insert(all.end(), labels.begin(), labels.end());
  const Json both = labels.empty() ? Json("image") : all;
  if (m.reader.ends_with("WithReorient"))
    as_trained.add("turn", {{"type", "orientation"}, {"keys", both}, {"axcodes", "RAS"}},
                   "As the plan's " + m.reader + " reads it.");
  Json order{0};
  for (const std::int64_t axis : m.transpose) order.push_back(3 - axis);
  as_trained.add("axes",
                 {{"type", "transpose"}, {"keys", both}, {"indices", order}, {"geometry", true}},
                 "The file's i, j, k are nnU-Net's last, middle and first axis" +
                     std::string(std::is_sorted(m.transpose.begin(), m.transpose.end())
                                     ? "."
                                     : "; the plan puts them into another order."));
  const bool masked = std::count(m.in_mask.begin(), m.in_mask.end(), true) > 0;
  Json box{{"type", "crop_nonzero"}, {"key", "image"}};
  if (!label.empty()) box["label_key"] = label;
  if (masked) box["mask_key"] = "mask";
  if (!m.previous.empty()) box["more_keys"] = "previous";
  as_trained.add("box", box);
  as_trained.add("norm", normalization(m, masked));
  if (masked) as_trained.add("body", {{"type", "delete_items"}, {"keys", {"mask"}}});
  Json spacing = m.spacing;
  const bool flat = m.patch.size() == 2;
  if (flat) spacing.insert(spacing.begin(), 0);
  Json grid{{"type", "resample_spline"}, {"keys", "image"}, {"spacing", spacing}};
  if (!labels.empty()) grid["label_keys"] = labels.size() == 1 ? labels[0] : labels;
  as_trained.add(
      "grid", grid,
      flat ? "The plan's spacing in the slices, which stay as many." : "The plan's spacing.");
}

void add_previous(NodeList& nodes, const TrainedModel& m, const std::string& prefix,
                  bool training) {
  if (m.previous.empty()) return;
  const AsTrained as_trained(nodes, m, prefix);
  const Json key("previous");
  Json each = Json::array();
  for (const std::int64_t label : m.dataset.classes()) each.push_back(Json::array({label}));
  as_trained.add("labels", {{"type", "labels_to_regions"}, {"keys", key}, {"regions", each}},
                 "What " + m.previous + " predicted, a channel a label.");
  if (training) {
    as_trained.add("shape", {{"type", "rand_binary_operator"}, {"keys", key}});
    as_trained.add("part", {{"type", "rand_remove_component"}, {"keys", key}});
  }
  as_trained.add("numbers", {{"type", "cast_to_type"}, {"keys", key}, {"dtype", "float32"}});
  as_trained.add("channels",
                 {{"type", "concat_items"}, {"keys", {"image", "previous"}}, {"name", "image"}});
  as_trained.add("joined", {{"type", "delete_items"}, {"keys", key}});
}

void add_inference(NodeList& nodes, const TrainedModel& m, const std::string& prefix,
                   const std::string& net, bool probabilities) {
  const AsTrained as_trained(nodes, m, prefix);
  const bool flat = m.patch.size() == 2;
  Json roi = m.patch, mirror = m.mirror_axes, overlap = 0.5;
  if (flat) {
    roi.insert(roi.begin(), 1);
    overlap = {0, 0.5, 0.5};
    for (Json& axis : mirror) axis = axis.get<std::int64_t>() + 1;
  }
  as_trained.add("gpu", {{"type", "to_device"}}, "On the GPU where there is one, and back.");
  Json infer{{"type", "sliding_window"}, {"net", net}, {"roi_size", roi}, {"overlap", overlap}};
  infer.update({{"starts", "even"}, {"mode", "nnunet"}, {"sums", "float16"}});
  infer["mirror_axes"] = mirror;
  if (flat) infer["slice_axis"] = 0;
  std::string why = "nnU-Net sums in float16.";
  if (!mirror.empty())
    why += fmt::format(" Without mirror_axes {} times as fast, and a little less exact.",
                       1 << mirror.size());
  as_trained.add("infer", infer, why);
  as_trained.add("host", {{"type", "to_device"}, {"device", "cpu"}});
  Json label{{"type", "resample_argmax"}, {"keys", "pred"}, {"logits", "float16"}};
  if (m.dataset.regions) label["regions_class_order"] = m.dataset.region_order;
  if (probabilities) label["output"] = "probabilities";
  as_trained.add(probabilities ? "back" : "label", label,
                 probabilities ? "Back to the grid of the image's file, as probabilities."
                               : "Back to the grid of the image's file, one label a voxel.",
                 "label");
}

Json saved_labels(const TrainedModel& m, const std::string& folder) {
  const auto classes = m.dataset.classes();
  return {{"type", "save_image"},
          {"keys", "pred"},
          {"output_dir", folder},
          {"output_postfix", ""},
          {"output_ext", prediction_ending(m.dataset.ending)},
          {"separate_folder", false},
          {"output_dtype", classes.size() < 255 ? "uint8" : "uint16"}};
}

}  // namespace sluice::nnunet
