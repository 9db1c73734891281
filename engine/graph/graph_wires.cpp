// Wires: what every `in` and `after` refers to, disabled nodes, cycles.
#include <algorithm>

#include "engine/graph/graph_reader.h"

namespace sluice::reading {
namespace {

// The form that would have been right: {"image": "a", "label": "b"}.
std::string in_form(const Json& found, const std::vector<std::string>& ports) {
  if (ports.empty()) return "";
  const auto named = [&](std::size_t i) {
    return found.is_array() && i < found.size() && found[i].is_string() ? found[i].dump()
                                                                        : "\"NODE\"";
  };
  if (ports.size() == 1 && found.is_array() && found.size() > 1)
    return "there is one input, \"" + ports.front() + "\"";
  if (ports.size() == 1) return "write \"in\": " + named(0);
  std::string out;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (found.is_array() && i >= found.size()) break;
    out += (i ? ", \"" : "\"") + ports[i] + "\": " + named(i);
  }
  return "name the ports: {" + out + "}";
}

}  // namespace

bool is_input_form(const Reading& reading, const Field& in, const std::vector<std::string>& ports,
                   const std::string& path) {
  const Json& value = *in.value;
  if (value.is_string()) return true;
  if (!value.is_object()) {
    reading.error_at(in, value.is_array() ? "SL0316" : "SL0305",
                     "\"in\" is \"node\", \"node.port\" or {\"port\": \"node.port\"}, not " +
                         describe_json(value),
                     path, in_form(value, ports));
    return false;
  }
  bool good = true;
  for (const auto& [port, ref] : value.items())
    if (!ref.is_string()) {
      good = false;
      reading.error_at(in, "SL0305",
                       "expected \"node\" or \"node.port\", found " + describe_json(ref),
                       path + "." + port, "", Place{nullptr, ""}.child(port).pointer);
    }
  return good;
}

std::vector<std::pair<int, Ref>> read_inputs(const Reading& reading, const Written& written,
                                             const std::string& prefix,
                                             const std::vector<std::string>& ports,
                                             const std::string& owner, std::set<int>& mentioned,
                                             const char* unknown_port) {
  std::vector<std::pair<int, Ref>> inputs;
  const Field* field = written.find("in");
  if (!field) return inputs;
  const std::string path = written.path + ".in";
  const bool readable = field->value && is_input_form(reading, *field, ports, path);
  if (!readable && !(field->value && field->value->is_object())) {
    for (int i = 0; i < static_cast<int>(ports.size()); ++i) mentioned.insert(i);
    return inputs;
  }
  if (ports.empty()) return inputs;  // its owner says so
  if (field->value->is_string()) {
    mentioned.insert(0);
    inputs.emplace_back(0, Ref{field->value->get<std::string>(), prefix, field->place, path});
    return inputs;
  }
  std::vector<std::string> free;  // ports that the object does not name
  for (const auto& port : ports)
    if (!field->value->contains(port)) free.push_back(port);
  for (const Field& member : field->members()) {
    std::string port = member.key;
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) {
      const std::string meant = nearest(port, ports);
      const Place place = field->origin("") ? member.place : member.place.key();
      Diagnostic& d = reading.error(
          unknown_port, owner + " has no input \"" + port + "\"", place, path + "." + port,
          meant.empty() ? "it has " + listed(ports) : "did you mean \"" + meant + "\"?");
      d.indirect = field->origin("") != nullptr;
      // What is not connected is what was meant.
      for (const auto& name : free)
        mentioned.insert(
            static_cast<int>(std::find(ports.begin(), ports.end(), name) - ports.begin()));
      if (std::find(free.begin(), free.end(), meant) == free.end()) continue;
      port = meant;
    }
    const int index = static_cast<int>(std::find(ports.begin(), ports.end(), port) - ports.begin());
    mentioned.insert(index);
    if (member.value->is_string())
      inputs.emplace_back(index, Ref{member.value->get<std::string>(), prefix, member.place,
                                     path + "." + member.key});
  }
  return inputs;
}

void not_connected(const Reading& reading, const Written& written, const char* code,
                   const std::vector<std::string>& lacking, const std::string& owner,
                   const std::vector<std::string>& ports) {
  const Field* in = written.find("in");
  const Json given = in && in->value ? *in->value : Json();
  std::string form;
  for (const auto& port : ports) {
    const bool first = given.is_string() && port == ports.front();
    const Json from = first                                       ? given
                      : given.is_object() && given.contains(port) ? given[port]
                                                                  : Json("NODE");
    form += (form.empty() ? "\"" : ", \"") + port + "\": " + from.dump();
  }
  const std::string hint =
      ports.size() == 1 ? "add \"in\": \"NODE\"" : "write \"in\": {" + form + "}";
  const std::string message = (lacking.size() == 1 ? "input " : "inputs ") + listed(lacking) +
                              " of " + owner + (lacking.size() == 1 ? " is" : " are") +
                              " not connected";
  if (in && in->value)
    reading.error_at(*in, code, message, written.path + ".in", hint);
  else
    reading.error(code, message, written.place.key(), written.path, hint);
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
        partial_(expanded.partial),
        bypass_(nodes.size()),
        ports_(nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      removed_.push_back(disabled[i] || expanded.nodes[i].rehearsed);
  }

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
    if (spec.ins.empty()) {
      if (const Field* in = written.find("in"))
        reading_.error("SL0307", owner + " is a source and takes no input", in->place.key(),
                       written.path + ".in", "\"after\" makes it wait for an updater's epochs");
      if (disabled_[i]) bypass(i, spec, written);
      return;
    }
    std::set<int> mentioned;
    ports_[i] =
        read_inputs(reading_, written, written.prefix, names_of(spec.ins), owner, mentioned);
    std::vector<std::string> lacking, needed;
    for (std::size_t p = 0; p < spec.ins.size(); ++p) {
      if (spec.ins[p].optional && !mentioned.count(static_cast<int>(p))) continue;
      needed.push_back(spec.ins[p].name);
      if (!mentioned.count(static_cast<int>(p))) lacking.push_back(spec.ins[p].name);
    }
    if (!lacking.empty()) not_connected(reading_, written, "SL0304", lacking, owner, needed);
    if (disabled_[i] && !spec.outs.empty()) bypass(i, spec, written);
  }

  void bypass(std::size_t i, const Spec& spec, const WrittenNode& written) {
    if (spec.ins.size() == 1 && spec.outs.size() == 1) {
      if (!ports_[i].empty()) bypass_[i] = ports_[i].front().second;
      return;
    }
    const bool source = spec.ins.empty();
    reading_.error_at(*written.find("disabled"), source ? "SL0317" : "SL0309",
                      "\"" + nodes_[i].path + "\" cannot be disabled: \"" + spec.name + "\" " +
                          (source ? "is a source"
                                  : "has " + counted(spec.ins.size(), "input") + " and " +
                                        counted(spec.outs.size(), "output")),
                      written.path + ".disabled",
                      source ? "disable the sinks behind it, or take the nodes out"
                             : "only a node with one of each, or a sink, can be");
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
      if (at == names_.end() || !is_name(name, true)) {
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
      const auto& inputs = ports_[static_cast<std::size_t>(node)];
      reading_.error("SL0308", "\"" + name + "\" (" + spec->name + ") has no output to read from",
                     ref.place, ref.path,
                     inputs.empty()
                         ? ""
                         : "it ends its stream; it reads \"" + inputs.front().second.text + "\"");
      return {};
    }
    const int index = port.empty() ? 0 : spec->find_out(port);
    if (index < 0) {
      const auto known = names_of(spec->outs);
      const std::string hint = did_you_mean(port, known);
      reading_.error("SL0302",
                     "\"" + name + "\" (" + spec->name + ") has no output \"" + port + "\"",
                     ref.place, ref.path, hint.empty() ? "it has " + listed(known) : hint);
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
                   ref.path, hint.empty() ? "it has " + listed(known) : hint);
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

  // Names that can be written after a prefix.
  template <class Wanted>
  std::vector<std::string> names_behind(const std::string& prefix, Wanted&& wanted) const {
    std::vector<std::string> known;
    for (auto at = names_.lower_bound(prefix); at != names_.end() && at->first.starts_with(prefix);
         ++at)
      if (at->first.size() > prefix.size() && is_name(at->first.substr(prefix.size()), true) &&
          wanted(at->second))
        known.push_back(at->first.substr(prefix.size()));
    return known;
  }

  void unknown(const Ref& ref, const std::string& name) {
    if (names_.count(ref.prefix + ref.text) || partial_.count(ref.prefix)) return;  // said already
    // All nodes of a part that read its input come here by one reference.
    if (!unknown_.insert(ref.prefix + '\n' + ref.path + '\n' + ref.text).second) return;
    const std::string close = nearest(
        name, names_behind(ref.prefix, [](const Name& n) { return n.kind != Name::Kind::faulty; }));
    std::string code = "SL0301", message = "no node is called \"" + name + "\"", hint;
    if (!ref.prefix.empty() && names_.count(name)) {
      code = "SL0324";
      message = "\"" + name + "\" cannot be seen from inside a part";
      hint = "name it in the part's \"in\", and connect it where the part is used";
    } else if (reading_.model_names.count(name)) {
      code = "SL0315";
      message = "\"" + name + "\" is a network, not a node";
      hint = "a \"model\" node runs it: {\"type\": \"model\", \"net\": \"" + name + "\"}";
    } else if (!close.empty()) {
      hint = "did you mean \"" + close + "\"?";
    } else if (name.empty()) {
      message = "an empty name names no node";
    }
    reading_.diagnostics.error_once(code, message, ref.place, ref.path, hint, ref.prefix);
  }

  // ---- after ------------------------------------------------------------------------------------

  void after(std::size_t i) {
    GraphNode& node = nodes_[i];
    const WrittenNode& written = written_[i];
    const Field* field = written.find("after");
    const Field* every = written.find("every_epochs");
    if (every && !field)
      reading_.error("SL0312", "\"every_epochs\" has no meaning without \"after\"",
                     every->place.key(), written.path + ".every_epochs",
                     "add \"after\": the node that updates the network");
    if (!field) return;
    const std::string path = written.path + ".after";
    if (node.spec && node.spec->arity != Arity::source) {
      reading_.error("SL0310", "only a source can wait: \"" + node.path + "\" is no source",
                     field->place.key(), path, "put \"after\" on the source of its stream");
      return;
    }
    if (!field->value || !field->value->is_string()) return;  // said already
    const auto at = names_.find(written.prefix + node.after);
    const bool is_node = at != names_.end() && at->second.kind == Name::Kind::node;
    if (is_node && !disabled_[static_cast<std::size_t>(at->second.node)]) {
      node.after = written.prefix + node.after;
      return;
    }
    if (at != names_.end() && at->second.kind == Name::Kind::faulty) return;
    if (is_node) {
      reading_.error_at(*field, "SL0320",
                        "\"after\" names \"" + node.after + "\", which is disabled", path,
                        "nothing would ever run this stream");
      return;
    }
    const auto known =
        names_behind(written.prefix, [](const Name& n) { return n.kind == Name::Kind::node; });
    reading_.error_at(*field, "SL0311", "\"after\" names no node: \"" + node.after + "\"", path,
                      did_you_mean(node.after, known));
  }

  // ---- disabled nodes and cycles ----------------------------------------------------------------

  void remove_disabled() {
    std::vector<int> moved(nodes_.size(), -1);
    int kept = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!removed_[i]) moved[i] = kept++;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (removed_[i]) continue;
      auto& inputs = nodes_[i].inputs;
      for (GraphInput& in : inputs) in.from = moved[static_cast<std::size_t>(in.from)];
      std::erase_if(inputs, [](const GraphInput& in) { return in.from < 0; });
      const auto to = static_cast<std::size_t>(moved[i]);
      if (to != i) nodes_[to] = std::move(nodes_[i]);
    }
    nodes_.resize(static_cast<std::size_t>(kept));
    if (kept == 0 && reading_.diagnostics.ok())
      reading_.error("SL0323", "every node is disabled", reading_.top.place("nodes").key(),
                     "nodes");
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
  std::vector<bool> removed_;  // disabled, or of a part that nothing uses
  const std::set<std::string>& partial_;
  std::set<std::string> unknown_;                        // references that were answered
  std::vector<std::optional<Ref>> bypass_;               // by node: what it stands for
  std::vector<std::vector<std::pair<int, Ref>>> ports_;  // by node
};

}  // namespace

void connect(const Reading& reading, const Expanded& expanded, std::vector<GraphNode>& nodes,
             const std::vector<bool>& disabled) {
  Wiring(reading, expanded, nodes, disabled).run();
}

}  // namespace sluice::reading
