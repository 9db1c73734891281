// EfficientNet, as MONAI's EfficientNetBN is made: classes, and what FlexibleUNet's encoder shows
// of it. Tan, Le 2019.
#pragma once

#include "kernels/net/blocks.h"

namespace sluice {

const std::vector<std::string>& efficientnet_names();  // "efficientnet-b0", ...
struct EfficientNetValues {
  Value logits;
  Values features;  // five, each of half of the extents of the one before
};
EfficientNetValues efficientnet(const Scope& s, const Value& image, const std::string& name,
                                std::int64_t classes, const NormOptions& norm);

}  // namespace sluice
