// Drives one node without a graph, for `sluice apply` and for tests: makes it through the registry,
// checks its parameters as the parser would, hands it one firing and returns what it emitted.
//
// Invariant: the same type, parameters, inputs, stamp and seed give the same outputs; the node's
// path in the graph is its type name.
//
//   auto out = drive("rand_flip", {{"prob", 1.0}}, {sample});          // one in-port, one firing
//   Driver source("file_list", params);                                // or keep the node:
//   for (i = 0; !(fired = source.fire({}, at_index(i))).ended; ++i)    // several firings,
//   source.flush();                                                    // ports, gather, flush
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {

inline Stamp at_index(std::uint64_t index, std::uint32_t epoch = 0) {
  Stamp stamp = Stamp::first(0, epoch, 0);
  stamp.index = index;
  return stamp;
}

// What one firing did.
struct Fired {
  std::vector<Firing::Out> outs;  // port, sample, item
  std::string skip_reason;
  bool ended = false;  // a source said end_epoch()
  std::vector<std::pair<std::string, double>> logs;

  // The samples of one out-port.
  std::vector<Sample> samples(int port = 0) const {
    std::vector<Sample> found;
    for (const auto& out : outs)
      if (out.port == port) found.push_back(*out.sample);
    return found;
  }
};

class Driver {
 public:
  explicit Driver(const std::string& type, const Json& params = Json::object(),
                  OpenContext context = {}) {
    const Spec* spec = Registry::global().catalogue().find(type);
    if (!spec) throw std::logic_error("no such node type: " + type);
    for (const auto& [key, value] : params.items()) {
      const ParamSpec* param = spec->find_param(key);
      if (!param) throw std::logic_error(type + " has no parameter " + key);
      if (auto why = param->reject(value))
        throw std::logic_error(type + "." + key + ": " + why->text);
    }
    if (context.node.empty()) context.node = type;
    key_ = random_key(context.seed, context.node);
    node_ = Registry::global().make_node(type, params);
    node_->open(context);
  }

  Node& node() { return *node_; }

  // One sample for each in-port.
  Fired fire(std::vector<Sample> inputs, const Stamp& stamp = at_index(0)) {
    std::vector<std::vector<SamplePtr>> ports;
    for (auto& sample : inputs) ports.push_back({share(std::move(sample))});
    return fire_ports(std::move(ports), stamp);
  }
  // A gather node's group at its one in-port.
  Fired gather(std::vector<Sample> members, const Stamp& stamp = at_index(0)) {
    std::vector<SamplePtr> port;
    for (auto& sample : members) port.push_back(share(std::move(sample)));
    return fire_ports({std::move(port)}, stamp);
  }
  Fired fire_ports(std::vector<std::vector<SamplePtr>> ports, const Stamp& stamp) {
    const std::function<bool()> stopped = [] { return false; };
    Firing firing(stamp, key_, std::move(ports), stopped);
    node_->process(firing);
    firing.emit_rest();
    return {std::move(firing.outs()), firing.skip_reason(), firing.epoch_ended(),
            std::move(firing.logs())};
  }
  // The end of an epoch; returns the metrics.
  std::vector<std::pair<std::string, double>> flush(std::uint32_t epoch = 0) {
    Flush end{epoch, {}};
    node_->flush(end);
    return std::move(end.metrics);
  }

 private:
  static SamplePtr share(Sample sample) {
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::unique_ptr<Node> node_;
  std::uint64_t key_ = 0;
};

// One firing of a fresh node; the samples of its first out-port.
inline std::vector<Sample> drive(const std::string& type, const Json& params,
                                 std::vector<Sample> inputs, const Stamp& stamp = at_index(0),
                                 std::uint64_t seed = 0) {
  OpenContext context;
  context.seed = seed;
  return Driver(type, params, context).fire(std::move(inputs), stamp).samples();
}

}  // namespace sluice
