// "requires": the nodes that must be there, and be opened, before this one.
#include <algorithm>

#include "engine/graph/graph_reader.h"

namespace sluice::reading {
namespace {

class Requires {
 public:
  Requires(const Reading& reading, const Expanded& expanded, std::vector<GraphNode>& nodes,
           const std::vector<bool>& disabled)
      : reading_(reading), expanded_(expanded), nodes_(nodes), disabled_(disabled) {}

  void run() {
    needs_.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (std::string& name : nodes_[i].needs) find(i, name);
    std::vector<int> state(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) visit(static_cast<int>(i), state);
  }

 private:
  const Field& field(std::size_t i) const { return *expanded_.nodes[i].find("requires"); }
  std::string path(std::size_t i) const { return expanded_.nodes[i].path + ".requires"; }

  // Makes the name a path, "load" in a part "pre/load".
  void find(std::size_t i, std::string& name) {
    const std::string& prefix = expanded_.nodes[i].prefix;
    const auto at = expanded_.names.find(prefix + name);
    const bool is_node = at != expanded_.names.end() && at->second.kind == Name::Kind::node;
    if (is_node && !disabled_[static_cast<std::size_t>(at->second.node)]) {
      needs_[i].push_back(at->second.node);
      name = prefix + name;
      return;
    }
    if (at != expanded_.names.end() && at->second.kind == Name::Kind::faulty) return;
    std::vector<std::string> known;
    for (const auto& [other, meaning] : expanded_.names)
      if (meaning.kind == Name::Kind::node && other.starts_with(prefix))
        known.push_back(other.substr(prefix.size()));
    reading_.error_at(field(i), "SL0313",
                      "\"" + nodes_[i].path + "\" requires \"" + name +
                          (is_node ? "\", which is disabled" : "\", which is no node"),
                      path(i), is_node ? "" : did_you_mean(name, known));
  }

  // 0: not seen, 1: open, 2: done.
  void visit(int i, std::vector<int>& state) {
    int& mine = state[static_cast<std::size_t>(i)];
    if (mine == 2) return;
    if (mine == 1) {
      const auto n = static_cast<std::size_t>(i);
      reading_.error_at(field(n), "SL0314",
                        "\"" + nodes_[n].path + "\" requires itself, through others or not",
                        path(n));
      return;
    }
    mine = 1;
    for (int other : needs_[static_cast<std::size_t>(i)]) visit(other, state);
    mine = 2;
  }

  const Reading& reading_;
  const Expanded& expanded_;
  std::vector<GraphNode>& nodes_;
  const std::vector<bool>& disabled_;
  std::vector<std::vector<int>> needs_;
};

}  // namespace

void connect_requires(const Reading& reading, const Expanded& expanded,
                      std::vector<GraphNode>& nodes, const std::vector<bool>& disabled) {
  Requires(reading, expanded, nodes, disabled).run();
}

}  // namespace sluice::reading
