// The starter graph that segments a folder of images, with the network of a run where one is named.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/graph/field_names.h"
#include "tools/runs/run_of.h"
#include "tools/runtime/new/starter.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// "a" of "a" and of {"sample": "a.port"}; "" where there is no one input.
std::string input_of(const Json& node) {
  Json in = node.value("in", Json());
  if (in.is_object() && in.size() == 1) in = in.front();
  if (!in.is_string()) return "";
  const auto& text = in.get_ref<const std::string&>();
  return text.substr(0, text.find('.'));
}

struct Reader {
  std::string net, node;
};

// The node that shows a network whole volumes, else batches; of all networks where `net` is "". A
// mean teacher's are the volumes, and the batches those of the network that it follows.
Reader reader_of(const Json& models, const Json& nodes, const std::string& net) {
  for (const char* type : {"sliding_window", "model"})
    for (const auto& [model, params] : models.items())
      for (const auto& [name, node] : nodes.items())
        if ((net.empty() || model == net) && node.value("type", "") == type &&
            node.value("net", "") == model)
          return {model, name};
  return {};
}

using Names = std::set<std::string>;

// With the defaults of what is not given.
Json with_defaults(const Json& node, const Spec& spec) {
  Json all = node;
  for (const ParamSpec& p : spec.params)
    if (!all.contains(p.name)) all[p.name] = p.fallback;
  return all;
}

Names named_by(const FieldRule& rule, const Json& params) {
  const auto names = field_names(rule.fields, params);
  return {names.begin(), names.end()};
}

// What `wanted` is made of before the node: its own names, and what the node makes them from.
Names before(const Json& node, const Spec& spec, Names wanted) {
  using Act = FieldRule::Act;
  const Json params = with_defaults(node, spec);
  Names taken;
  bool makes = false;
  for (const FieldRule& rule : spec.rules) {
    const auto in_place = [&](const FieldRule& other) {
      return other.act == Act::takes && other.fields == rule.fields;
    };
    const auto is_wanted = [&](const std::string& name) { return wanted.contains(name); };
    if (rule.act == Act::takes)
      taken.merge(named_by(rule, params));
    else if (rule.act == Act::gives && std::ranges::none_of(spec.rules, in_place))
      makes = makes || std::ranges::any_of(named_by(rule, params), is_wanted);
  }
  if (makes) wanted.merge(std::move(taken));
  return wanted;
}

// The node for the fields `wanted` alone; null where it leaves them as they are.
Json for_image(const Json& node, const Spec& spec, const Names& wanted) {
  Json out = node;
  for (const char* key : {"in", "desc", "on_error", "max_bad", "lane"}) out.erase(key);
  const ParamSpec* keys = spec.find_param("keys");
  if (!keys) return out;
  Json named = node.value("keys", keys->fallback);
  if (named.is_string()) named = Json::array({named});
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < named.size(); ++i)
    if (const Json& key = named[i]; key.is_string() && wanted.contains(key.get<std::string>()))
      kept.push_back(i);
  if (kept.empty()) return nullptr;
  const auto of_kept = [&](const Json& all) {
    Json some = Json::array();
    for (const std::size_t i : kept) some.push_back(all[i]);
    return some;
  };
  out["keys"] = of_kept(named);
  const Json params = with_defaults(node, spec);
  for (const ParamRule& rule : spec.param_rules)  // lists with an entry a key
    if (const Json all = params.value(rule.a, Json()); rule.b == "keys" && all.is_array() &&
                                                       all.size() == named.size() &&
                                                       kept.size() < all.size())
      out[rule.a] = of_kept(all);
  return out;
}

// Of load_image what a case without labels and lists is read by.
Json loading_of(const Json& node, const Spec& spec) {
  Json kept = Json::object();
  for (const auto& [name, value] : node.items()) {
    const ParamSpec* param = spec.find_param(name);
    const bool of_list = name == "keys" || name == "manifest" || name == "allow_missing_keys";
    if (param && !of_list && value != param->fallback) kept[name] = value;
  }
  return kept;
}

// The field that the node `reader` shows its network.
std::string image_of(const Json& reader, const Trained& t) {
  const auto keys = strings_in(reader.value("keys", reader.value("key", Json("image"))));
  if (keys.size() != 1)
    throw DataError(t.folder + ": network \"" + t.name + "\" takes " + std::to_string(keys.size()) +
                    " fields; a prediction shows it one");
  return keys[0];
}

// What one load_image of several reads of the image; null: nothing.
void add_loading(const Json& node, const Spec& spec, Trained& t) {
  if (!node.is_object()) return;
  const auto keys = strings_in(node["keys"]);
  const Json settings = loading_of(node, spec);
  if (!t.keys.empty() && settings != t.loading)
    throw DataError(t.folder + ": two load_image nodes read the images of network \"" + t.name +
                    "\" by other settings; a prediction has one");
  t.loading = settings;
  t.keys.insert(t.keys.begin(), keys.begin(), keys.end());
}

// The transforms from load_image to `reader`, in their order, and what load_image reads of what
// the image of the network is made of.
void follow(const Json& nodes, const std::string& reader, const Catalogue& catalogue, Trained& t) {
  Names wanted{t.image};
  t.keys.clear();
  std::string name = input_of(nodes[reader]);
  for (std::size_t steps = 0; !name.empty() && nodes.contains(name); ++steps) {
    const Json& node = nodes[name];
    const Spec* spec = catalogue.find(node.value("type", ""));
    if (!spec || steps > nodes.size()) break;
    wanted = before(node, *spec, std::move(wanted));
    if (spec->name == "load_image") {
      add_loading(for_image(node, *spec, wanted), *spec, t);
      name = input_of(node);
      continue;
    }
    const bool changes = spec->family == "transform" && spec->arity == Arity::one_to_one;
    if (changes && !spec->is_random)
      if (Json kept = for_image(node, *spec, wanted); kept.is_object())
        t.transforms.push_back(kept);
    name = input_of(node);
  }
  if (t.keys.empty())
    throw DataError(t.folder + ": its graph.json has no load_image of \"" + t.image +
                    "\" in front of \"" + reader + "\"");
  std::reverse(t.transforms.begin(), t.transforms.end());
}

bool keeps_channels(const Spec& spec) {
  using Act = FieldRule::Act;
  return !spec.rules.empty() &&
         std::none_of(spec.rules.begin(), spec.rules.end(), [](const FieldRule& r) {
           const bool cast = r.channels.empty() && !(r.dtype.empty() && r.when.empty());
           return r.act == Act::gives || (r.act == Act::changes && !cast);
         });
}

// How many the network takes, where these are the images' own; else 0.
std::int64_t channels_of_images(const Trained& t, const Catalogue& catalogue) {
  bool joined = t.keys.size() == 1;
  for (const Json& node : t.transforms) {
    const std::string type = node.value("type", "");
    if (type == "concat_items")
      joined = true;
    else if (!keeps_channels(*catalogue.find(type)))
      return 0;
  }
  const Spec* network = catalogue.find(t.network.value("type", ""));
  const ParamSpec* p = network ? network->find_param("in_channels") : nullptr;
  const Json n = joined && p ? t.network.value("in_channels", p->fallback) : Json();
  return n.is_number_integer() ? n.get<std::int64_t>() : 0;
}

// "loss" where it takes each channel for itself, of labels that are not one class a voxel.
std::string overlapping_by(const Json& nodes, const Catalogue& catalogue) {
  for (const auto& [name, node] : nodes.items()) {
    const std::string type = node.value("type", "");
    const Spec* spec = catalogue.find(type);
    if (!spec || spec->family != "loss" || node.value("to_onehot_y", Json()) == true) continue;
    const bool each_channel = type == "bce_with_logits_loss" ||
                              (type == "focal_loss" && node.value("use_softmax", Json()) != true) ||
                              node.value("sigmoid", Json()) == true;
    if (each_channel) return name;
  }
  return "";
}

// roi_size of the sliding window; else the size that images have before the network. What follows
// is written for its logits, so what else a validation asks of the window is left out.
void find_window(const Json& reader, Trained& t) {
  t.window = reader;
  for (const char* key : {"type", "in", "net", "desc", "output_key", "argmax", "sums"})
    t.window.erase(key);
  if (t.window.contains("roi_size")) return;
  Json size = Json::array({64, 64, 64});
  for (const Json& node : t.transforms)
    if (node.contains("spatial_size")) size = node["spatial_size"];
  t.window = {{"roi_size", size}, {"sw_batch_size", 4}, {"overlap", 0.5}, {"mode", "gaussian"}};
  if (t.image != "image") t.window["key"] = t.image;
}

// Nodes one after the other, each called after its type.
struct Chain {
  std::string text, last = "load";
  void add(const Json& node) {
    std::string name = node["type"];
    for (int n = 2; text.find("    " + json_text(name) + ":") != std::string::npos; ++n)
      name = node["type"].get<std::string>() + std::to_string(n);
    Json whole = {{"type", node["type"]}, {"in", last}};
    whole.update(node);
    text +=
        "    " + json_text(name) + ": { " + members_of(whole, "      ", name.size() + 10) + " },\n";
    last = name;
  }
};

// What the folder asks for.
Chain preparation(const Survey& s, const Recipe& r) {
  Chain c;
  if (s.channel_files > 1)
    c.add({{"type", "concat_items"}, {"keys", image_keys(s)}, {"name", "image"}});
  c.add({{"type", "orientation"}, {"keys", "image"}});
  c.add({{"type", "spacing"}, {"keys", "image"}, {"pixdim", r.spacing}});
  c.text += "    // " + r.normalisation_why + "\n";
  Json norm = Json::parse("{" + r.normalisation + "}");
  norm["keys"] = "image";
  c.add(norm);
  return c;
}

std::string pattern_of(const Survey& s) {
  const auto fits = [&](const char* pattern) {
    return std::ranges::all_of(s.training, [&](const DataItem& item) {
      const std::filesystem::path file = item.files.front().second;
      return ::fnmatch(pattern, file.filename().c_str(), FNM_PERIOD) == 0;
    });
  };
  for (const char* pattern : {"*.nii", "*.nii.gz", "*.nii*"})
    if (fits(pattern)) return pattern;
  return "*.[nN][iI][iI]*";
}

std::string prediction_vars(const Survey& s, const Recipe& r, const Trained* trained) {
  std::string text;
  if (s.layout == DataLayout::files) {
    text += "    \"images\": " + json_text(s.images.string()) +
            ",\n    \"pattern\": " + json_text(pattern_of(s)) + ",\n";
  } else {
    text += "    \"root\": " + json_text(s.root.string()) + ",\n";
  }
  if (!trained)
    text +=
        "    // The window: the median volume, made smaller in proportion to 64 x 64 x 64 "
        "voxels where\n    // it is more.\n    \"patch\": " +
        list_of(r.patch) +
        ",\n    // EMPTY: the network is a new one and its segmentations mean nothing. Name a "
        "run's folder,\n    // and make models.net and what stands in front of it as they were "
        "in that run;\n    // `sluice new prediction FOLDER --weights RUN` does so.\n";
  text += "    \"weights\": " + json_text(trained ? trained->folder : "") + "\n";
  return text;
}

// What prediction graphs differ in.
struct Prediction {
  std::string remark;  // lines of comments, without slashes
  std::string name, vars, net = "net", network, source, on_error;
  std::vector<std::string> keys;
  Json loading = Json::object();
  Chain before;
  Json window;
  bool regions = false;
};

// From the network's output on to voxels of the image's own grid.
std::string answer_text(bool regions) {
  if (!regions)
    return R"(    // Back to the grid of the image's file, then one class a voxel.
    "native": { "type": "invert", "in": "host", "keys": "pred", "mode": "bilinear" },
    "label": { "type": "argmax", "in": "native" },
)";
  return R"(    // Regions may overlap: back on the grid of the image's file each is a channel of its own, 1
    // where it is likelier than not.
    "prob": { "type": "activations", "in": "host", "keys": "pred", "sigmoid": true },
    "native": { "type": "invert", "in": "prob", "keys": "pred", "mode": "bilinear" },
    "label": { "type": "as_discrete", "in": "native", "keys": "pred", "threshold": 0.5 },
)";
}

std::string text_of(const Prediction& p) {
  std::string loading;
  for (const auto& [name, value] : p.loading.items())
    loading += ", " + json_text(name) + ": " + value.dump();
  return fmt::format(
      R"({{
{}  "name": {},
  "desc": "A folder of images in, segmentations on the images' own grids out",
  "vars": {{
{}  }},
  "models": {{
    {}: {}
  }},
  "nodes": {{
    "cases": {},
    "load": {{ "type": "load_image", "in": "cases", "keys": {}{}{} }},
{}    // On the GPU where there is one, and back.
    "gpu": {{ "type": "to_device", "in": {} }},
    "infer": {{ {} }},
    "host": {{ "type": "to_device", "in": "infer", "device": "cpu" }},
{}    "save": {{ "type": "save_image", "in": "label", "keys": "pred", "output_dir": "segmentations",
              "output_postfix": "seg", "separate_folder": false, "output_dtype": "uint8" }}
  }}
}}
)",
      p.remark, json_text(p.name), p.vars, json_text(p.net), p.network, p.source, list_of(p.keys),
      loading, p.on_error, p.before.text, json_text(p.before.last),
      members_of(p.window, "      ", 15), answer_text(p.regions));
}

std::string network_of(const Trained& trained, const std::string& weights) {
  Json model = trained.network;
  model["weights"] = weights;
  return "{\n      " + members_of(model, "      ", 6) + "\n    }";
}

Json window_of(const std::string& net, const Json& settings) {
  Json window = {{"type", "sliding_window"}, {"in", "gpu"}, {"net", net}};
  window.update(settings);
  return window;
}

Chain chain_of(const Trained& trained) {
  Chain c;
  for (const Json& node : trained.transforms) c.add(node);
  return c;
}

}  // namespace

Trained read_trained(const fs::path& folder, const Catalogue& catalogue, const std::string& net) {
  Trained t;
  t.folder = folder.string();
  const fs::path file = run_of(folder) / "graph.json";
  if (!fs::exists(file))
    throw DataError(
        file.string() +
        ": no such file; --weights names the folder of a run, or of a checkpoint in it");
  const Json graph = read_json(file);
  const Json models = graph.value("models", Json::object()),
             nodes = graph.value("nodes", Json::object());
  const Reader reader = reader_of(models, nodes, net);
  if (reader.node.empty())
    throw DataError(file.string() + ": has no network " + (net.empty() ? "" : "\"" + net + "\" ") +
                    "that a sliding_window or model node reads");
  t.name = reader.net;
  t.network = models[reader.net];
  for (const char* key : {"weights", "weights_key", "strip_prefix", "partial"})
    t.network.erase(key);
  t.image = image_of(nodes[reader.node], t);
  follow(nodes, reader.node, catalogue, t);
  find_window(nodes[reader.node], t);
  t.channels = channels_of_images(t, catalogue);
  t.regions_by = overlapping_by(nodes, catalogue);
  return t;
}

std::string prediction_graph(const Survey& s, const Recipe& r, const Trained* trained) {
  Prediction p;
  p.keys = trained ? trained->keys : image_keys(s);
  if (trained) p.loading = trained->loading;
  if (p.keys.size() != s.channel_files)
    throw DataError(trained->folder + ": its network's images have " +
                    std::to_string(p.keys.size()) + " files a case, those of " + s.root.string() +
                    " have " + std::to_string(s.channel_files));
  const auto channels = static_cast<std::int64_t>(s.channel_files) * s.geometries.front().channels;
  if (trained && trained->channels > 0 && trained->channels != channels)
    throw DataError(trained->folder + ": its network takes images of " +
                    std::to_string(trained->channels) + " channels, those of " + s.root.string() +
                    " have " + std::to_string(channels));
  p.remark = fmt::format(
      R"(  // Written by `sluice new` after a look at {}:
  // {} cases, median {} voxels of {} mm.
  // {}
)",
      json_text(s.root.string()), s.cases(), size_text(median_size(s)),
      spacing_text(median_spacing(s)),
      trained ? "The network and what stands in front of it are those of " +
                    printable(trained->folder) + "."
              : "Each number's rule stands beside it.");
  p.name = s.name + "_prediction";
  p.regions = trained && !trained->regions_by.empty();
  p.vars = prediction_vars(s, r, trained);
  if (trained) p.net = trained->name;  // by which a checkpoint has its tensors
  p.network = trained ? network_of(*trained, "@weights") : network_text(s, r, true);
  p.source = source_node(s, s.split, false, p.keys);
  if (s.bad > 0) p.on_error = ", \"on_error\": \"quarantine\", \"max_bad\": 1000";
  p.before = trained ? chain_of(*trained) : preparation(s, r);
  p.window = window_of(p.net, trained ? trained->window
                                      : Json{{"roi_size", "@patch"},
                                             {"sw_batch_size", 4},
                                             {"overlap", 0.5},
                                             {"mode", "gaussian"}});
  return text_of(p);
}

std::string package_graph(const Trained& trained, const std::string& name) {
  Prediction p;
  p.remark =
      "  // A package, as `sluice export --package` wrote it: `sluice run` of its folder with\n"
      "  // --set vars.images=FOLDER segments the images there.\n";
  p.name = name;
  p.keys = trained.keys;
  p.loading = trained.loading;
  p.vars =
      "    \"images\": \"images\",\n    // This folder; `sluice run` says which.\n"
      "    \"package\": \".\"\n";
  p.network = network_of(trained, "@package");
  Json patterns = Json::object();
  for (const auto& key : p.keys) patterns[key] = "*_" + key + ".nii*";
  p.source = p.keys.size() == 1
                 ? R"({ "type": "file_list", "root": "@images", "pattern": "*.nii*", "key": )" +
                       json_text(p.keys[0]) + " }"
                 : R"({ "type": "file_patterns", "root": "@images", "patterns": )" +
                       text_of(patterns) + " }";
  p.before = chain_of(trained);
  p.window = window_of(p.net, trained.window);
  return text_of(p);
}

}  // namespace sluice
