// nnU-Net's plan of a data set from its fingerprint, each number with its reason.
//
// Invariant: a pure function of its arguments, equal to what nnU-Net 2.8.1 plans: integers exactly,
// spacings to 1e-9. No data is opened here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/nnunet/fingerprint.h"
#include "tools/nnunet/topology.h"

namespace sluice::nnunet {

// What a planner of nnU-Net is: its network, and how much of it fits into how much memory.
struct Planner {
  const char* name;                   // "default": what --planner takes
  const char* type;                   // nnU-Net's class
  const char* plans_name;             // "nnUNetPlans"
  bool residual;                      // residual encoder
  double reference_3d, reference_2d;  // values in all feature maps that fit into ...
  double gpu_memory;                  // ... GB
  double most_of_data;                // share of the data set's voxels that a batch may hold
};
const std::vector<Planner>& planners();
const Planner* find_planner(const std::string& name);

struct Normalization {
  std::string scheme;  // "ZScoreNormalization"
  bool masked = false;
};

struct Configuration {
  std::string name;  // "3d_fullres"
  Reals spacing;     // mm
  Reals median;      // voxels of the median case at this spacing; may end in .5
  Topology topology;
  std::int64_t batch = 2;
  bool batch_dice = false;
  Ints features;                 // a stage each
  Ints blocks;                   // convolutions or residual blocks a stage
  Ints decoder;                  // convolutions a stage of the decoder
  std::vector<std::string> why;  // "patch 40 x 56 x 40: ..."

  std::size_t dims() const { return spacing.size(); }
  std::size_t stages() const { return features.size(); }
};

struct Plans {
  Dataset dataset;
  Fingerprint fingerprint;
  Planner planner{};
  double gpu_memory = 8;   // GB
  Ints transpose;          // the axis that comes first, second, third
  Reals original_spacing;  // medians, transposed
  Ints original_shape;
  std::vector<Normalization> normalization;  // a channel each
  std::vector<Configuration>
      configurations;            // 2d, 3d_lowres, 3d_fullres; the cascade repeats the last
  std::vector<std::string> why;  // of the numbers that all configurations share
  std::vector<std::string> odd;  // what a user should know

  const Configuration* find(const std::string& name) const;
  bool cascade() const { return find("3d_lowres") != nullptr; }
};

// `gpu_memory` in GB; 0: the planner's own.
Plans make_plans(const Dataset& dataset, const Fingerprint& fingerprint, const Planner& planner,
                 double gpu_memory);

// nnU-Net's plans.json, key for key.
Json plans_json(const Plans& plans);

// The reasons, a line each.
std::string plans_text(const Plans& plans);

}  // namespace sluice::nnunet
