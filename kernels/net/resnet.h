// ResNet, as MONAI and torchvision make it: classes of whole images, and the features that
// FlexibleUNet's encoder shows of it. He et al. 2016; Xie et al. 2017 (groups).
#pragma once

#include "kernels/net/blocks.h"

namespace sluice {

struct ResNetKind {
  std::vector<std::int64_t> blocks;  // of each of the four layers
  bool bottleneck = false;           // blocks of convolutions 1, 3 and 1 instead of 3 and 3
};
const std::vector<int>& resnet_layers();  // 10, 18, 34, 50, 101, 152, 200
ResNetKind resnet_kind(int layers);

struct ResNetOptions {
  ResNetKind kind;
  PerAxis conv1_size = 7, conv1_stride = 1;
  bool max_pool = true;
  bool shortcut_a = false;       // zeros as further channels, and no gradient, as in MONAI
  bool bias_downsample = false;  // of the convolutions beside blocks
  double widen_factor = 1;
  std::int64_t groups = 1, width_per_group = 64;  // of bottlenecks
  Act act = {};                                   // after the first norm alone
  NormOptions norm = {};                          // the first one alone
  int levels = 4;                                 // layers that there are
  // Of the first convolution, its norm, its activation and the four layers.
  std::vector<std::string> names{"conv1", "bn1", "act", "layer1", "layer2", "layer3", "layer4"};
};
// torchvision's ResNets, ResNeXts and wide ResNets by their names.
const std::vector<std::string>& vision_models();
ResNetOptions vision_model(const std::string& name);

// After the first activation and after each of the layers.
Values resnet_features(const Scope& s, const Value& image, const ResNetOptions& o);

}  // namespace sluice
