// The smallest graph that trains, draws and validates; needs no data.
#pragma once

#include "tests/cli/shell.h"

inline const char* const tiny_training = R"({
  "run": { "epochs": 2, "seed": 3 },
  "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                       "channels": [2, 4], "strides": [2] } },
  "nodes": {
    "train": { "type": "synthetic", "num_samples": 6, "spatial_size": [16, 16, 16], "rad_max": 6,
               "rad_min": 3, "num_seg_classes": 1 },
    "flip":  { "type": "rand_flip", "in": "train", "prob": 0.5 },
    "noise": { "type": "rand_gaussian_noise", "in": "flip", "prob": 0.5 },
    "batch": { "type": "batch", "in": "noise", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":   { "type": "synthetic", "num_samples": 2, "spatial_size": [16, 16, 16], "rad_max": 6,
               "rad_min": 3, "num_seg_classes": 1, "after": "step" },
    "infer": { "type": "sliding_window", "in": "val", "net": "net", "roi_size": [16, 16, 16] },
    "dice":  { "type": "dice_metric", "in": "infer", "include_background": false } } })";

struct TinyTraining {
  shell::Folder folder;
  std::string in_folder;
  TinyTraining() {
    folder.write("g.json", tiny_training);
    in_folder = "cd " + folder.path.string() + "\n";
  }
  shell::Result run(const std::string& more) const {
    return shell::run(in_folder + "$SLUICE run g.json --quiet " + more);
  }
  nlohmann::json json_of(const std::string& name) const { return folder.json_of(name); }
  std::string weights(const std::string& run) const { return folder.weights(run); }
};
