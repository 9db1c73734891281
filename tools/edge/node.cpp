#include "tools/edge/node.h"

#include "engine/base/error.h"

namespace sluice::edge {
namespace {

const std::vector<NodeType>& types() {
  static const std::vector<NodeType> all = [] {
    std::vector<NodeType> every = file_nodes();
    for (auto&& more : {transform_nodes(), component_nodes(), window_nodes()})
      every.insert(every.end(), more.begin(), more.end());
    return every;
  }();
  return all;
}

struct OnnxParams {
  std::string file;
};

}  // namespace

Image& Case::image(const std::string& key) {
  const auto found = images.find(key);
  if (found == images.end()) throw DataError(name + ": has no field \"" + key + "\"");
  return found->second;
}

const Catalogue& catalogue() {
  static const Catalogue all = [] {
    Catalogue c;
    for (const NodeType& t : types()) c.add(t.spec);
    c.add(Spec::network("onnx", "The package's network.")
              .param("file", &OnnxParams::file, "The ONNX file.")
              .required());
    return c;
  }();
  return all;
}

std::unique_ptr<Node> make(const GraphNode& node) {
  for (const NodeType& t : types())
    if (t.spec.name == node.spec->name) return t.make(t.spec, node.params);
  throw std::logic_error(node.spec->name + " is in the catalogue and has no node");
}

}  // namespace sluice::edge
