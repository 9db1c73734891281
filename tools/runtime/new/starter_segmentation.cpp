// The starter graph that trains and validates a segmentation.
#include <fmt/format.h>

#include "engine/base/message.h"
#include "tools/runtime/new/starter.h"

namespace sluice {
namespace {

std::string head(const Survey& s) {
  std::string labels;
  for (const auto& [value, name] : s.labels)
    labels += (labels.empty() ? "" : ", ") + std::to_string(value) + " " + printable(name);
  return fmt::format(
      R"({{
  // A starting point, written by `sluice new` after a look at {}:
  // {} cases for training and {} for validation, median {} voxels of {} mm{}.
  // Each number's rule stands beside it. Try another: --set vars.patch=[48,48,48] --set run.epochs=5
  "name": {},
  "desc": {},
)",
      json_text(s.root.string()), s.training.size(), s.validation.size(), size_text(median_size(s)),
      spacing_text(median_spacing(s)), labels.empty() ? "" : ";\n  // " + labels, json_text(s.name),
      json_text(
          "3-D U-Net: patches for training, whole volumes on their own grids for validation"));
}

std::string settings(const Survey& s, const Recipe& r) {
  const std::string root =
      s.layout == DataLayout::pairs ? "" : "    \"root\": " + json_text(s.root.string()) + ",\n";
  return fmt::format(
      R"(  "vars": {{
{}    // The median volume at the spacing below, made smaller in proportion to 64 x 64 x 64 voxels
    // where it is more, and each axis a multiple of the network's strides.
    "patch": {},
    // The median voxel, in mm along R, A, S.
    "spacing": [{:g}, {:g}, {:g}],
    "seed": 1
  }},
  "run": {{
    // About 2000 steps, at least 10 and at most 200 epochs.
    "epochs": {}, "seed": "@seed",
    "checkpoint": {{ "every_epochs": {}, "keep": 2 }}
  }},
)",
      root, list_of(r.patch), r.spacing[0], r.spacing[1], r.spacing[2], r.epochs,
      std::max<std::int64_t>(1, r.epochs / 10));
}

std::string models(const Survey& s, const Recipe& r) {
  return fmt::format(
      R"(  "models": {{
    // {}
    // Channels double from 16 to 256 at most; one output a class.
    "net": {}
  }},
)",
      strides_rule(r), network_text(s, r, false));
}

// A volume is loaded by one node where nothing has to be joined or made a mask.
bool loads_at_once(const Survey& s, const Recipe& r) { return s.channel_files == 1 && !r.binarise; }

std::string load_node(const Survey& s, const Recipe& r, const std::string& from) {
  auto keys = image_keys(s);
  keys.push_back("label");
  std::string text = "{ \"type\": \"load_image\", \"in\": " + json_text(from);
  if (keys.size() > 2) text += ", \"keys\": " + list_of(keys);
  if (!r.binarise) text += ", \"max_label\": " + std::to_string(r.classes - 1);
  if (s.bad > 0) text += ", \"on_error\": \"quarantine\", \"max_bad\": 1000";
  return text + " }";
}

// load, and what makes one image of several channels' files and classes of the labels.
std::string loaded_part(const Survey& s, const Recipe& r) {
  std::string text = "        \"load\": " + load_node(s, r, "cases"), last = "load";
  if (s.channel_files > 1) {
    text += fmt::format(
        ",\n        \"join\": {{ \"type\": \"concat_items\", \"in\": \"load\", \"keys\": {}, "
        "\"name\": \"image\" }},\n"
        "        \"pair\": {{ \"type\": \"select_items\", \"in\": \"join\", \"keys\": [\"image\", "
        "\"label\"] }}",
        list_of(image_keys(s)));
    last = "pair";
  }
  if (r.binarise) {
    text += fmt::format(
        ",\n        // The labels are 0 and {:g}: 1 where they are not 0.\n"
        "        \"mask\": {{ \"type\": \"as_discrete\", \"in\": \"{}\", \"keys\": \"label\", "
        "\"threshold\": 0.5 }}",
        *s.label_values.rbegin(), last);
    last = "mask";
  }
  return fmt::format(
      R"(    "loaded": {{
      "in": "cases", "out": "{}",
      "nodes": {{
{}
      }}
    }},
)",
      last, text);
}

// The node "load" or "vload" after the source `from`.
std::string loading(const Survey& s, const Recipe& r, const std::string& from) {
  std::string note;
  if (from == "train" && !r.binarise)
    note += "    // A label above the last class stops the run with the file's name.\n";
  if (from == "train" && s.bad > 0)
    note +=
        "    // Cases that cannot be used were seen: they are left out and listed in\n"
        "    // quarantine.jsonl. Remove \"on_error\" once they are mended.\n";
  const char* name = from == "train" ? "\"load\":   " : "\"vload\":    ";
  return note + "    " + name +
         (loads_at_once(s, r) ? load_node(s, r, from)
                              : "{ \"part\": \"loaded\", \"in\": " + json_text(from) + " }") +
         ",\n";
}

std::string parts(const Survey& s, const Recipe& r) {
  return "  \"parts\": {\n" + (loads_at_once(s, r) ? "" : loaded_part(s, r)) +
         fmt::format(
             R"(    // One orientation, one voxel size, one scale of intensities.
    // {}
    "prepare": {{
      "in": "cases", "out": "norm",
      "params": {{ "keys": ["image", "label"] }},
      "nodes": {{
        "ras":  {{ "type": "orientation", "in": "cases", "keys": "@keys" }},
        "grid": {{ "type": "spacing", "in": "ras", "keys": "@keys", "pixdim": "@spacing",
                  "mode": ["bilinear", "nearest"] }},
        "norm": {{ {},
                  "in": "grid", "keys": "image" }}
      }}
    }}
  }},
)",
             r.normalisation_why, r.normalisation);
}

std::string training(const Survey& s, const Recipe& r) {
  const std::string cached = r.caches ? "cached" : "pre";
  std::string text =
      "  \"nodes\": {\n    \"train\":  " + source_node(s, "training", true, image_keys(s)) + ",\n" +
      loading(s, r, "train") + "    \"pre\":    { \"part\": \"prepare\", \"in\": \"load\" },\n";
  text += r.caches ? fmt::format(
                         "    // Prepared volumes stay in memory: about {:.2g} GiB, at most 4.\n"
                         "    \"cached\": {{ \"type\": \"cache\", \"in\": \"pre\" }},\n",
                         r.cache_gib)
                   : fmt::format(
                         "    // No cache: the prepared volumes would take about {:.0f} GiB, more "
                         "than 4. Where memory\n    // is there, put {{ \"type\": \"cache\" }} "
                         "between \"pre\" and \"gpu\", and \"vpre\" and \"vgpu\".\n",
                         r.cache_gib);
  text += fmt::format(
      R"(    // Where there is a GPU, what follows is done there.
    "gpu":    {{ "type": "to_device", "in": "{}" }},
    "fit":    {{ "type": "spatial_pad", "in": "gpu", "spatial_size": "@patch" }},
    // Two patches of each volume, as many around foreground as around background.
    "crop":   {{ "type": "rand_crop_by_pos_neg_label", "in": "fit", "label_key": "label",
                "spatial_size": "@patch", "num_samples": {} }},
)",
      cached, r.num_samples);
  text += r.flips
              ? "    \"flip\":   { \"type\": \"rand_flip\", \"in\": \"crop\", \"prob\": 0.5, "
                "\"spatial_axis\": 0 },\n"
              : "    // No flip along the first axis: the labels' names tell left from right.\n";
  text += fmt::format(
      R"(    "scale":  {{ "type": "rand_scale_intensity", "in": "{}", "factors": 0.1, "prob": 0.5 }},
    "shift":  {{ "type": "rand_shift_intensity", "in": "scale", "offsets": 0.1, "prob": 0.5 }},
    // As many patches as make 4 x 64 x 64 x 64 voxels, from 2 to 8, and no more than there are.
    "batch":  {{ "type": "batch", "in": "shift", "size": {} }},
    "fwd":    {{ "type": "model", "in": "batch", "net": "net" }},
    "loss":   {{ "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true }},
    "step":   {{ "type": "adam", "in": "loss", "net": "net", "lr": 0.002, "lr_schedule": "cosine" }},
)",
      r.flips ? "flip" : "crop", r.batch);
  return text;
}

std::string class_names(const Survey& s, const Recipe& r) {
  const std::vector<std::string> names =
      r.binarise ? std::vector<std::string>{} : names_of_classes(s.labels, r.classes);
  if (names.empty()) return "";
  const std::string indent = "\n" + std::string(18, ' ');
  std::string text = "," + indent + "\"class_names\": [";
  for (const std::string& name : names) {
    const std::string next = json_text(name) + (&name == &names.back() ? "]" : ", ");
    const bool full = text.size() - text.rfind('\n') + next.size() > 100;
    text += (full ? indent + "  " : "") + next;
  }
  return text;
}

std::string validation(const Survey& s, const Recipe& r) {
  const std::string cache =
      r.caches ? "    \"vcached\":  { \"type\": \"cache\", \"in\": \"vpre\" },\n" : "";
  std::vector<std::string> more{"\"after\": \"step\""};
  if (r.validate_every > 1) more.push_back("\"every_epochs\": " + std::to_string(r.validate_every));
  return fmt::format(
      R"(
    // About twenty validations. The label stays on its file's grid, the prediction goes back to it.
    "val":      {},
{}    "vpre":     {{ "part": "prepare", "in": "vload", "keys": ["image"] }},
{}    "vgpu":     {{ "type": "to_device", "in": "{}" }},
    "infer":    {{ "type": "sliding_window", "in": "vgpu", "net": "net", "roi_size": "@patch",
                  "sw_batch_size": 4, "overlap": 0.5, "mode": "gaussian" }},
    "host":     {{ "type": "to_device", "in": "infer", "device": "cpu" }},
    "native":   {{ "type": "invert", "in": "host", "keys": "pred", "mode": "bilinear" }},
    "val_dice": {{ "type": "dice_metric", "in": "native", "include_background": false{} }}
  }}
}}
)",
      source_node(s, "validation", false, image_keys(s), more), loading(s, r, "val"), cache,
      r.caches ? "vcached" : "vpre", class_names(s, r));
}

}  // namespace

std::string segmentation_graph(const Survey& s, const Recipe& r) {
  return head(s) + settings(s, r) + models(s, r) + parts(s, r) + training(s, r) + validation(s, r);
}

}  // namespace sluice
