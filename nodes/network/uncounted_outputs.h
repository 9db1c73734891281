// Networks whose outputs only a pass can count, such as a module that answers with a list.
#pragma once

#include <cstddef>

namespace sluice {

// Their output_count(): as many may be asked for.
inline constexpr std::size_t uncounted_outputs = 64;

}  // namespace sluice
