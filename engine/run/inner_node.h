// A node inside of another one, {"type": ..., parameters}: made, opened, and fired by its owner.
//
// Invariant: its draws depend on its path in the graph ("augment/1") and the stamp of its firing.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/inner_nodes.h"
#include "engine/run/registry.h"

namespace sluice {

struct InnerNode {
  std::string name;  // "augment/1 (rand_zoom)"
  std::unique_ptr<Node> node;
  std::uint64_t key;
  bool fuses;

  // `check` has said all of this; a node that a test or a tool makes is checked here. `may_stand`:
  // which types its owner takes.
  static InnerNode make(const Json& entry, const std::string& path, OpenContext context,
                        bool (*may_stand)(const Spec&) = &may_stand_inside) {
    const std::string type = entry.is_object() ? entry.value("type", "") : "";
    const Spec* spec = Registry::global().catalogue().find(type);
    if (!spec || !may_stand(*spec))
      throw Error(Exit::usage, path + ": \"" + type + "\" cannot stand inside a node");
    Json params = Json::object();
    for (const auto& [key, value] : entry.items()) {
      if (key == "type") continue;
      const ParamSpec* param = spec->find_param(key);
      if (!param) throw Error(Exit::usage, path + ": \"" + type + "\" has no \"" + key + "\"");
      if (const auto why = param->reject(value))
        throw Error(Exit::usage, path + ": \"" + key + "\": " + why->text);
      params[key] = value;
    }
    for (const ParamSpec& param : spec->params)
      if (param.required && !params.contains(param.name))
        throw Error(Exit::usage, path + ": \"" + type + "\" needs \"" + param.name + "\"");
    context.node = path;
    const bool fuses = spec->fusing != Fuses::no;
    context.leaves = fuses && context.fuse ? Leaves::always : Leaves::nothing;
    InnerNode inner{path + " (" + type + ")", Registry::global().make_node(type, params),
                    random_key(context.seed, path), fuses};
    inner.node->open(context);
    return inner;
  }

  // What it makes of the sample in a firing of its owner's; null where it keeps it back, and says
  // why on `f`. What is wrong with the sample is said with the node's name.
  SamplePtr run(SamplePtr sample, Firing& f) const {
    const std::function<bool()> stopped = [&f] { return f.stopped(); };
    Firing firing(f.stamp(), key, {{std::move(sample)}}, stopped);
    try {
      node->process(firing);
    } catch (const DataError& e) {
      throw DataError(name + ": " + e.what());
    }
    for (auto& [name, value] : firing.logs()) f.log(name, value);
    if (!firing.outs().empty()) return firing.outs().front().sample;
    f.skip(firing.skip_reason());
    return nullptr;
  }
};

}  // namespace sluice
