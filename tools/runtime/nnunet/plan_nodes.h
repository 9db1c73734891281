// What graphs of nnU-Net's plans are put together from.
#pragma once

#include <string>
#include <vector>

#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

// Nodes one after the other, each with the line of comment that stands above it.
class NodeList {
 public:
  // The node follows the last one unless it says "in" itself, or is the first.
  void add(const std::string& name, Json node, const std::string& why = "");
  // Nodes of the graph's "parts" in place of one.
  void add_part(const std::string& name, const std::string& part);
  const std::string& last() const { return nodes_.back().name; }
  struct One {
    std::string name, why;
    Json node;
  };
  const std::vector<One>& all() const { return nodes_; }
  // Lines, the last without a comma unless there is more.
  std::string text(const std::string& indent, bool more = false) const;

 private:
  std::vector<One> nodes_;
};

// The field of each channel's file, by number: "image", "image_1", ...
std::vector<std::string> channel_keys(const Dataset& dataset);

// These nodes are as the model's runs have them where that is otherwise than the plan.

// Axes into the plan's order, the crop, normalization and the plan's voxel size, of "image", where
// it is named of a label, and of a cascade's "previous" labels.
void add_prepared(NodeList& nodes, const TrainedModel& model, const std::string& label = "",
                  const std::string& prefix = "");
// A cascade's "previous" labels become one-hot channels of the image, in training changed at
// random. Without a stage before: nothing.
void add_previous(NodeList& nodes, const TrainedModel& model, const std::string& prefix = "",
                  bool training = false);

// Windows, and what they give in "pred" on the grid of the image's file: labels or probabilities.
void add_inference(NodeList& nodes, const TrainedModel& model, const std::string& prefix = "",
                   const std::string& net = "net", bool probabilities = false);
// The node that writes "pred" into a folder.
Json saved_labels(const TrainedModel& model, const std::string& folder);

}  // namespace sluice::nnunet
