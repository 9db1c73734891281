// layers: a network written in JSON, as a graph of MONAI's blocks and PyTorch's layers.
//
//   "net": { "type": "layers", "spatial_dims": 2, "in_channels": 1, "out_channels": 3,
//            "layers": { "stem":  { "type": "convolution", "in": "image", "out_channels": 8 },
//                        "unit":  { "type": "residual_unit", "in": "stem", "out_channels": 8 },
//                        "sum":   { "type": "add", "in": ["stem", "unit"] },
//                        "final": { "type": "conv", "in": "sum", "out_channels": 3 } } }
//
// Invariant: a layer's name is what its parameters' names begin with, and layers are made in the
// file's order as far as what they read allows. So the same blocks under the same names are the
// same network, to the bit, as one written in C++.
#include <algorithm>
#include <map>
#include <set>

#include "engine/base/diagnostic.h"
#include "engine/graph/check_members.h"
#include "nodes/network/layer_types.h"

namespace sluice {
namespace {

// Makes the values of a network's layers, each once.
class LayerGraph {
 public:
  LayerGraph(const Scope& scope, const Json& layers, const Values& images)
      : scope_(scope), layers_(layers) {
    if (!layers.is_object() || layers.empty())
      throw Error(Exit::usage, "\"layers\" is an object {\"name\": {\"type\": ..., \"in\": ...}}");
    values_["image"] = images[0];
    if (layers.contains("image"))
      throw Error(Exit::usage, "layers.image: the name stands for the network's input");
    for (const auto& [name, layer] : layers.items()) value(name, "");
  }

  const Value& value(const std::string& name, const std::string& reader) {
    if (!reader.empty()) read_.insert(name);
    if (const auto made = values_.find(name); made != values_.end()) return made->second;
    if (!layers_.contains(name)) refuse_name(name, reader);
    if (!under_way_.insert(name).second)
      throw Error(Exit::usage, "layers." + name + ": it reads itself, by way of " + reader);
    const Value made = make(name, layers_.at(name));
    under_way_.erase(name);
    return values_.emplace(name, made).first->second;
  }

  // Layers that are made for nobody.
  void require_all_read() const {
    for (const auto& [name, layer] : layers_.items())
      if (!read_.count(name))
        throw Error(Exit::usage, "layers." + name + ": nobody reads it, and it is no output");
  }

 private:
  [[noreturn]] void refuse_name(const std::string& name, const std::string& reader) const {
    std::vector<std::string> known{"image"};
    for (const auto& [other, layer] : layers_.items()) known.push_back(other);
    const std::string hint = did_you_mean(name, known);
    throw Error(Exit::usage, reader + ": no layer is called \"" + name + "\"" +
                                 (hint.empty() ? "" : "; " + hint));
  }

  Value make(const std::string& name, const Json& layer) {
    const std::string at = "layers." + name;
    if (!layer.is_object() || !layer.contains("type") || !layer["type"].is_string())
      throw Error(Exit::usage, at + ": expected {\"type\": ..., \"in\": ...}");
    const LayerType& type = type_of(at, layer["type"]);
    LayerParams params;
    check(at, type.spec, layer);
    type.spec.apply(&params, layer);
    Values inputs;
    const Json in = layer.value("in", Json());
    for (const Json& one : in.is_array() ? in : Json::array({in})) {
      if (!one.is_string())
        throw Error(Exit::usage, at + ".in: expected a layer's name, found " + describe_json(one));
      inputs.push_back(value(one, at + ".in"));
    }
    if (inputs.size() < type.least || inputs.size() > type.most)
      throw Error(Exit::usage, at + ".in: " + type.spec.name + " reads " +
                                   std::to_string(type.least) +
                                   (type.most > type.least ? " or more" : "") + ", found " +
                                   std::to_string(inputs.size()));
    try {
      return type.make(scope_ / name, inputs, params);
    } catch (const std::exception& e) {
      throw Error(Exit::usage, at + ": " + e.what());
    }
  }

  static const LayerType& type_of(const std::string& at, const std::string& name) {
    std::vector<std::string> known;
    for (const LayerType& t : layer_types()) {
      if (t.spec.name == name) return t;
      known.push_back(t.spec.name);
    }
    std::string hint = did_you_mean(name, known);
    if (hint.empty())
      for (const auto& k : known) hint += (hint.empty() ? "there are " : ", ") + k;
    throw Error(Exit::usage, at + ": no layer type is called \"" + name + "\"; " + hint);
  }

  static void check(const std::string& at, const Spec& spec, const Json& layer) {
    check_members(layer, spec, at, spec.name + " has no argument", {"type", "in", "desc"});
    for (const ParamSpec& p : spec.params)
      if (p.required && !layer.contains(p.name))
        throw Error(Exit::usage, at + ": " + spec.name + " needs \"" + p.name + "\"");
  }

  Scope scope_;
  const Json& layers_;
  std::map<std::string, Value> values_;
  std::set<std::string> read_, under_way_;
};

struct Layers final : ImageNetwork<Layers> {
  static constexpr int least_axes = 1;
  struct Params : ImageNet {
    Json layers = Json::object();
    std::vector<std::string> outputs;
    bool channels_last = true;
  } p;

  static std::vector<Spec> specs() {
    std::vector<Spec> all;
    for (const LayerType& type : layer_types()) all.push_back(type.spec);
    return all;
  }

  static Spec spec() {
    return image_net<Params>("layers", "A network of your own, written as a graph of layers.")
        .param(
            "layers", &Params::layers,
            "\"name\": {\"type\": ..., \"in\": a layer's name or a list, arguments}; \"image\" is "
            "the input. `graphs/README.md` lists the types.")
        .required()
        .members(specs())
        .param("outputs", &Params::outputs,
               "Layers whose values are the outputs, the main one first; none: the last layer.")
        .param("channels_last", &Params::channels_last, "Memory layout; faster, same results.");
  }

  bool recordable() const override {
    for (const LayerType& type : layer_types())
      for (const auto& [name, layer] : p.layers.items())
        if (!type.recordable && layer["type"] == type.spec.name) return false;
    return BuiltNetwork::recordable();
  }

  Values build(const Scope& s, const Value& x) const {
    LayerGraph graph(s, p.layers, {x});
    std::vector<std::string> names = p.outputs;
    if (names.empty())
      for (const auto& [name, layer] : p.layers.items()) names = {name};
    Values out;
    for (const auto& name : names) out.push_back(graph.value(name, "outputs"));
    graph.require_all_read();
    if (out[0].channels != p.out_channels)
      refuse("layers." + names[0] + " makes " + std::to_string(out[0].channels) +
             " channels, and out_channels is " + std::to_string(p.out_channels));
    return out;
  }
};

const RegisterNetwork<Layers> registered;

}  // namespace
}  // namespace sluice
