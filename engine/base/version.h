// The version of Sluice, in one place.
#pragma once

namespace sluice {
inline constexpr const char* version = "0.1.0";
}
