#include "tests/engine/toy.h"

namespace sluice {

std::string sample_name(const Sample& s) { return "v" + std::to_string(s.value); }
std::size_t sample_bytes(const Sample&) { return 8; }

}  // namespace sluice
