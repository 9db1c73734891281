// Parameters of losses, one struct each from the graph's JSON to the kernel, for host and device.
// Names and defaults are MONAI's (1.6.1).
#pragma once

#include <cstdint>

namespace sluice {

enum class Reduce : std::uint8_t { mean, sum, none };

// How prediction and truth are prepared, and what the sums run over.
struct TargetParams {
  bool include_background = true;  // else class 0 of several is left out
  bool to_onehot_y = false;        // the label holds class indices
  bool sigmoid = false, softmax = false;
  bool batch = false;  // sums run over the whole batch, not each sample
  Reduce reduction = Reduce::mean;
};

struct DiceTerm {
  bool squared_pred = false, jaccard = false;
  double smooth_nr = 1e-5, smooth_dr = 1e-5;
};

}  // namespace sluice
