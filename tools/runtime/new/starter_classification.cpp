// The starter graph that trains and validates a classifier, after MONAI's MedNIST tutorial.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/runtime/new/class_survey.h"
#include "tools/runtime/new/starter.h"

namespace sluice {
namespace {

constexpr std::int64_t network_least = 32;  // DenseNet halves five times

struct Numbers {
  std::vector<std::int64_t> size;  // what all images become
  bool resizes = false, caches = true;
  double val_frac = 0.1, cache_gib = 0;
  std::int64_t training = 0, batch = 2, epochs = 4;
};

std::int64_t product(const std::vector<std::int64_t>& size) {
  std::int64_t n = 1;
  for (const auto extent : size) n *= extent;
  return n;
}

Numbers numbers_for(const ClassSurvey& s) {
  Numbers n;
  n.size = s.median_size();
  const Vec3 spacing = s.median_spacing();
  const std::int64_t most = s.axes == 2 ? 256 * 256 : 96 * 96 * 96;
  const double shrink =
      std::min(1.0, std::pow(double(most) / static_cast<double>(product(n.size)), 1.0 / s.axes));
  for (auto& extent : n.size)
    extent =
        std::max<std::int64_t>(network_least, std::llround(static_cast<double>(extent) * shrink));
  bool same_spacing = true;
  for (const Vec3& v : s.spacings)
    for (std::size_t a = 0; a < 3; ++a)
      same_spacing = same_spacing && std::abs(v[a] - spacing[a]) <= 0.01 * spacing[a];
  n.resizes = !s.one_size() || n.size != s.sizes[0] || (s.axes == 3 && !same_spacing);

  const auto images = std::ssize(s.list.items);
  n.val_frac = images < 100 ? 0.2 : 0.1;
  n.training = images - static_cast<std::int64_t>(static_cast<double>(images) * n.val_frac);
  // 300 pictures of 64 x 64, MedNIST's batch, but at least four batches an epoch.
  n.batch = std::clamp<std::int64_t>(300 * 64 * 64 / product(n.size), 2, 300);
  n.batch = std::max<std::int64_t>(2, std::min(n.batch, n.training / 4));
  const std::int64_t steps = std::max<std::int64_t>(1, n.training / n.batch);
  n.epochs = std::clamp<std::int64_t>((600 + steps - 1) / steps, 4, 200);
  n.cache_gib = static_cast<double>(images * product(n.size) * s.channels) * 4 / (1 << 30);
  n.caches = n.cache_gib < cache_limit_gib;
  return n;
}

std::string list_of_numbers(const std::vector<std::int64_t>& list) {
  std::string text;
  for (const auto v : list) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return "[" + text + "]";
}

std::string head(const ClassSurvey& s, const Numbers& n) {
  const std::string name =
      std::filesystem::absolute(s.root / ".").lexically_normal().parent_path().filename().string();
  return fmt::format(
      R"({{
  // A starting point, written by `sluice new` after a look at {}:
  // {} images of {} classes, one sub-folder each.
  // Each number's rule stands beside it. Try another: --set run.epochs=5 --set nodes.batch.size=32
  "name": {},
  "desc": "DenseNet-121 for {} classes, as MONAI's MedNIST tutorial trains it",
  "vars": {{
    "root": {},
    // The sub-folders, sorted: class 0, 1, ...
    "classes": {},
{}    // The share of the images that is held out for validation.
    "val_frac": {:g},
    "seed": 1
  }},
  "run": {{
    // About 600 steps, at least 4 and at most 200 epochs.
    "epochs": {}, "seed": "@seed",
    "checkpoint": {{ "every_epochs": {}, "keep": 2 }}
  }},
  "models": {{
    "net": {{ "type": "densenet121", "spatial_dims": {}, "in_channels": {}, "out_channels": {},
             "precision": "auto" }}
  }},
)",
      json_text(s.root.string()), s.list.items.size(), s.list.classes.size(), json_text(name),
      s.list.classes.size(), json_text(s.root.string()), list_of(s.list.classes),
      n.resizes ? fmt::format("    // The median image, in proportion made smaller to {} where it "
                              "is more, and 32 at least.\n    \"size\": {},\n",
                              s.axes == 2 ? "256 x 256" : "96 x 96 x 96", list_of_numbers(n.size))
                : "",
      n.val_frac, n.epochs, std::max<std::int64_t>(1, n.epochs / 10), s.axes, s.channels,
      s.list.classes.size());
}

std::string parts(const ClassSurvey& s, const Numbers& n) {
  std::string nodes =
      "        \"load\":  { \"type\": \"load_image\", \"in\": \"images\", \"keys\": \"image\"";
  if (s.bad > 0) nodes += ", \"on_error\": \"quarantine\", \"max_bad\": 1000";
  nodes += " },\n";
  std::string last = "load";
  if (s.axes == 3) {
    nodes +=
        "        \"ras\":   { \"type\": \"orientation\", \"in\": \"load\", \"keys\": \"image\" "
        "},\n";
    last = "ras";
  }
  if (n.resizes) {
    nodes += fmt::format(
        "        \"size\":  {{ \"type\": \"resize\", \"in\": \"{}\", \"keys\": "
        "\"image\", \"spatial_size\": \"@size\" }},\n",
        last);
    last = "size";
  }
  nodes += fmt::format(
      "        \"scale\": {{ \"type\": \"scale_intensity\", \"in\": \"{}\", "
      "\"keys\": \"image\" }}",
      last);
  last = "scale";
  if (n.caches) {
    nodes += fmt::format(
        ",\n        // Prepared images stay in memory: about {:.2g} GiB, at most "
        "4.\n        \"kept\":  {{ \"type\": \"cache\", \"in\": \"scale\" }}",
        n.cache_gib);
    last = "kept";
  }
  return fmt::format(R"(  "parts": {{
    // What does not change from epoch to epoch: every image from 0 to 1{}.
    "prepare": {{
      "in": "images", "out": "{}",
      "nodes": {{
{}
      }}
    }}
  }},
)",
                     n.resizes ? ", of one size" : "", last, nodes);
}

std::string source(const char* split, const char* more) {
  return fmt::format(
      "{{ \"type\": \"image_folder\", \"root\": \"@root\", \"split\": \"{}\", "
      "\"val_frac\": \"@val_frac\",\n                {} }}",
      split, more);
}

std::string nodes(const Numbers& n) {
  return fmt::format(
      R"(  "nodes": {{
    "train":  {},
    "pre":    {{ "part": "prepare", "in": "train" }},
    // Where there is a GPU, what follows is done there.
    "gpu":    {{ "type": "to_device", "in": "pre" }},
    // 15 degrees to either side.
    "rotate": {{ "type": "rand_rotate", "in": "gpu", "keys": "image", "range_x": 0.2618, "prob": 0.5 }},
    // Where left and right tell classes apart, remove the flip.
    "flip":   {{ "type": "rand_flip", "in": "rotate", "keys": "image", "spatial_axis": 0, "prob": 0.5 }},
    "zoom":   {{ "type": "rand_zoom", "in": "flip", "keys": "image", "mode": "bilinear",
                "min_zoom": 0.9, "max_zoom": 1.1, "prob": 0.5 }},
    // As many images as make 300 x 64 x 64 values, at most a quarter of them; a rest is left out,
    // since the network's norms take their statistics from a batch.
    "batch":  {{ "type": "batch", "in": "zoom", "size": {}, "drop_last": true }},
    "fwd":    {{ "type": "model", "in": "batch", "net": "net" }},
    "loss":   {{ "type": "cross_entropy_loss", "in": "fwd" }},
    "step":   {{ "type": "adam", "in": "loss", "net": "net", "lr": 1e-5 }},

    "val":    {},
    "vpre":   {{ "part": "prepare", "in": "val" }},
    "vbatch": {{ "type": "batch", "in": "vpre", "size": {} }},
    "vgpu":   {{ "type": "to_device", "in": "vbatch" }},
    "infer":  {{ "type": "model", "in": "vgpu", "net": "net" }},
    "val_auc":      {{ "type": "rocauc", "in": "infer", "softmax": true, "class_names": "@classes" }},
    "val_accuracy": {{ "type": "accuracy", "in": "infer", "class_names": "@classes" }}
  }}
}}
)",
      source("training", "\"shuffle\": true"), n.batch, source("validation", "\"after\": \"step\""),
      n.batch);
}

}  // namespace

std::string classification_graph(const ClassSurvey& s) {
  const Numbers n = numbers_for(s);
  return head(s, n) + parts(s, n) + nodes(n);
}

}  // namespace sluice
