// Inception v3 as torchvision makes it (Szegedy et al. 2016): the features of a picture, after the
// mean over all places. The classifier beside the trunk has its parameters and is computed by none:
// it is there for a loss of its own, which MONAI's users do not have.
#pragma once

#include "kernels/net/ops.h"

namespace sluice {

constexpr std::int64_t inception_least = 75;  // pixels along each axis

// 2048 channels: one voxel's where `keeps_axes`, else [N, 2048]. `transform_input`: channels of a
// picture that was normalised as ImageNet's are brought to the range -1 .. 1, as torchvision's own
// weights expect it.
Value inception_v3_features(const Scope& s, const Value& image, bool transform_input,
                            bool keeps_axes);

}  // namespace sluice
