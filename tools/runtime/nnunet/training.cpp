#include "tools/runtime/nnunet/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tools/nnunet/initial_patch.h"
#include "tools/nnunet/wording.h"
#include "tools/runtime/new/starter.h"
#include "tools/runtime/nnunet/plan_nodes.h"

namespace sluice::nnunet {
namespace {

constexpr std::int64_t train_batches = 250, validation_batches = 50;  // an epoch

class TrainingGraph {
 public:
  TrainingGraph(const Plans& plans, const Configuration& c, const TrainedModel& model,
                std::int64_t folds, bool probabilities)
      : d_(plans.dataset),
        c_(c),
        m_(model),
        folds_(folds),
        probabilities_(probabilities),
        spatial_(spatial_of(c.topology.patch)) {}

  std::string text() const {
    return head() + models() + parts() + "  \"nodes\": {\n" + training() + online() + whole() +
           "  }\n}\n";
  }

 private:
  bool flat() const { return c_.dims() == 2; }
  bool cascade() const { return !m_.previous.empty(); }
  Json with_previous(Json keys) const {
    if (cascade()) keys.push_back("previous");
    return keys;
  }
  std::int64_t label_values() const { return std::ssize(d_.classes()) + 1 + (d_.ignore ? 1 : 0); }
  std::int64_t outputs() const { return std::max<std::int64_t>(1, std::ssize(c_.features) - 1); }
  // Of a volume where the configuration is flat: one slice.
  Json in_volume(Ints extents) const {
    if (flat()) extents.insert(extents.begin(), 1);
    return extents;
  }

  std::string head() const {
    std::string why;
    for (const std::string& line : c_.why) why += "  // " + line + "\n";
    return fmt::format(
        R"({{
  // Written by `sluice new segmentation --recipe nnunet`: what nnU-Net 2.8.1 would train.
{}  "name": {},
  "desc": {},
  "vars": {{
    "root": {},
{}{}    "patch": {}, "batch": {},
    // Of {} batches; fewer by --set vars.epochs=100, and the learning rate follows.
    "epochs": 1000
  }},
  "run": {{
    "epochs": "@epochs", "seed": 1,
    "checkpoint": {{ "every_epochs": 50, "keep": 1, "best": "online.ema" }}
  }},
)",
        why, json_text(d_.name + " " + c_.name), json_text("nnU-Net's " + c_.name),
        json_text(std::filesystem::absolute(d_.root).lexically_normal().string()), fold(),
        previous(), text_of(Json(c_.topology.patch)), c_.batch, train_batches);
  }

  std::string fold() const {
    if (folds_ == 0)
      return "    // One case leaves none to validate with: -1 is nnU-Net's \"all\", which trains "
             "and\n    // validates on all cases. With more cases: 0, 1, ...\n"
             "    \"fold\": -1,\n";
    return fmt::format(
        "    // Which fold validates: --set vars.fold=0, or all of them by --each "
        "vars.fold={};\n"
        "    // -1 is nnU-Net's \"all\", which trains and validates on all cases.\n"
        "    \"fold\": 0,\n",
        fold_numbers(folds_));
  }

  // Where a cascade's first stage was trained.
  std::string previous() const {
    if (m_.previous.empty()) return "";
    const auto runs = m_.folder.parent_path() / m_.previous;
    return fmt::format(
        "    // The runs of {0}, whose folds' validations hold each case's labels once: train all\n"
        "    // folds of {0} first.\n"
        "    \"previous\": {1},\n",
        m_.previous, json_text(runs.string()));
  }

  std::string models() const {
    Json net = m_.network;
    net["deep_supervision"] = outputs() > 1;
    net["memory"] = "light";
    return "  \"models\": {\n"
           "    // Norms are computed again on the way back: a quarter less memory for 2 % of the\n"
           "    // time; \"keep\" is the other way.\n"
           "    \"net\": { " +
           members_of(net, "      ", 15) + " }\n  },\n";
  }

  std::string parts() const {
    NodeList prepare;
    add_prepared(prepare, m_, "label");
    std::string text = "  \"parts\": {\n    \"prepare\": { \"in\": \"case\", \"out\": " +
                       json_text(prepare.last()) + ", \"nodes\": {\n" +
                       with_input(prepare, "case") + "    } }\n  },\n";
    return text;
  }

  // The first node of a part reads the part's input.
  static std::string with_input(const NodeList& nodes, const std::string& input) {
    std::string text = nodes.text("      ");
    const std::string type = "\"type\": \"";
    const auto name = text.find(type) + type.size();
    text.insert(text.find('"', name) + 1, ", \"in\": " + json_text(input));
    return text;
  }

  void add_cases(NodeList& nodes, const std::string& split, const std::string& prefix,
                 Json more = Json::object()) const {
    const Json keys = channel_keys(d_);
    Json source{{"type", "nnunet"}, {"root", "@root"}, {"split", split}, {"fold", "@fold"}};
    if (folds_ >= 2 && folds_ != 5) source["folds"] = folds_;
    if (!flat()) source["spatial_dims"] = 3;
    if (keys.size() > 1) source["keys"] = keys;
    if (cascade()) source["previous"] = "@previous";
    source.update(more);
    nodes.add(prefix + "cases", source);
  }

  void add_load(NodeList& nodes, const std::string& prefix) const {
    Json keys = channel_keys(d_);
    const bool join = keys.size() > 1;
    const Json images = keys;
    keys.push_back("label");
    std::vector<std::string> types(images.size(), "float32");
    types.push_back("int16");
    if (cascade()) {
      keys.push_back("previous");
      types.push_back("int16");
    }
    Json load{{"type", "load_image"}, {"keys", keys}, {"dtype", types}};
    if (cascade()) load["label_keys"] = {"label", "previous"};
    load["max_label"] = label_values() - 1;
    nodes.add(prefix + "load", load);
    if (!join) return;
    nodes.add(prefix + "join", {{"type", "concat_items"}, {"keys", images}, {"name", "image"}});
    nodes.add(prefix + "pair",
              {{"type", "select_items"}, {"keys", with_previous({"image", "label"})}});
  }

  // Prepared cases with the places of their classes, drawn with replacement, and patches of them.
  void add_patches(NodeList& nodes, const std::string& prefix, std::int64_t batches,
                   const Ints& initial) const {
    nodes.add(prefix + "draw",
              {{"type", "weighted_random_sampler"}, {"num_samples", batches * c_.batch}},
              fmt::format("{} batches an epoch, of cases drawn with replacement.", batches));
    add_load(nodes, prefix);
    nodes.add_part(prefix + "pre", "prepare");
    nodes.add(prefix + "places",
              {{"type", "classes_to_indices"}, {"keys", "label"}, {"num_classes", label_values()}});
    nodes.add(prefix + "kept", {{"type", "cache"}});
    Json crop{{"type", "rand_crop_foreground"}, {"spatial_size", in_volume(initial)}};
    if (cascade()) crop["keys"] = with_previous({"image"});
    if (initial != c_.topology.patch) crop["final_size"] = in_volume(c_.topology.patch);
    crop.update({{"batch", "@batch"}, {"indices_key", "label_cls_indices"}});
    if (d_.regions) crop["regions"] = regions();
    if (d_.ignore) crop["ignore_label"] = *d_.ignore;
    nodes.add(prefix + "crop", crop,
              "A third of each batch, the last, about a voxel of the foreground.");
    if (flat())
      nodes.add(prefix + "slice",
                {{"type", "squeeze_dim"}, {"keys", {"image", "label"}}, {"dim", 1}});
  }

  Json regions() const {
    Json all = Json::array();
    for (const Label& label : d_.labels)
      if (label.name != "background" && label.name != "ignore") all.push_back(label.values);
    return all;
  }

  // The regions' channels, and where there is an ignored label the last one, which marks it.
  Json region_channels() const {
    Json all = regions();
    if (d_.ignore) all.push_back(Json::array({*d_.ignore}));
    return all;
  }
  // What losses and metrics are told of it: the label, or that channel's number.
  std::int64_t ignored() const { return d_.regions ? d_.outputs() : *d_.ignore; }

  // Regions, and classes whose names are not known, have numbers.
  void name_classes(Json& metric) const {
    std::map<std::int64_t, std::string> labels;
    for (const Label& label : d_.labels)
      if (!d_.regions && label.values.size() == 1) labels[label.values.front()] = label.name;
    if (const auto names = names_of_classes(labels, d_.outputs()); !names.empty())
      metric["class_names"] = names;
  }

  // Outside of a case, -1 in the label, is background; regions become channels.
  void add_targets(NodeList& nodes, const std::string& prefix) const {
    nodes.add(prefix + "target", {{"type", "map_label_value"},
                                  {"orig_labels", {-1}},
                                  {"target_labels", {0}},
                                  {"dtype", "uint8"}});
    if (d_.regions)
      nodes.add(prefix + "regions",
                {{"type", "labels_to_regions"}, {"regions", region_channels()}});
    nodes.add(prefix + "batch", {{"type", "batch"}, {"size", "@batch"}});
    nodes.add(prefix + "gpu", {{"type", "to_device"}}, "On the GPU where there is one.");
  }

  std::string training() const {
    NodeList nodes;
    add_cases(nodes, "training", "");
    add_patches(nodes, "", train_batches, spatial_.initial);
    Json turn{{"type", "rand_rotate_scale"}, {"spatial_size", "@patch"}};
    turn["rotate"] = {-spatial_.rotation, spatial_.rotation};
    if (spatial_.dummy_2d) turn["dummy_2d"] = true;
    if (cascade()) turn["label_keys"] = with_previous({"label"});
    nodes.add("turn", turn,
              spatial_.dummy_2d ? "The patch is more than 3 times as long as it is thick: turned "
                                  "in the plane of its slices."
              : flat() ? (spatial_.turned_freely ? "A patch that is about square is turned freely."
                                                 : "A long patch is turned by 15 degrees at most.")
                       : "By 30 degrees at most about each axis.");
    nodes.add("noise", {{"type", "rand_gaussian_noise"}, {"prob", 0.1}, {"std", 0.1}});
    nodes.add("blur", {{"type", "rand_gaussian_blur"}, {"prob", 0.2}, {"channel_prob", 0.5}});
    nodes.add("bright", {{"type", "rand_multiplicative_brightness"}, {"prob", 0.15}});
    nodes.add("contrast", {{"type", "rand_contrast"}, {"prob", 0.15}});
    Json low{{"type", "rand_low_resolution"}, {"prob", 0.25}, {"channel_prob", 0.5}};
    if (spatial_.dummy_2d) low["ignore_axes"] = {0};
    nodes.add("low", low);
    nodes.add("dark", {{"type", "rand_gamma"}, {"prob", 0.1}, {"invert_prob", 1}});
    nodes.add("gamma", {{"type", "rand_gamma"}, {"prob", 0.3}});
    for (std::size_t axis = 0; axis < c_.dims(); ++axis) {
      Json flip{{"type", "rand_flip"}, {"prob", 0.5}, {"spatial_axis", axis}};
      if (cascade()) flip["keys"] = with_previous({"image", "label"});
      nodes.add("flip" + std::to_string(axis), flip);
    }
    if (!m_.in_mask.empty() &&
        std::all_of(m_.in_mask.begin(), m_.in_mask.end(), [](bool masked) { return masked; }))
      nodes.add(
          "outside",
          {{"type", "mask_intensity"}, {"mask_key", "label"}, {"select_fn", "is_not_negative"}},
          "0 where the case has no body.");
    add_previous(nodes, m_, "", /*training=*/true);
    add_targets(nodes, "");
    nodes.add("fwd", {{"type", "model"}, {"net", "net"}, {"output_keys", output_keys(outputs())}});
    nodes.add("loss", loss(),
              fmt::format("Dice {} and cross entropy; outputs count 1, 1/2, 1/4, ..., the last 0.",
                          c_.batch_dice ? "over the whole batch" : "a sample each"));
    nodes.add("step", {{"type", "sgd"},
                       {"net", "net"},
                       {"lr", 0.01},
                       {"momentum", 0.99},
                       {"nesterov", true},
                       {"weight_decay", 3e-5},
                       {"clip_grad_norm", 12},
                       {"lr_schedule", "polynomial"},
                       {"power", 0.9}});
    return nodes.text("    ", /*more=*/true);
  }

  static Json output_keys(std::int64_t n) {
    Json keys{"pred"};
    for (std::int64_t i = 1; i < n; ++i) keys.push_back("pred_" + std::to_string(i));
    return keys;
  }

  Json loss() const {
    Json node{{"type", d_.regions ? "dice_focal_loss" : "dice_ce_loss"}};
    if (outputs() > 1) {
      node["key"] = output_keys(outputs());
      std::vector<double> weights;
      for (std::int64_t i = 0; i < outputs(); ++i)
        weights.push_back(i + 1 < outputs() ? std::pow(0.5, i) : 0);
      const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (double& w : weights) w = std::round(w / all * 1e7) / 1e7;
      node["head_weights"] = weights;
    }
    if (d_.regions)  // a focal loss with gamma 0 is binary cross entropy
      node.update({{"sigmoid", true}, {"gamma", 0}});
    else
      node.update({{"softmax", true}, {"to_onehot_y", true}, {"include_background", false}});
    if (d_.ignore) node["ignore_index"] = ignored();
    if (c_.batch_dice) node["batch"] = true;
    return node;
  }

  std::string online() const {
    NodeList nodes;
    add_cases(nodes, "validation", "o_", {{"after", "step"}});
    add_patches(nodes, "o_", validation_batches, c_.topology.patch);
    add_previous(nodes, m_, "o_");
    add_targets(nodes, "o_");
    nodes.add("o_fwd", {{"type", "model"}, {"net", "net"}});
    Json dice{{"type", "patch_dice"}};
    if (d_.regions) dice["argmax"] = false;
    if (d_.ignore) dice["ignore_label"] = ignored();
    name_classes(dice);
    nodes.add("online", dice, "What nnU-Net calls pseudo Dice.");
    return "\n    // Patches of the fold that validates, after each epoch.\n" +
           nodes.text("    ", /*more=*/true);
  }

  std::string whole() const {
    NodeList nodes;
    add_cases(nodes, "validation", "v_", {{"after", "step"}, {"every_epochs", "@epochs"}});
    add_load(nodes, "v_");
    nodes.add("v_keep", {{"type", "copy_items"}, {"keys", {"label"}}, {"names", {"truth"}}});
    nodes.add_part("v_pre", "prepare");
    add_previous(nodes, m_, "v_");
    add_inference(nodes, m_, "v_", "net", probabilities_);
    if (probabilities_) add_kept_probabilities(nodes);
    nodes.add("v_save", saved_labels(m_, "validation"));
    const Json both{"pred", "truth"};
    Json dice{{"type", "dice_metric"}, {"keys", both}};
    if (d_.regions) {
      nodes.add("v_regions", {{"type", "labels_to_regions"},
                              {"keys", d_.ignore ? "pred" : both},
                              {"regions", regions()}});
      if (d_.ignore)
        nodes.add(
            "v_ignored",
            {{"type", "labels_to_regions"}, {"keys", "truth"}, {"regions", region_channels()}},
            "The last channel marks what is ignored.");
      dice["argmax"] = false;
    } else {
      dice.update({{"include_background", false}, {"num_classes", std::ssize(d_.classes()) + 1}});
    }
    if (d_.ignore) dice["ignore_index"] = ignored();
    name_classes(dice);
    nodes.add("dice", dice,
              "A class that a label lacks is left out; `sluice report` counts it as nnU-Net: 0 if "
              "predicted.");
    return "\n    // The fold's cases as a whole, on their own grids, when all is trained.\n" +
           nodes.text("    ");
  }

  // The probabilities in "pred" become files, and the field holds labels.
  void add_kept_probabilities(NodeList& nodes) const {
    nodes.add("v_copy", {{"type", "copy_items"}, {"keys", {"pred"}}, {"names", {"probabilities"}}});
    Json saved = saved_labels(m_, "validation");
    saved.update({{"keys", "probabilities"},
                  {"output_postfix", "probabilities"},
                  {"output_dtype", "float32"}});
    nodes.add("v_probabilities", saved,
              "For `sluice new best_configuration`: ensembles are means of these.");
    nodes.add("v_drop", {{"type", "delete_items"}, {"keys", {"probabilities"}}});
    Json label{{"type", "argmax"}};
    if (d_.regions) label["regions_class_order"] = d_.region_order;
    nodes.add("v_label", label);
  }

  const Dataset& d_;
  const Configuration& c_;
  const TrainedModel& m_;
  std::int64_t folds_;
  bool probabilities_;
  Spatial spatial_;
};

}  // namespace

std::string fold_numbers(std::int64_t folds) {
  if (folds == 0) return "-1";
  std::string numbers;
  for (std::int64_t fold = 0; fold < folds; ++fold)
    numbers += (fold ? "," : "") + std::to_string(fold);
  return numbers;
}

std::string training_graph(const Plans& plans, const Configuration& configuration,
                           const TrainedModel& model, std::int64_t folds, bool probabilities) {
  return TrainingGraph(plans, configuration, model, folds, probabilities).text();
}

}  // namespace sluice::nnunet
