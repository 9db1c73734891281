// The unit that MONAI's networks of layers are made of.
#pragma once

#include "kernels/net/blocks.h"

namespace sluice {

// A residual unit; of no subunits, a convolution.
inline Value unit_or_convolution(const Scope& s, const Value& x, std::int64_t out,
                                 const ResidualUnitOptions& o) {
  if (o.subunits > 0) return residual_unit(s, x, out, o);
  return convolution(s, x, out,
                     {.strides = o.strides,
                      .kernel_size = o.kernel_size,
                      .adn = o.adn,
                      .bias = o.bias,
                      .conv_only = o.last_conv_only,
                      .dilation = o.dilation});
}

}  // namespace sluice
