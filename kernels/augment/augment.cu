// Fused augmentation on the device: one launch a stage and kind of fetch, for all jobs of a batch
// that have such a stage. A block works on rows of one channel of one job.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/augment/augment_layout.h"
#include "kernels/augment/fused_augment.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256, warps = threads / warp;

__device__ AugmentSums shifted(const AugmentSums& s, int by) {
  AugmentSums o;
  o.low = shuffle_down(s.low, by);
  o.high = shuffle_down(s.high, by);
  o.about = shuffle_down(s.about, by);
  o.sum = shuffle_down(s.sum, by);
  o.squares = shuffle_down(s.squares, by);
  o.count = shuffle_down(s.count, by);
  o.nonzero = shuffle_down(s.nonzero, by);
  return o;
}
__device__ AugmentSums block_sums(const AugmentSums& mine, AugmentSums* held) {
  return block_sum(
      mine, held, [](const AugmentSums& s, int o) { return shifted(s, o); },
      [](AugmentSums& a, const AugmentSums& b) { a.add(b); });
}

// The statistics of one channel, or of all: the blocks' parts, always in the same order.
__device__ AugmentSums read_sums(const AugmentEntry& e, char* workspace, int slot,
                                 const AugmentOp& op, AugmentSums* held) {
  const int channel = measured_channel(op, e.channel);
  AugmentSums mine;
  if (slot >= 0) {
    const auto* parts = reinterpret_cast<const AugmentSums*>(workspace + e.sums) +
                        static_cast<std::int64_t>(slot) * e.channels * e.blocks;
    if (channel >= 0) parts += static_cast<std::int64_t>(channel) * e.blocks;
    const int n = channel >= 0 ? e.blocks : e.blocks * e.channels;
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += threads)
      mine.add(channel >= 0 ? parts[i] : counted(op, parts[i], i / e.blocks, e.channels));
  }
  return block_sums(mine, held);
}

// ---- what a launch reads ------------------------------------------------------------------------
// `blocks`: how many a multiprocessor has registers for, with no voxel in local memory.

template <class T>
struct Copies {
  static constexpr int blocks = 3;
  template <class F>
  static __device__ void with(const AugmentJob& j, const AugmentEntry& e, const char*, const F& f) {
    f(CopyFetch<T>(j, e.channel));
  }
};
template <class T, Interpolation I>
struct Resamples {
  static constexpr int blocks = 2;
  template <class F>
  static __device__ void with(const AugmentJob& j, const AugmentEntry& e, const char*, const F& f) {
    f(ResampleFetch<T, I>(j, e.channel));
  }
};
struct Scratch {
  static constexpr int blocks = 3;
  template <class F>
  static __device__ void with(const AugmentJob& j, const AugmentEntry& e, const char* workspace,
                              const F& f) {
    f(ScratchFetch(j, reinterpret_cast<const float*>(workspace + e.from)));
  }
};
struct Blurs {
  static constexpr int blocks = 2;
  template <class F>
  static __device__ void with(const AugmentJob& j, const AugmentEntry& e, const char* workspace,
                              const F& f) {
    const int axis = static_cast<int>(e.stage.fetch) - static_cast<int>(AugmentFetch::blur_x);
    f(BlurFetch(j, reinterpret_cast<const float*>(workspace + e.from), axis));
  }
};
struct LowResolutions {
  static constexpr int blocks = 2;
  template <class F>
  static __device__ void with(const AugmentJob& j, const AugmentEntry& e, const char* workspace,
                              const F& f) {
    f(LowResolutionFetch(j, reinterpret_cast<const float*>(workspace + e.from),
                         j.ops[e.stage.filter]));
  }
};

struct Colors {
  static constexpr int blocks = 2;
  template <class F>
  static __device__ void with(const AugmentJob& j, const AugmentEntry& e, const char* workspace,
                              const F& f) {
    f(ColorFetch(j, reinterpret_cast<const float*>(workspace + e.from), e.channel,
                 j.ops[e.stage.filter]));
  }
};

// The block's copy of what all its threads read: they need not keep it in registers. Complete after
// the next barrier.
template <class T>
constexpr int words = (sizeof(T) + 7) / 8;
template <class T>
__device__ const T& shared_copy(const T* from, std::uint64_t* to) {
  const auto* source = reinterpret_cast<const std::uint64_t*>(from);
  for (int i = threadIdx.x; i < words<T>; i += threads) to[i] = source[i];
  return *reinterpret_cast<const T*>(to);
}

template <class Read>
__global__ void __launch_bounds__(threads, Read::blocks)
    run_stage(char* workspace, const AugmentEntry* entries) {
  __shared__ std::uint64_t job_words[words<AugmentJob>], entry_words[words<AugmentEntry>];
  __shared__ double held_bytes[warps * sizeof(AugmentSums) / sizeof(double)];
  auto* held = reinterpret_cast<AugmentSums*>(held_bytes);
  const AugmentEntry* entry = entries + blockIdx.y;
  if (static_cast<int>(blockIdx.x) >= entry->blocks) return;
  const auto& e = shared_copy(entry, entry_words);
  const auto& job =
      shared_copy(reinterpret_cast<const AugmentJob*>(workspace) + entry->job, job_words);
  __syncthreads();

  AugmentPass pass = pass_of(job, e, workspace);
  if (e.stage.slot >= 0) {
    const AugmentOp& op = job.ops[e.stage.first];
    const AugmentSums now = read_sums(e, workspace, e.stage.slot, op, held);
    const AugmentSums old = read_sums(e, workspace, e.stage.old, op, held);
    pass.numbers = AugmentNumbers::of(op, now, old);
  }
  AugmentSums sums;
  const auto rows = [&](const auto& fetch) {
    const int ny = job.out.size[1], n = job.out.size[0] * ny;
    for (int r = blockIdx.x * warps + threadIdx.x / warp; r < n; r += e.blocks * warps)
      augment_row(pass, fetch, r / ny, r % ny, threadIdx.x % warp, warp, sums);
  };
  Read::with(job, e, workspace, rows);
  if (e.stage.made < 0) return;
  sums = block_sums(sums, held);
  if (threadIdx.x == 0)
    reinterpret_cast<AugmentSums*>(
        workspace +
        e.sums)[(static_cast<std::int64_t>(e.stage.made) * e.channels + e.channel) * e.blocks +
                blockIdx.x] = sums;
}

using Kernel = void (*)(char*, const AugmentEntry*);
constexpr int types = 5, kinds = 3 * types + 4;

struct Kernels {
  Kernel of[kinds];
  Kernels() {
    add<float>(VoxelType::f32);
    add<Half>(VoxelType::f16);
    add<Brain>(VoxelType::bf16);
    add<std::int16_t>(VoxelType::i16);
    add<std::uint8_t>(VoxelType::u8);
    of[3 * types] = run_stage<Scratch>;
    of[3 * types + 1] = run_stage<Blurs>;
    of[3 * types + 2] = run_stage<LowResolutions>;
    of[3 * types + 3] = run_stage<Colors>;
  }

 private:
  template <class T>
  void add(VoxelType type) {
    const int t = static_cast<int>(type);
    of[t] = run_stage<Copies<T>>;
    of[types + t] = run_stage<Resamples<T, Interpolation::linear>>;
    of[2 * types + t] = run_stage<Resamples<T, Interpolation::nearest>>;
  }
};
int kind_of(const AugmentJob& j, AugmentFetch fetch) {
  if (fetch == AugmentFetch::scratch) return 3 * types;
  if (fetch == AugmentFetch::low_resolution) return 3 * types + 2;
  if (fetch == AugmentFetch::colors) return 3 * types + 3;
  if (fetch != AugmentFetch::source) return 3 * types + 1;
  const int t = static_cast<int>(j.in.type);
  if (!j.sampling.resample) return t;
  return (j.sampling.mode == Interpolation::linear ? types : 2 * types) + t;
}

struct Launch {
  int stage, kind;
  AugmentEntry entry;
};

}  // namespace

int cuda_augment(const AugmentJob* jobs, int count, void* workspace, void* stream) {
  if (count < 1) return cudaSuccess;
  if (sluice_augment_problem(jobs, count)) return cudaErrorInvalidValue;
  const AugmentLayout layout(jobs, count);
  std::vector<Launch> launches;
  for (int s = 0; s < layout.depth; ++s)
    for (int i = 0; i < count; ++i)
      for (int c = 0; s < layout.stages[i].count && c < jobs[i].in.channels; ++c)
        launches.push_back(
            {s, kind_of(jobs[i], layout.stages[i].stage[s].fetch), layout.entry(jobs, i, s, c)});
  std::stable_sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.kind < b.kind;
  });
  // Jobs and entries go up in one copy.
  std::vector<char> up(static_cast<std::size_t>(layout.entries) +
                       launches.size() * sizeof(AugmentEntry));
  std::memcpy(up.data(), jobs, count * sizeof(AugmentJob));
  for (std::size_t i = 0; i < launches.size(); ++i)
    std::memcpy(up.data() + layout.entries + i * sizeof(AugmentEntry), &launches[i].entry,
                sizeof(AugmentEntry));
  auto* base = static_cast<char*>(workspace);
  if (const int e = upload(base, up.data(), up.size(), as_stream(stream))) return e;
  const auto* entries = reinterpret_cast<const AugmentEntry*>(base + layout.entries);
  static const Kernels kernels;
  for (std::size_t i = 0; i < launches.size();) {
    std::size_t end = i;
    int blocks = 1;
    while (end < launches.size() && end - i < 65535 && launches[end].stage == launches[i].stage &&
           launches[end].kind == launches[i].kind)
      blocks = std::max(blocks, launches[end++].entry.blocks);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(end - i));
    if (const int e =
            launch(kernels.of[launches[i].kind], grid, threads, stream, base, entries + i))
      return e;
    i = end;
  }
  return cudaSuccess;
}

}  // namespace sluice::kernels
