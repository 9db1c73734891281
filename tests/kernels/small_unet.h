// A network for tests of passes: three levels, norms, residuals, a transposed convolution, skips,
// dropout, an operation of LibTorch, a pooling that saves indices.
#pragma once

#include <ATen/ATen.h>

#include <array>

#include "kernels/net/blocks.h"

namespace sluice {

// Of volumes of one channel, with so many channels at each level. `low_too`: a second output, the
// lowest level's, which later steps read.
inline Net small_unet(Norm kind, const std::array<std::int64_t, 3>& channels, bool low_too = false,
                      at::ScalarType compute = at::kFloat) {
  Builder b;
  const Scope s = b.scope();
  const Value x = b.input(1, 3);
  const auto unit = [&](const std::string& name, const Value& in, std::int64_t out) {
    Value y =
        norm(s / name / "n1", conv(s / name / "c1", in, out, {.normed = true}), {.kind = kind});
    y = prelu(s / name / "a", y);
    y = norm(s / name / "n2", conv(s / name / "c2", y, out, {.normed = true}), {.kind = kind});
    return relu(y) + conv(s / name / "r", in, out, {.kernel = 1});
  };
  const auto up = [&](const std::string& name, const Value& in, std::int64_t out) {
    return conv(s / name, in, out, {.stride = 2, .output_padding = 1, .transposed = true});
  };
  const Value top = unit("top", x, channels[0]);
  const Value down = unit("down", conv(s / "stride", top, channels[0], {.stride = 2}), channels[1]);
  Value low = unit("low", max_pool(down), channels[2]);
  low = dropout(low, 0.2).op("gelu", [](In t) { return at::gelu(t[0]); });
  Value y = unit("up", concat({down, up("t1", low, channels[1])}), channels[1]);
  y = unit("out", concat({top, up("t2", y, channels[0])}), channels[0]);
  Values outputs{conv(s / "last", y, 3, {.kernel = 1})};
  if (low_too) outputs.push_back(low);
  Net net = b.finish(outputs, {compute});
  net.initialise(1);
  return net;
}

}  // namespace sluice
