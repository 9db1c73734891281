// Wires: what every `in` and `after` refers to, disabled nodes, cycles.
#include <algorithm>

#include "engine/graph_reader.h"

namespace sluice::reading {
namespace {

std::string list_ports(const std::vector<std::string>& ports) {
  std::string out;
  for (const auto& port : ports) out += (out.empty() ? "\"" : ", \"") + port + "\"";
  return out;
}

// The form that would have been right: {"image": "a", "label": "b"}.
std::string in_form(const Json& found, const std::vector<std::string>& ports) {
  if (ports.empty()) return "";
  std::string out;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const bool has_name = found.is_array() && i < found.size() && found[i].is_string();
    if (found.is_array() && i >= found.size()) break;
    out += (i ? ", \"" : "\"") + ports[i] + "\": " + (has_name ? found[i].dump() : "\"node\"");
  }
  return "name the ports: {" + out + "}";
}

}  // namespace

std::vector<std::pair<int, Ref>> read_inputs(const Reading& reading, const Written& written,
                                             const std::string& prefix,
                                             const std::vector<std::string>& ports,
                                             const std::string& owner, std::set<int>& mentioned) {
  std::vector<std::pair<int, Ref>> inputs;
  const Field* field = written.find("in");
  if (!field) return inputs;
  const std::string path = written.path + ".in";
  if (!field->value) {
    for (int i = 0; i < static_cast<int>(ports.size()); ++i) mentioned.insert(i);
    return inputs;
  }
  const Json& in = *field->value;
  if (in.is_string()) {
    if (ports.empty()) return inputs;  // its owner says so
    mentioned.insert(0);
    inputs.emplace_back(0, Ref{in.get<std::string>(), prefix, field->place, path});
  } else if (in.is_object()) {
    for (const auto& [port, ref] : in.items()) {
      const Place place = field->place.child(port);
      const auto at = std::find(ports.begin(), ports.end(), port);
      const int index = static_cast<int>(at - ports.begin());
      if (at == ports.end()) {
        if (ports.empty()) continue;
        const std::string hint = did_you_mean(port, ports);
        reading.error("SL0303", owner + " has no input \"" + port + "\"", place.key(),
                      path + "." + port, hint.empty() ? "it has " + list_ports(ports) : hint);
        continue;
      }
      mentioned.insert(index);
      if (ref.is_string())
        inputs.emplace_back(index, Ref{ref.get<std::string>(), prefix, place, path + "." + port});
      else
        reading.error("SL0305", "expected \"node\" or \"node.port\", found " + describe_json(ref),
                      place, path + "." + port);
    }
  } else {
    for (int i = 0; i < static_cast<int>(ports.size()); ++i) mentioned.insert(i);
    reading.error_at(
        *field, "SL0305",
        "\"in\" is \"node\", \"node.port\" or {\"port\": \"node.port\"}, not " + describe_json(in),
        path, in_form(in, ports));
  }
  return inputs;
}

namespace {

class Wiring {
 public:
  Wiring(const Reading& reading, const Expanded& expanded, std::vector<GraphNode>& nodes,
         const std::vector<bool>& disabled)
      : reading_(reading),
        written_(expanded.nodes),
        names_(expanded.names),
        nodes_(nodes),
        disabled_(disabled),
        bypass_(nodes.size()),
        ports_(nodes.size()) {}

  void run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].spec) refs(i);
    for (std::size_t i = 0; i < nodes_.size(); ++i) connect(i);
    for (const auto& [name, meaning] : names_) {
      for (const auto& [port, ref] : meaning.outs) resolve(ref);
      if (meaning.outer) resolve(*meaning.outer);
    }
    remove_disabled();
    cycles();
  }

 private:
  static std::vector<std::string> names_of(const std::vector<PortSpec>& ports) {
    std::vector<std::string> names;
    for (const auto& p : ports) names.push_back(p.name);
    return names;
  }

  // The references in a node's `in`, and what a disabled node stands for.
  void refs(std::size_t i) {
    const Spec& spec = *nodes_[i].spec;
    const WrittenNode& written = written_[i];
    const std::string owner = "\"" + spec.name + "\"";
    std::set<int> mentioned;
    ports_[i] =
        read_inputs(reading_, written, written.prefix, names_of(spec.ins), owner, mentioned);
    if (spec.ins.empty() && written.find("in"))
      reading_.error("SL0307", owner + " is a source and takes no input",
                     written.find("in")->place.key(), written.path + ".in");
    for (std::size_t p = 0; p < spec.ins.size(); ++p)
      if (!spec.ins[p].optional && !mentioned.count(static_cast<int>(p)))
        reading_.error(
            "SL0304", "input \"" + spec.ins[p].name + "\" of " + owner + " is not connected",
            written.place.key(), written.path, spec.ins.size() == 1 ? "add \"in\": \"...\"" : "");
    if (!disabled_[i] || spec.outs.empty()) return;
    if (spec.ins.size() == 1 && spec.outs.size() == 1) {
      if (!ports_[i].empty()) bypass_[i] = ports_[i].front().second;
      return;
    }
    reading_.error_at(*written.find("disabled"), "SL0309",
                      "\"" + nodes_[i].path + "\" cannot be disabled: " + owner + " has " +
                          std::to_string(spec.ins.size()) + " inputs and " +
                          std::to_string(spec.outs.size()) + " outputs",
                      written.path + ".disabled",
                      "only a node with one of each, or a sink, can be");
  }

  void connect(std::size_t i) {
    for (const auto& [port, ref] : ports_[i]) {
      const Target target = resolve(ref);
      if (target.node >= 0) nodes_[i].inputs.push_back({port, target.node, target.port, ref.place});
    }
    std::sort(nodes_[i].inputs.begin(), nodes_[i].inputs.end(),
              [](const GraphInput& a, const GraphInput& b) { return a.port < b.port; });
    after(i);
  }

  // ---- references -------------------------------------------------------------------------------

  // Follows a reference through parts, their inputs and disabled nodes to the node that emits.
  Target resolve(Ref ref) {
    const std::size_t limit = 4 * names_.size() + 16;  // further only by going round in circles
    for (std::size_t step = 0; step < limit; ++step) {
      const auto dot = ref.text.find('.');
      const std::string name = ref.text.substr(0, dot);
      const std::string port = dot == std::string::npos ? "" : ref.text.substr(dot + 1);
      const auto at = names_.find(ref.prefix + name);
      if (at == names_.end()) {
        unknown(ref, name);
        return {};
      }
      std::optional<Ref> next;
      switch (at->second.kind) {
        case Name::Kind::faulty:
          return {};
        case Name::Kind::node: {
          const Target target = out_port(at->second.node, name, port, ref);
          if (target.node < 0 || !bypassed(target.node)) return target;
          next = bypass_[static_cast<std::size_t>(target.node)];
          break;
        }
        case Name::Kind::part:
          next = part_out(at->second, name, port, ref);
          break;
        case Name::Kind::input:
          next = at->second.outer;
          if (next && !port.empty()) next = with_port(*next, port, ref);
      }
      if (!next) return {};
      ref = std::move(*next);
    }
    reading_.error("SL0306", "\"" + ref.text + "\" leads back to itself", ref.place, ref.path);
    return {};
  }

  bool bypassed(int node) const {
    const auto i = static_cast<std::size_t>(node);
    return disabled_[i] && nodes_[i].spec->ins.size() == 1;
  }

  Target out_port(int node, const std::string& name, const std::string& port, const Ref& ref) {
    const Spec* spec = nodes_[static_cast<std::size_t>(node)].spec;
    if (!spec) return {};
    if (spec->outs.empty()) {
      reading_.error("SL0308", "\"" + name + "\" (" + spec->name + ") has no output to read from",
                     ref.place, ref.path);
      return {};
    }
    const int index = port.empty() ? 0 : spec->find_out(port);
    if (index < 0) {
      const auto known = names_of(spec->outs);
      const std::string hint = did_you_mean(port, known);
      reading_.error("SL0302",
                     "\"" + name + "\" (" + spec->name + ") has no output \"" + port + "\"",
                     ref.place, ref.path, hint.empty() ? "it has " + list_ports(known) : hint);
      return {};
    }
    return {node, index};
  }

  // "pre" is the part's first out, "pre.port" the one of that name, or, where the part's one out is
  // a plain node, that node's port.
  std::optional<Ref> part_out(const Name& part, const std::string& name, const std::string& port,
                              const Ref& ref) {
    if (part.outs.empty()) {
      reading_.error("SL0308", "part \"" + name + "\" has no \"out\" to read from", ref.place,
                     ref.path);
      return std::nullopt;
    }
    if (port.empty()) return part.outs.front().second;
    std::vector<std::string> known;
    for (const auto& [out, inner] : part.outs) {
      if (out == port) return inner;
      if (!out.empty()) known.push_back(out);
    }
    if (known.empty()) return with_port(part.outs.front().second, port, ref);
    const std::string hint = did_you_mean(port, known);
    reading_.error("SL0302", "part \"" + name + "\" has no output \"" + port + "\"", ref.place,
                   ref.path, hint.empty() ? "it has " + list_ports(known) : hint);
    return std::nullopt;
  }

  // The same node's other port; what is wrong with it is wrong where the port was asked for.
  std::optional<Ref> with_port(Ref inner, const std::string& port, const Ref& asked) {
    if (inner.text.find('.') != std::string::npos) {
      reading_.error("SL0302", "\"" + asked.text + "\": that output has no ports", asked.place,
                     asked.path);
      return std::nullopt;
    }
    inner.text += "." + port;
    inner.place = asked.place;
    inner.path = asked.path;
    return inner;
  }

  void unknown(const Ref& ref, const std::string& name) {
    std::vector<std::string> known;
    for (const auto& [full, meaning] : names_)
      if (full.starts_with(ref.prefix) && full.size() > ref.prefix.size())
        known.push_back(full.substr(ref.prefix.size()));
    std::string hint = did_you_mean(name, known);
    if (!ref.prefix.empty() && names_.count(name))
      hint = "inside a part only its own nodes and inputs can be named";
    reading_.error("SL0301", "no node is called \"" + name + "\"", ref.place, ref.path, hint);
  }

  // ---- after ------------------------------------------------------------------------------------

  void after(std::size_t i) {
    GraphNode& node = nodes_[i];
    const WrittenNode& written = written_[i];
    const Field* field = written.find("after");
    const Field* every = written.find("every_epochs");
    if (every && !field)
      reading_.error("SL0312", "\"every_epochs\" has no meaning without \"after\"",
                     every->place.key(), written.path + ".every_epochs");
    if (!field || node.after.empty()) return;
    const std::string path = written.path + ".after";
    if (node.spec && node.spec->arity != Arity::source)
      reading_.error("SL0310", "only a source can wait: \"" + node.path + "\" is no source",
                     field->place.key(), path, "put \"after\" on the source of its stream");
    const auto at = names_.find(written.prefix + node.after);
    const bool is_node = at != names_.end() && at->second.kind == Name::Kind::node;
    if (is_node && !disabled_[static_cast<std::size_t>(at->second.node)]) {
      node.after = written.prefix + node.after;
      return;
    }
    std::vector<std::string> known;
    for (const auto& [name, meaning] : names_)
      if (meaning.kind == Name::Kind::node && name.starts_with(written.prefix))
        known.push_back(name.substr(written.prefix.size()));
    reading_.error_at(*field, "SL0311",
                      is_node ? "\"after\" names \"" + node.after + "\", which is disabled"
                              : "\"after\" names no node: \"" + node.after + "\"",
                      path, is_node ? "" : did_you_mean(node.after, known));
  }

  // ---- disabled nodes and cycles ----------------------------------------------------------------

  void remove_disabled() {
    std::vector<int> moved(nodes_.size(), -1);
    int kept = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!disabled_[i]) moved[i] = kept++;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (disabled_[i]) continue;
      auto& inputs = nodes_[i].inputs;
      for (GraphInput& in : inputs) in.from = moved[static_cast<std::size_t>(in.from)];
      std::erase_if(inputs, [](const GraphInput& in) { return in.from < 0; });
      const auto to = static_cast<std::size_t>(moved[i]);
      if (to != i) nodes_[to] = std::move(nodes_[i]);
    }
    nodes_.resize(static_cast<std::size_t>(kept));
    if (kept == 0 && !moved.empty() && reading_.diagnostics.ok())
      reading_.error("SL0210", "every node is disabled", {reading_.document, "/nodes"}, "nodes");
  }

  // Takes away nodes that nothing unplaced feeds until only cycles and what hangs on them are left;
  // reports one, takes it away, and goes on.
  void cycles() {
    std::vector<std::vector<int>> outs(nodes_.size());
    std::vector<std::size_t> waits(nodes_.size());
    std::vector<int> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      waits[i] = nodes_[i].inputs.size();
      for (const GraphInput& in : nodes_[i].inputs)
        outs[static_cast<std::size_t>(in.from)].push_back(static_cast<int>(i));
      if (waits[i] == 0) ready.push_back(static_cast<int>(i));
    }
    std::vector<bool> placed(nodes_.size());
    for (std::size_t next = 0; next <= nodes_.size();) {
      while (!ready.empty()) {
        const auto i = static_cast<std::size_t>(ready.back());
        ready.pop_back();
        if (placed[i]) continue;
        placed[i] = true;
        for (int o : outs[i])
          if (--waits[static_cast<std::size_t>(o)] == 0) ready.push_back(o);
      }
      while (next < nodes_.size() && placed[next]) ++next;
      if (next == nodes_.size()) return;
      ready = cycle(static_cast<int>(next), placed);
    }
  }

  // Walks against the edges from a node that is never fed until it meets itself; reports the cycle
  // and returns its nodes.
  std::vector<int> cycle(int from, const std::vector<bool>& placed) {
    std::vector<int> walk;
    std::vector<bool> seen(nodes_.size());
    int i = from;
    while (!seen[static_cast<std::size_t>(i)]) {
      seen[static_cast<std::size_t>(i)] = true;
      walk.push_back(i);
      for (const GraphInput& in : nodes_[static_cast<std::size_t>(i)].inputs)
        if (!placed[static_cast<std::size_t>(in.from)]) {
          i = in.from;
          break;
        }
    }
    std::vector<int> round(std::find(walk.begin(), walk.end(), i), walk.end());
    std::reverse(round.begin(), round.end());
    std::rotate(round.begin(), std::min_element(round.begin(), round.end()), round.end());
    report(round);
    return round;
  }

  void report(const std::vector<int>& round) {
    std::string names, places;
    for (int i : round) {
      const GraphNode& node = nodes_[static_cast<std::size_t>(i)];
      names += node.path + " -> ";
      places += (places.empty() ? "" : ", ") + node.path + " at " + node.place.str();
    }
    const GraphNode& first = nodes_[static_cast<std::size_t>(round.front())];
    // Point at the input that closes the circle.
    Place place = first.place;
    for (const GraphInput& in : first.inputs)
      if (in.from == round.back()) place = in.place;
    reading_.diagnostics.add({Severity::error,
                              "SL0306",
                              "cycle: " + names + first.path,
                              place,
                              "nodes." + first.path + ".in",
                              "",
                              {places}});
  }

  const Reading& reading_;
  const std::vector<WrittenNode>& written_;
  const std::map<std::string, Name, std::less<>>& names_;
  std::vector<GraphNode>& nodes_;
  const std::vector<bool>& disabled_;
  std::vector<std::optional<Ref>> bypass_;               // by node: what it stands for
  std::vector<std::vector<std::pair<int, Ref>>> ports_;  // by node
};

}  // namespace

void connect(const Reading& reading, const Expanded& expanded, std::vector<GraphNode>& nodes,
             const std::vector<bool>& disabled) {
  Wiring(reading, expanded, nodes, disabled).run();
}

}  // namespace sluice::reading
