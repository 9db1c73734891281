#include "tools/nnunet/configuration.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "tools/nnunet/statistics.h"
#include "tools/nnunet/wording.h"

namespace sluice::nnunet {
namespace {

constexpr std::int64_t least_batch = 2;

// Extents of 256^3 or 2048^2 voxels by the spacing's ratio, no larger than the median case.
Reals first_patch(const Reals& spacing, const Reals& median) {
  Reals inverse;
  for (const double s : spacing) inverse.push_back(1 / s);
  const bool flat = spacing.size() == 2;
  const double volume = flat ? 2048.0 * 2048.0 : 256.0 * 256.0 * 256.0;
  const double scale = std::pow(volume / product(inverse), flat ? 1.0 / 2 : 1.0 / 3);
  Reals patch;
  for (std::size_t a = 0; a < spacing.size(); ++a)
    patch.push_back(std::min(round_even(inverse[a] * scale), median[a]));
  return patch;
}

void shape_network(Configuration& c, const Planner& planner) {
  static constexpr std::array<std::int64_t, 5> residual_blocks{1, 3, 4, 6, 6};
  const std::size_t stages = c.topology.strides.size();
  const std::int64_t most = c.dims() == 2 ? 512 : 320;
  c.features.clear();
  c.blocks.clear();
  for (std::size_t s = 0; s < stages; ++s) {
    c.features.push_back(
        std::min<std::int64_t>(most, std::int64_t{32} << std::min<std::size_t>(s, 20)));
    c.blocks.push_back(planner.residual ? residual_blocks[std::min<std::size_t>(s, 4)] : 2);
  }
  c.decoder.assign(stages - 1, planner.residual ? 1 : 2);
}

// Values in the feature maps of all convolutions for one sample: what nnU-Net takes memory for.
double estimate(const Configuration& c, bool residual, std::size_t label_entries) {
  Reals size = as_reals(c.topology.patch), volumes;
  const double patch = product(size);
  double all = residual ? static_cast<double>(c.features[0]) * patch : 0;
  for (std::size_t s = 0; s < c.stages(); ++s) {
    bool strides = false;
    for (std::size_t a = 0; a < size.size(); ++a) {
      size[a] = std::floor(size[a] / static_cast<double>(c.topology.strides[s][a]));
      strides = strides || c.topology.strides[s][a] > 1;
    }
    volumes.push_back(product(size));
    const double map = static_cast<double>(c.features[s]) * volumes[s];
    const auto blocks = static_cast<double>(c.blocks[s]);
    if (!residual) {
      all += blocks * map;
      continue;
    }
    const bool shortcut = strides || (s > 0 && c.features[s] != c.features[s - 1]);
    all += 2 * blocks * map + (shortcut ? map : 0);
  }
  for (std::size_t level = 0; level + 1 < c.stages(); ++level)
    all += static_cast<double>((c.decoder[level] + 1) * c.features[level]) * volumes[level];
  // The scores are a decoder's; where nothing is pooled there is none.
  return c.stages() > 1 ? all + static_cast<double>(label_entries) * volumes[0] : all;
}

// The axis that is largest beside the median case; of equal ones the last.
std::size_t axis_to_shrink(const Ints& patch, const Reals& median) {
  std::size_t axis = 0;
  double largest = -1;
  for (std::size_t a = 0; a < patch.size(); ++a)
    if (const double share = static_cast<double>(patch[a]) / median[a]; share >= largest) {
      largest = share;
      axis = a;
    }
  return axis;
}

// Whether there is a smaller patch.
bool shrink(Configuration& c) {
  const std::size_t axis = axis_to_shrink(c.topology.patch, c.median);
  Reals patch = as_reals(c.topology.patch), next = patch;
  next[axis] -= static_cast<double>(c.topology.divisor[axis]);
  patch[axis] -= static_cast<double>(topology_of(c.spacing, next).divisor[axis]);
  if (patch[axis] < 1) return false;
  c.topology = topology_of(c.spacing, patch);
  return true;
}

std::string pooling_text(const Topology& t) {
  if (t.strides.size() == 1) return "no axis has 8 voxels: no pooling";
  return join("each axis up to a multiple of ", extents(t.divisor), " (",
              std::to_string(t.strides.size() - 1),
              t.strides.size() == 2 ? " pooling)" : " poolings)");
}

void explain_network(Configuration& c) {
  std::string kernels;
  for (const auto& kernel : c.topology.kernels)
    kernels += (kernels.empty() ? "" : ", ") + extents(kernel);
  c.why.push_back(join("stages ", std::to_string(c.stages()),
                       ": an axis is halved while it has 8 voxels, with those of less than twice "
                       "the smallest spacing"));
  const bool thin =
      std::any_of(c.topology.kernels.begin(), c.topology.kernels.end(),
                  [](const Ints& k) { return std::find(k.begin(), k.end(), 1) != k.end(); });
  c.why.push_back(join("kernels ", kernels,
                       thin ? ": 1 along an axis until its spacing is below "
                              "twice the smallest"
                            : ": no axis has twice the smallest spacing"));
  c.why.push_back(join("features ", list(c.features), ": 32, doubled a stage, at most ",
                       c.dims() == 2 ? "512" : "320"));
}

}  // namespace

Configuration plan_one(const Plans& plans, const Wanted& wanted) {
  const Planner& planner = plans.planner;
  const bool flat = wanted.spacing.size() == 2;
  const double reference = (flat ? planner.reference_2d : planner.reference_3d) *
                           (plans.gpu_memory / planner.gpu_memory);
  const double reference_batch = flat ? 12 : 2;
  const std::size_t entries = plans.dataset.labels.size();

  Configuration c;
  c.name = wanted.name;
  c.spacing = wanted.spacing;
  c.median = wanted.median;
  const Reals start = first_patch(c.spacing, c.median);
  c.topology = topology_of(c.spacing, start);
  shape_network(c, planner);
  double values = estimate(c, planner.residual, entries);
  const double full = values;
  const auto weighed = [&] { return planner.residual ? values : values / reference_batch * 2; };
  int steps = 0;
  for (; weighed() > reference; ++steps) {
    if (!shrink(c))
      throw DataError(
          join(c.name, ": no patch is small enough for ", number(plans.gpu_memory),
               " GB; the smallest, ", extents(c.topology.patch), ", needs ",
               number(std::ceil(weighed() / reference * plans.gpu_memory * 1000) / 1000),
               ": give that by --gpu-memory"));
    shape_network(c, planner);
    values = estimate(c, planner.residual, entries);
  }
  const double fits = round_even(reference / values * reference_batch);
  const double voxels = product(as_reals(c.topology.patch));
  const double allowed = round_even(wanted.voxels * planner.most_of_data / voxels);
  c.batch = std::max(static_cast<std::int64_t>(std::min(fits, allowed)), least_batch);

  c.why.push_back(join("spacing ", extents(c.spacing), " mm; the median case has ",
                       extents(c.median), " voxels there"));
  c.why.push_back(join("patch ", extents(c.topology.patch), ": ", extents(start),
                       flat ? " (the median, at most as many voxels as 2048^2), "
                            : " (the median, at most as many voxels as 256^3), ",
                       pooling_text(c.topology),
                       steps == 0
                           ? ""
                           : join("; made smaller ", std::to_string(steps),
                                  " times along the axis that is "
                                  "largest beside the median, as ",
                                  millions(full),
                                  " values in feature "
                                  "maps are more than ",
                                  millions(reference), " for ", number(plans.gpu_memory), " GB")));
  c.why.push_back(join("batch ", std::to_string(c.batch), ": memory allows ", number(fits), " (",
                       millions(values), " values a sample), ", number(planner.most_of_data * 100),
                       " % of ", millions(wanted.voxels), " voxels allow ", number(allowed),
                       ", at least 2"));
  explain_network(c);
  return c;
}

}  // namespace sluice::nnunet
