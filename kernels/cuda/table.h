// Everything that libsluice_cuda.so offers, as one table of functions. The library is found with
// dlopen where there is a GPU (cuda_library.h), so nothing else links CUDA.
//
// Invariant: all work is queued on the given stream (a cudaStream_t) and nothing waits for it but
// `synchronize`; device memory comes from the caller, so the caller's allocator owns all of it. A
// function returns 0 or a cudaError_t, which `error_text` explains. A stream may be recording a
// graph: what is repeated then reads no memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

// Parameters are the structs of the kernels' own headers, which callers include.
struct AugmentJob;
template <class T>
struct BilateralCall;
struct BitDraw;
struct BitRule;
struct BlendCall;
struct BlendFinish;
template <class T>
struct CrfCall;
struct DiceCeBatch;
struct DiceCeRule;
struct DropoutCall;
struct DropoutRule;
struct GridCall;
struct GridUses;
struct LatticeBuild;
template <class T>
struct LatticeCall;
enum class LatticeStage : std::uint8_t;
enum class LatticeWork : std::uint8_t;
template <class T>
struct MedianCall;
enum class MedianWork : std::uint8_t;
template <class T>
struct MixtureCall;
struct NormActCall;
struct NormActGradients;
struct OptimRule;
struct OptimState;
struct OptimTensor;
struct ThinConvCall;

struct CudaTable {
  static constexpr int current = 9;  // one more whenever an entry or a struct changes
  int version;
#define ENTRY(result, name, parameters) result(*name) parameters;
#include "kernels/cuda/entries.inc"
#undef ENTRY
};

// The functions that it points to, each in the .cu file beside its kernel.
#define ENTRY(result, name, parameters) result cuda_##name parameters;
#include "kernels/cuda/entries.inc"
#undef ENTRY

}  // namespace sluice::kernels

extern "C" __attribute__((visibility("default"))) const sluice::kernels::CudaTable*
sluice_cuda_table();
