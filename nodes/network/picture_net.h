// The parameters of networks that take pictures of three colours where nothing else is said.
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

struct PictureNet : ImageNet {
  PictureNet() {
    spatial_dims = 2;
    in_channels = 3;
  }
};

}  // namespace sluice
