// How a batch's workspace is divided:  jobs | entries | partial statistics | scratch volumes.
//
// Invariant: it follows from the jobs alone, so the caller that allocates and the device that runs
// agree.
#pragma once

#include <vector>

#include "kernels/augment/augment_stages.h"
#include "kernels/augment/augment_voxel.h"

namespace sluice::kernels {

// Blocks that share a channel, each with statistics of its own: follows from the size alone, since
// sums are formed block by block.
inline int augment_blocks(const AugmentJob& job) {
  const std::int64_t rows = static_cast<std::int64_t>(job.out.size[0]) * job.out.size[1];
  const std::int64_t blocks = (rows + 7) / 8;  // a block takes eight rows at a time
  return static_cast<int>(blocks < 512 ? blocks : 512);
}
inline std::int64_t channel_voxels(const AugmentJob& job) {
  return static_cast<std::int64_t>(job.out.size[0]) * job.out.size[1] * job.out.size[2];
}

// One channel of one job at one stage, as a block of the device reads it. Offsets are from the
// workspace's begin.
struct AugmentEntry {
  std::int32_t job, channel;
  AugmentStage stage;
  std::int64_t from, to;  // scratch of this channel, -1 where there is none
  std::int64_t sums;      // [slot][channel][block] of AugmentSums
  std::int32_t blocks, channels;
};

// An entry's pass over its channel, without statistics yet.
SLUICE_HD inline AugmentPass pass_of(const AugmentJob& job, const AugmentEntry& e,
                                     char* workspace) {
  return {&job,
          e.stage,
          e.channel,
          e.to >= 0 ? reinterpret_cast<float*>(workspace + e.to) : nullptr,
          {}};
}

struct AugmentLayout {
  std::vector<AugmentStages> stages;
  std::vector<std::int64_t> sums, scratch;  // by job: where each begins
  std::int64_t entries = 0, bytes = 0;
  int depth = 0;  // the most stages of a job

  AugmentLayout(const AugmentJob* jobs, int count) {
    std::int64_t channels = 0;
    for (int i = 0; i < count; ++i) {
      stages.push_back(stages_of(jobs[i]));
      depth = depth > stages[i].count ? depth : stages[i].count;
      channels += static_cast<std::int64_t>(jobs[i].in.channels) * stages[i].count;
    }
    entries = take(count * static_cast<std::int64_t>(sizeof(AugmentJob)));
    take(channels * static_cast<std::int64_t>(sizeof(AugmentEntry)));
    for (int i = 0; i < count; ++i)
      sums.push_back(take_at(static_cast<std::int64_t>(sizeof(AugmentSums)) * stages[i].slots *
                             jobs[i].in.channels * augment_blocks(jobs[i])));
    for (int i = 0; i < count; ++i)
      scratch.push_back(take_at(static_cast<std::int64_t>(sizeof(float)) * stages[i].scratch *
                                jobs[i].in.channels * channel_voxels(jobs[i])));
  }

  AugmentEntry entry(const AugmentJob* jobs, int job, int stage, int channel) const {
    const AugmentJob& j = jobs[job];
    const AugmentStage& s = stages[job].stage[stage];
    const auto volume = [&](int which) {
      return scratch[job] + static_cast<std::int64_t>(sizeof(float)) * channel_voxels(j) *
                                (static_cast<std::int64_t>(which) * j.in.channels + channel);
    };
    AugmentEntry e{job, channel, s, -1, -1, sums[job], augment_blocks(j), j.in.channels};
    if (s.fetch != AugmentFetch::source) e.from = volume(s.from);
    if (s.to >= 0) e.to = volume(s.to);
    return e;
  }

 private:
  std::int64_t take(std::int64_t n) {
    bytes += (n + 255) / 256 * 256;
    return bytes;
  }
  std::int64_t take_at(std::int64_t n) {
    const std::int64_t at = bytes;
    take(n);
    return at;
  }
};

}  // namespace sluice::kernels
