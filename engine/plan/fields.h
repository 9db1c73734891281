// What flows along every edge, as far as it can be known without data: which fields, single or
// batched, how many axes, which extents, on which device. Found by walking the Plan from its
// sources and applying each node's FieldRules; where a rule cannot hold there is a diagnostic.
//
//   load                image, label      float32 [?, ?, ?, ?]
//   crop 64             image, label      float32 [?, 64, 64, 64]
//   batch 4             image, label      float32 [4, ?, 64, 64, 64]
//   fwd  (unet, 2 out)  pred              float32 [4, 2, 64, 64, 64]
//
// Invariant: what is said here is certain; what is not is 0, empty or `open`. So a graph that is
// right for some data gets no error. One mistake gives one diagnostic: a field that was complained
// about is unknown from there on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/field_rule.h"

namespace sluice {

struct Plan;
class Diagnostics;

struct FieldInfo {
  std::string name;
  Form form = Form::any;
  int spatial = 0;                    // spatial axes; 0: unknown
  std::string spatial_from;           // what says so: "crop.spatial_size"
  std::int64_t channels = 0;          // 0: unknown
  std::vector<std::int64_t> extents;  // one a spatial axis, 0: unknown; empty: all unknown
  std::vector<std::int64_t> most;     // of each axis that is not known, 0: any; or empty
  std::int64_t every_extent = 0;      // of each axis, while their number is unknown; 0: unknown
  std::string dtype;                  // "float32"; "": unknown
  bool one_shape = false;             // of all samples, known or not
  std::string varies_since;           // the node that makes extents differ between samples; or ""
  bool made_of_batch = false;         // no sample had it before the batch was made
  bool maybe = false;                 // not every sample has it
  bool gradient = false;              // depends on a network that is read here, differentiably
  std::string gradient_ends;          // the node that made it of one that does, without gradient

  bool has_known_extents() const;  // of every axis
  void forget_extents();

  // "float32 [4, 1, 64, 64, 64]" with ? for what is unknown, "path" for a record; `batch`: N or 0.
  std::string text(std::int64_t batch) const;
};

struct Flow {
  std::vector<FieldInfo> fields;
  bool open = true;         // there may be fields that are not listed
  std::int64_t batch = 0;   // N, at most; 0: unknown
  int batched_by = -1;      // the node that made batches
  int moved_by = -1;        // the node that moved the samples to a device other than the host
  std::string no_gradient;  // of all that this node differentiates: the node where gradients end
  bool same(const Flow& other) const;  // the same fields, as far as they can be seen

  const FieldInfo* find(std::string_view name) const;
  FieldInfo* find(std::string_view name);
};

// By plan node: what leaves it. The nodes, their order and their inputs must stand.
std::vector<Flow> find_flows(const Plan& plan, Diagnostics& diagnostics);

// The fields that node `index` reads on the host, also where it works on a device.
std::vector<std::string> read_on_host(const Plan& plan, int index);

}  // namespace sluice
