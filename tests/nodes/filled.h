// A network whose numbers follow from their names alone, as tests/golden/make_nets.py fills
// MONAI's.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

#include "engine/state/resource.h"
#include "tests/nodes/golden_train.h"

namespace sluice {

// zlib's: Python's zlib.crc32 says the same.
inline std::uint32_t crc32(const std::string& text) {
  std::uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

inline double first_of(const std::string& name) { return crc32(name) % 1000; }

inline void fill(Network& net) {
  at::NoGradGuard no_grad;
  for (auto& [name, p] : net.parameters()) {
    const double first = first_of(name);
    if (p.dim() > 1)
      p.copy_(sines(p.sizes(), first, 1.5 / std::sqrt(static_cast<double>(p[0].numel()))));
    else
      p.copy_(0.5 + sines(p.sizes(), first, 0.3));
  }
  for (auto& [name, b] : net.buffers()) {  // others are constants
    const double first = first_of(name);
    if (name.ends_with("running_mean")) b.copy_(sines(b.sizes(), first, 0.1));
    if (name.ends_with("embedding.weight") || name.ends_with("ema_w") ||
        name.ends_with("gaussian_matrix"))
      b.copy_(sines(b.sizes(), first));
    if (name.ends_with("running_var") || name.ends_with("ema_cluster_size"))
      b.copy_(1 + sines(b.sizes(), first, 0.5));
  }
}

// Of the golden case's inputs after the first: their sizes, and what is whole numbers in them, such
// as times, classes and points' labels.
inline std::vector<std::vector<std::int64_t>> further_sizes(const Json& golden_case) {
  return golden_case.value("more", std::vector<std::vector<std::int64_t>>{});
}
inline std::optional<at::Tensor> further_numbers(const Json& golden_case, std::size_t k,
                                                 const std::vector<std::int64_t>& size) {
  const auto whole = golden_case.value("whole", std::vector<std::size_t>{});
  if (std::find(whole.begin(), whole.end(), k) != whole.end())
    return at::arange(c10::multiply_integers(size), at::kFloat).remainder(4).view(size);
  if (size.size() == 1) return at::arange(1, size[0] + 1, at::kFloat);
  return std::nullopt;
}

}  // namespace sluice
