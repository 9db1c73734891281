#include "engine/base/cpu.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace sluice {
namespace {

constexpr std::array names{"none", "avx2", "avx512", "avx512_bf16"};

CpuLevel of_machine() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return CpuLevel::avx512_bf16;
  return avx512 ? CpuLevel::avx512 : CpuLevel::avx2;
#else
  return CpuLevel::none;
#endif
}

}  // namespace

CpuLevel cpu_level() {
  static const CpuLevel level = [] {
    const char* wanted = std::getenv("SLUICE_CPU");
    return std::min(of_machine(), cpu_level_of(wanted ? wanted : "", of_machine()));
  }();
  return level;
}

const char* name_of(CpuLevel level) { return names.at(static_cast<std::size_t>(level)); }

CpuLevel cpu_level_of(const std::string& name, CpuLevel otherwise) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? otherwise : static_cast<CpuLevel>(found - names.begin());
}

}  // namespace sluice
