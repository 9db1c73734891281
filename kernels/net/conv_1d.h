// Convolutions of signals, which have one axis, are a function of LibTorch (ops.cpp) and no
// ConvStep: what takes those alone has to say so of these.
#pragma once

#include "kernels/net/net.h"

namespace sluice {

inline constexpr const char* conv_1d_kind = "conv_1d";

inline bool is_conv_1d(const Step& step) { return step.kind() == conv_1d_kind; }

}  // namespace sluice
