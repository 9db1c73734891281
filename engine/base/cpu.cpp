#include "engine/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>

namespace sluice {
namespace {

#if defined(__aarch64__)
constexpr std::array names{"none", "neon"};
#else
constexpr std::array names{"none", "avx2", "avx512", "avx512_bf16", "amx"};
#endif

#if defined(__x86_64__)
// Linux gives a process the tiles' registers when it asks for them (arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr unsigned tile = 1u << 24, bf16 = 1u << 22;  // leaf 7, EDX
  constexpr int request_permission = 0x1023, tile_data = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & tile) && (d & bf16) &&
         syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

CpuLevel of_machine() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16"))
    return may_use_tiles() ? CpuLevel::amx : CpuLevel::avx512_bf16;
  return avx512 ? CpuLevel::avx512 : CpuLevel::avx2;
#elif defined(__aarch64__)
  return CpuLevel::neon;
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

std::string cpu_levels() {
  std::string all;
  for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

CpuLevel cpu_level_of(const std::string& name, CpuLevel otherwise) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? otherwise : static_cast<CpuLevel>(found - names.begin());
}

}  // namespace sluice
