// Which way a metric is better, by its words: "step.loss", "val_hd95.mean", "mse_metric".
#pragma once

#include <string>

namespace sluice {

// Whether less of it is better. `name`: a metric's, a node's or a type's; a word counts where it
// stands whole, between anything but letters ("pretrain" holds no "tre").
bool lower_is_better(const std::string& name);

}  // namespace sluice
