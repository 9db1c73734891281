// Cuts a job's operations into stages: what one pass over the voxels can do.
//
//   source -> linear noise | contrast -> ... | blur x | blur y | blur z -> rescale -> output
//            stage 0       ^ needs the       ^ needs neighbours
//                            whole image's range
//
// Invariant: a stage reads the view (the first) or one scratch volume, and writes the output (the
// last) or a scratch volume; one that reads neighbours, in space or in colour, never writes what it
// reads.
#pragma once

#include "kernels/augment/augment_job.h"

namespace sluice::kernels {

enum class AugmentFetch : std::uint8_t {
  source,
  scratch,
  blur_x,
  blur_y,
  blur_z,
  low_resolution,
  colors
};

struct AugmentStage {
  AugmentFetch fetch = AugmentFetch::source;
  std::int8_t from = 0, to = -1;    // scratch volumes; -1: the output
  std::int8_t slot = -1, old = -1;  // statistics that its first operation reads
  std::int8_t made = -1;            // statistics of what it writes
  std::int8_t first = 0, end = 0;   // operations
  std::int8_t filter = -1;          // low_resolution, colors: the operation
};

inline constexpr int augment_stages = 3 * augment_ops + 1;

struct AugmentStages {
  int count = 0, slots = 0, scratch = 0;  // scratch: how many volumes it needs
  AugmentStage stage[augment_stages];
};

inline bool needs_statistics(AugmentKind k) {
  return k == AugmentKind::contrast || k == AugmentKind::mean_contrast ||
         k == AugmentKind::gray_contrast || k == AugmentKind::std_shift ||
         k == AugmentKind::standardize || k == AugmentKind::to_range || k == AugmentKind::restore;
}

inline bool mixes_colors(AugmentKind k) {
  return k == AugmentKind::saturation || k == AugmentKind::hue;
}

namespace detail {

// Ends the stage under way, so that the next one can read all of what it made.
inline AugmentStage& next_stage(AugmentStages& s, AugmentFetch fetch, int at) {
  AugmentStage& last = s.stage[s.count - 1];
  const bool neighbours = last.fetch != AugmentFetch::source && last.fetch != AugmentFetch::scratch;
  last.to = static_cast<std::int8_t>(last.fetch == AugmentFetch::source ? 0
                                     : neighbours                       ? 1 - last.from
                                                                        : last.from);
  s.scratch = s.scratch > last.to + 1 ? s.scratch : last.to + 1;
  AugmentStage& next = s.stage[s.count++];
  next = AugmentStage{};
  next.fetch = fetch;
  next.from = last.to;
  next.first = next.end = static_cast<std::int8_t>(at);
  return next;
}

}  // namespace detail

inline AugmentStages stages_of(const AugmentJob& job) {
  AugmentStages s;
  s.count = 1;
  std::int8_t before_contrast = -1;
  for (int i = 0; i < job.op_count; ++i) {
    const AugmentKind kind = job.ops[i].kind;
    if (needs_statistics(kind)) {
      const auto slot = static_cast<std::int8_t>(s.slots++);
      s.stage[s.count - 1].made = slot;
      AugmentStage& next = detail::next_stage(s, AugmentFetch::scratch, i);
      next.slot = slot;
      next.old = before_contrast;
      if (kind == AugmentKind::contrast) before_contrast = slot;
    } else if (kind == AugmentKind::blur) {
      detail::next_stage(s, AugmentFetch::blur_x, i);
      detail::next_stage(s, AugmentFetch::blur_y, i);
      detail::next_stage(s, AugmentFetch::blur_z, i);
      AugmentStage& last = s.stage[s.count - 1];
      last.first = last.end = static_cast<std::int8_t>(i + 1);
      continue;
    } else if (kind == AugmentKind::low_resolution || mixes_colors(kind)) {
      AugmentStage& next = detail::next_stage(
          s, mixes_colors(kind) ? AugmentFetch::colors : AugmentFetch::low_resolution, i);
      next.filter = static_cast<std::int8_t>(i);
      next.first = next.end = static_cast<std::int8_t>(i + 1);
      continue;
    }
    s.stage[s.count - 1].end = static_cast<std::int8_t>(i + 1);
  }
  return s;
}

}  // namespace sluice::kernels
