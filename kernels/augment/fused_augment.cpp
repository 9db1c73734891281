#include "kernels/augment/fused_augment.h"

#include "kernels/augment/augment_layout.h"

namespace sluice::kernels {
namespace {

// One partial sum a channel and slot, where the device keeps one a block.
AugmentSums* sums_of(const AugmentEntry& e, char* workspace, int slot, int channel) {
  return reinterpret_cast<AugmentSums*>(workspace + e.sums) +
         (static_cast<std::int64_t>(slot) * e.channels + channel) * e.blocks;
}

// Of one channel, or of all together.
AugmentSums read_sums(const AugmentEntry& e, char* workspace, int slot, const AugmentOp& op) {
  if (slot < 0) return {};
  const int channel = measured_channel(op, e.channel);
  if (channel >= 0) return *sums_of(e, workspace, slot, channel);
  AugmentSums all;
  for (int c = 0; c < e.channels; ++c)
    all.add(counted(op, *sums_of(e, workspace, slot, c), c, e.channels));
  return all;
}

void run_entry(const AugmentJob& job, const AugmentEntry& e, char* workspace) {
  AugmentPass pass = pass_of(job, e, workspace);
  if (e.stage.slot >= 0) {
    const AugmentOp& op = job.ops[e.stage.first];
    pass.numbers = AugmentNumbers::of(op, read_sums(e, workspace, e.stage.slot, op),
                                      read_sums(e, workspace, e.stage.old, op));
  }
  AugmentSums sums;
  const auto rows = [&](const auto& fetch) {
    for (int x = 0; x < job.out.size[0]; ++x)
      for (int y = 0; y < job.out.size[1]; ++y) augment_row(pass, fetch, x, y, 0, 1, sums);
  };
  if (e.stage.fetch == AugmentFetch::source)
    with_source(job, e.channel, rows);
  else
    with_scratch(job, e.stage, e.channel, reinterpret_cast<const float*>(workspace + e.from), rows);
  if (e.stage.made >= 0) *sums_of(e, workspace, e.stage.made, e.channel) = sums;
}

const char* problem(const AugmentJob& j) {
  if (!j.in.data || !j.out.data) return "a job without data or without an output";
  if (j.in.channels < 1) return "a job without channels";
  if (j.op_count < 0 || j.op_count > augment_ops) return "more operations than a job holds";
  for (int d = 0; d < 3; ++d) {
    if (j.in.size[d] < 1 || j.out.size[d] < 1) return "an empty axis";
    if (j.reach[d] < 0 || j.reach[d] > blur_reach) return "a blur that reaches too far";
    if (j.moves.from[d] < 0 || j.moves.from[d] > 2) return "a move from an axis there is not";
    if (j.sampling.nodes && j.sampling.node_count[d] < 1) return "a displacement without nodes";
  }
  if (j.sampling.node_step < 1) return "a displacement with a step below 1";
  for (int i = 0; i < j.op_count; ++i) {
    const AugmentOp& op = j.ops[i];
    if (op.channel >= j.in.channels) return "an operation on a channel there is not";
    const bool filter = op.kind == AugmentKind::blur || op.kind == AugmentKind::low_resolution;
    if ((filter || mixes_colors(op.kind)) && op.channel >= 0)
      return "a filter of one channel alone";
    if (mixes_colors(op.kind) && j.in.channels != 3) return "colours of other than three channels";
    if (op.kind == AugmentKind::low_resolution)
      for (int d = 0; d < 3; ++d)
        if (!(op.a[d] >= 1)) return "a low resolution without voxels";
  }
  return nullptr;
}

}  // namespace
}  // namespace sluice::kernels

using sluice::kernels::AugmentJob;
using sluice::kernels::AugmentLayout;

const char* sluice_augment_problem(const AugmentJob* jobs, int count) {
  for (int i = 0; i < count; ++i)
    if (const char* p = sluice::kernels::problem(jobs[i])) return p;
  return nullptr;
}

std::size_t sluice_augment_workspace(const AugmentJob* jobs, int count) {
  return static_cast<std::size_t>(AugmentLayout(jobs, count).bytes);
}

bool sluice_augment_cpu(const AugmentJob* jobs, int count, void* workspace) {
  if (sluice_augment_problem(jobs, count)) return false;
  const AugmentLayout layout(jobs, count);
  for (int i = 0; i < count; ++i)
    for (int s = 0; s < layout.stages[i].count; ++s)
      for (int c = 0; c < jobs[i].in.channels; ++c)
        sluice::kernels::run_entry(jobs[i], layout.entry(jobs, i, s, c),
                                   static_cast<char*>(workspace));
  return true;
}
