// A small run on files, and its package.
#pragma once

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/nii.h"
#include "tests/cli/shell.h"

inline const char* const packaged_training = R"({
  "name": "balls", "run": { "epochs": 1, "seed": 1 },
  "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                       "channels": [4, 8], "strides": [2] } },
  "nodes": {
    "cases": { "type": "file_patterns", "root": "data",
               "patterns": { "image": "images/*.nii", "label": "labels/*.nii" } },
    "load":  { "type": "load_image", "in": "cases", "keys": ["image", "label"] },
    "ras":   { "type": "orientation", "in": "load", "keys": ["image", "label"] },
    "norm":  { "type": "normalize_intensity", "in": "ras" },
    "flip":  { "type": "rand_flip", "in": "norm", "prob": 0.5 },
    "fit":   { "type": "resize_with_pad_or_crop", "in": "flip", "keys": ["image", "label"],
               "spatial_size": [16, 16, 16] },
    "batch": { "type": "batch", "in": "fit", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":   { "type": "file_patterns", "root": "data", "after": "step",
               "patterns": { "image": "images/*.nii", "label": "labels/*.nii" } },
    "vload": { "type": "load_image", "in": "val", "keys": ["image", "label"] },
    "vras":  { "type": "orientation", "in": "vload", "keys": ["image", "label"] },
    "vnorm": { "type": "normalize_intensity", "in": "vras" },
    "infer": { "type": "sliding_window", "in": "vnorm", "net": "net", "roi_size": [16, 16, 16] },
    "dice":  { "type": "dice_metric", "in": "infer", "class_names": ["air", "ball"] } } })";

// A run in DIR/run, and its package in DIR/p.
struct Packaged {
  shell::Folder folder;
  Packaged() {
    for (int i = 0; i < 2; ++i) {
      const std::string name = "a" + std::to_string(i) + ".nii";
      for (const char* sub : {"data/images", "data/labels"}) shell::fs::create_directories(at(sub));
      nii::write_pair(at("data/images/" + name), at("data/labels/" + name), {16, 18, 20},
                      {1, 1, 1});
    }
    folder.write("g.json", packaged_training);
    const auto trained = sh("$SLUICE run g.json --quiet --out run");
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    const auto r = sh("$SLUICE export run --package p");
    INFO(r.err);
    REQUIRE(r.code == 0);
  }
  std::string at(const std::string& name) const { return (folder.path / name).string(); }
  shell::Result sh(const std::string& command) const {
    return shell::run("cd " + folder.path.string() + "\n" + command);
  }
  // Of a file that may have comments.
  nlohmann::json read_json(const std::string& name) const {
    return nlohmann::json::parse(folder.read(name), nullptr, true, true);
  }
  void refused(const std::string& command, int code, const std::string& why) const {
    const auto r = sh(command);
    CAPTURE(command);
    INFO(r.err);
    CHECK(r.code == code);
    CHECK(r.err.find(why) != std::string::npos);
  }
};
