// What this machine's processor computes with, of what the kernels have loops for.
#pragma once

#include <string>

namespace sluice {

// Each has what those before it have.
enum class CpuLevel {
  none,         // LibTorch's own kernels in place of ours, where there is a choice
  avx2,         // with FMA: what the build asks for
  neon = avx2,  // on aarch64: the same loops
  avx512,       // F, BW, VL, DQ
  avx512_bf16,  // products of bfloat16
  amx,          // and of tiles of them
};

// The machine's, or what SLUICE_CPU names where that is less: for tests and comparisons. Read once.
CpuLevel cpu_level();
const char* name_of(CpuLevel level);
std::string cpu_levels();  // names, the lowest first: "none, avx2"
// Of a name; `otherwise` where there is no such level.
CpuLevel cpu_level_of(const std::string& name, CpuLevel otherwise);

}  // namespace sluice
