// Toy node types, and what is wrong with a graph as text, for the tests of the graph, the picture
// and the command line.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice::toys {

struct NoParams {
  std::string root, split = "training", net;
  std::vector<std::string> keys{"image"};
  std::vector<std::int64_t> size{8};
  std::optional<std::vector<std::int64_t>> axes;
  std::int64_t count = 1;
  double prob = 0.5, lr = 0.1;
  bool shuffle = false, drop_last = false;
};

inline Catalogue catalogue() {
  using P = NoParams;
  Catalogue c;
  c.add(Spec("cases", "Lists cases.")
            .out("case")
            .source()
            .lane(LaneKind::io)
            .param("root", &P::root, "Folder.")
            .required()
            .param("split", &P::split, "Which.")
            .choices({"training", "validation"})
            .param("shuffle", &P::shuffle, "In another order every epoch."));
  c.add(Spec("load", "Reads a case.")
            .in("case")
            .out("sample")
            .lane(LaneKind::io)
            .param("keys", &P::keys, "Fields."));
  c.add(Spec("flip", "Flips.")
            .in("sample")
            .out("sample")
            .random()
            .param("prob", &P::prob, "Chance.")
            .range(0, 1)
            .param("axes", &P::axes, "Axes; null: all."));
  c.add(Spec("crop", "Cuts out.")
            .in("sample")
            .out("sample")
            .expands("num_samples")
            .random()
            .param("size", &P::size, "Size.")
            .param("num_samples", &P::count, "How many."));
  c.add(Spec("cache", "Keeps.").in("sample").out("sample").cache());
  c.add(Spec("batch", "Stacks.")
            .in("sample")
            .out("batch")
            .gathers("size", "drop_last")
            .gate()
            .param("size", &P::count, "How many.")
            .param("drop_last", &P::drop_last, "Drops the rest."));
  c.add(Spec("split", "Parts the fields.").in("sample").out("image").out("label"));
  c.add(Spec("join", "Joins fields.").in("image").in("label").in_optional("weight").out("sample"));
  c.add(Spec("mask", "Cuts away.").in_optional("sample").out("sample"));
  c.add(Spec("model", "Runs a network.")
            .in("batch")
            .out("batch")
            .lane(LaneKind::step)
            .param("net", &P::net, "Network.")
            .required()
            .reads("net"));
  c.add(Spec("adam", "Updates a network.")
            .in("loss")
            .lane(LaneKind::step)
            .param("net", &P::net, "Network.")
            .required()
            .updates("net")
            .param("lr", &P::lr, "Learning rate.")
            .at_least(0));
  c.add(Spec("dice", "Measures.").in("pred").ordered());
  c.add(Spec("orient", "Reorders axes.").in("sample").out("sample"));
  c.add(Spec("normalize", "Scales.").in("sample").out("sample"));
  c.add(Spec("buffer", "Runs ahead.")
            .in("sample")
            .out("sample")
            .gate("size")
            .param("size", &P::count, "How many."));
  c.add(Spec("to_device", "Copies.").in("sample").out("sample").lane(LaneKind::copy));
  c.add(Spec("dice_loss", "Measures.").in("pred").out("loss").lane(LaneKind::step));
  c.add(Spec("sliding_window", "Infers.")
            .in("sample")
            .out("sample")
            .param("net", &P::net, "Network.")
            .required()
            .reads("net"));
  c.add(Spec("save", "Writes.").in("sample").lane(LaneKind::io));
  c.add(Spec::network("unet", "A U-Net.")
            .param("channels", &P::size, "Per level.")
            .param("dropout", &P::prob, "Chance.")
            .range(0, 1));
  return c;
}

// Everything that a graph file can say, of these types.
inline const char* const whole_graph = R"({
  "name": "toy", "desc": "everything at once", "x-note": 1, "ui": {"zoom": 2},
  "vars": { "root": "/data", "patch": [4, "@depth"], "depth": 6, "seed": 7, "stop": 0.9 },
  "run": { "epochs": 3, "seed": "@seed", "stop": {"metric": "score.mean", "at_least": "@stop"},
           "checkpoint": {"every_epochs": 2, "keep": 1}, "max_bad": 4, "watchdog_s": 1.5 },
  "models": { "net": { "type": "unet", "channels": [8, 16], "weights": "w.safetensors" } },
  "parts": {
    "prepare": { "in": "case", "out": "kept", "params": {"keys": ["image"]}, "nodes": {
      "load": { "type": "load", "in": "case", "keys": "@keys", "on_error": "quarantine" },
      "kept": { "type": "cache", "in": "load" } } } },
  "nodes": {
    "train": { "type": "cases", "root": "@root", "shuffle": true },
    "pre": { "part": "prepare", "in": "train", "keys": ["image", "label"] },
    "crop": { "type": "crop", "in": "pre", "size": "@patch", "num_samples": 2, "x-why": "test" },
    "off": { "type": "flip", "in": "crop", "disabled": true },
    "batch": { "type": "batch", "in": "off", "size": 2, "desc": "pairs" },
    "fwd": { "type": "model", "in": "batch", "net": "net" },
    "step": { "type": "adam", "in": "fwd", "net": "net", "lr": 1 },
    "val": { "type": "cases", "root": "@root", "split": "validation", "after": "step",
             "every_epochs": 2 },
    "vpre": { "part": "prepare", "in": "val" },
    "parts": { "type": "split", "in": "vpre", "lane": "io", "max_bad": 1 },
    "both": { "type": "join", "in": {"label": "parts.label", "image": "parts"} },
    "run": { "type": "model", "in": "both", "net": "net" },
    "score": { "type": "dice", "in": "run" } } })";

struct Loaded {
  Diagnostics diagnostics;
  std::optional<Graph> graph;
};

// The specs live as long as the program, because graphs point at them.
inline Loaded load(const std::string& text, const std::vector<Override>& overrides = {}) {
  static const Catalogue types = catalogue();
  Loaded out;
  auto document = parse_document("g.json", text, out.diagnostics);
  out.graph = load_graph(document, types, overrides, out.diagnostics);
  return out;
}

// One line a diagnostic, in file order: "SL0203 3:24 nodes.load.type".
inline std::string faults(const Diagnostics& diagnostics) {
  std::string out;
  for (const Json& d : diagnostics.to_json()) {
    const std::string place =
        d.contains("line") ? d["line"].dump() + ":" + d["column"].dump() : d.value("place", "-");
    out += d.value("code", "") + " " + place + " " + d.value("path", "") + "\n";
  }
  return out;
}
inline std::string faults(const std::string& text, const std::vector<Override>& overrides = {}) {
  return faults(load(text, overrides).diagnostics);
}

// The hint of the first diagnostic.
inline std::string hint(const std::string& text, const std::vector<Override>& overrides = {}) {
  const auto loaded = load(text, overrides);
  const Json all = loaded.diagnostics.to_json();
  return all.empty() ? "(no diagnostic)" : all[0].value("hint", "");
}

}  // namespace sluice::toys
