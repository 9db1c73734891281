// Whole channels taken out of a network (Li et al., "Pruning Filters for Efficient ConvNets",
// 2017), so that what is left is an ordinary network of fewer channels: no mask, no new format.
//
// Channels that a sum ties live or die together; a concatenation places its inputs' side by side.
// Of those that tie together the ones stay whose weights are largest: the mean of the absolute
// weights that make a channel and of those that read it, each divided by its layer's.
#pragma once

#include "kernels/net/net.h"

namespace sluice {

// Fills `small` with what it keeps of `whole`: the same network, built with fewer channels
// somewhere. Afterwards `whole` has zeros where it was pruned, and both give the same outputs for
// `image` [N, C, ...], which is tried: an Error says where a network's steps are others than this
// knows, or mix channels (group norm, attention).
void prune_into(Net& whole, Net& small, const at::Tensor& image);

}  // namespace sluice
