// Pictures for a device: the smallest graph that copies its batches there and trains.
#pragma once

#include <nlohmann/json.hpp>

// `net`: the network's parameters, a U-Net's in two dimensions.
inline nlohmann::ordered_json device_training(const nlohmann::ordered_json& net, int samples,
                                              int batch) {
  auto graph = nlohmann::ordered_json::parse(R"({
  "run": { "epochs": 2, "devices": 0, "step_threads": 1 },
  "models": { "net": { "type": "unet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2 } },
  "nodes": {
    "train": { "type": "synthetic", "num_samples": 1, "spatial_size": [32, 32], "rad_max": 8,
               "num_objs": 3, "num_seg_classes": 1 },
    "batch": { "type": "batch", "in": "train", "size": 1 },
    "up":    { "type": "to_device", "in": "batch" },
    "fwd":   { "type": "model", "in": "up", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "sgd", "in": "loss", "net": "net", "lr": 0.05 }
  }
})");
  graph["models"]["net"].update(net);
  graph["nodes"]["train"]["num_samples"] = samples;
  graph["nodes"]["batch"]["size"] = batch;
  return graph;
}
