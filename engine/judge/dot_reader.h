// Graphviz text as our pictures write it, read back: nodes, nested clusters, edges and their
// attributes, defaults filled in. No ports, no subgraphs as ends of edges, no `a -> b -> c`.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sluice {

struct DotValue {
  std::string text;      // of HTML-like ones what stands between < and >
  bool is_html = false;  // else \n is a new line
};

struct DotAttributes {
  std::map<std::string, DotValue> all;

  std::string text(const std::string& name, const std::string& otherwise = "") const;
  double number(const std::string& name, double otherwise) const;
};

struct DotNode {
  std::string name;
  DotAttributes attributes;
  int cluster = -1;  // the innermost one
};

struct DotEdge {
  int from = -1, to = -1;
  DotAttributes attributes;
};

struct DotCluster {
  std::string name;
  DotAttributes attributes;
  int parent = -1;
};

struct DotGraph {
  std::string name;
  DotAttributes attributes;
  std::vector<DotNode> nodes;  // in the order in which they are first named
  std::vector<DotEdge> edges;
  std::vector<DotCluster> clusters;
};

// Throws Error(usage) where it is no such text.
DotGraph read_dot(const std::string& text);

}  // namespace sluice
