// The nodes that sluice-edge runs. Each declares the parameters that it honours, with their names
// and defaults in Sluice, so that the graph reader refuses others by their place in the file.
//
// Invariant: a case goes through the nodes one after the other, alone.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "kernels/lists/data_list.h"
#include "tools/edge/engine.h"
#include "tools/edge/image.h"

namespace sluice::edge {

struct Case {
  std::string name;
  std::map<std::string, std::string> files;
  std::map<std::string, Image> images;
  std::vector<std::string> written;
  std::size_t windows = 0;

  Image& image(const std::string& key);  // DataError where there is none
};

// What nodes are opened with.
struct Setting {
  const Engine* engine = nullptr;
  std::filesystem::path out;
};

struct Node {
  virtual ~Node() = default;
  virtual void open(const Setting&) {}
  virtual DataList list() const { return {}; }  // of a source
  virtual void run(Case&) const {}
};

// Every node type, and the network type `onnx`, which stands for the package's own.
const Catalogue& catalogue();
std::unique_ptr<Node> make(const GraphNode& node);

// The types of one file; node.cpp puts them together.
struct NodeType {
  Spec spec;
  std::unique_ptr<Node> (*make)(const Spec& spec, const Json& params);
};
std::vector<NodeType> file_nodes(), transform_nodes(), component_nodes(), window_nodes();

// Of a class with `static Spec spec()` and a member `p` that has its parameters.
template <class T>
NodeType type_of() {
  return {T::spec(), [](const Spec& spec, const Json& params) -> std::unique_ptr<Node> {
            auto node = std::make_unique<T>();
            spec.apply(&node->p, params);
            return node;
          }};
}

// One setting for all, or one each.
template <class T>
const T& each(const std::vector<T>& settings, std::size_t i) {
  if (settings.empty()) throw DataError("a list of settings is empty");
  return settings[std::min(i, settings.size() - 1)];
}

}  // namespace sluice::edge
