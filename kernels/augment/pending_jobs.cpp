// Pending work as fused jobs: every tensor's steps are cut where a job cannot take another, and the
// n-th jobs of all tensors go out together.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "engine/base/borrowed_time.h"
#include "engine/base/error.h"
#include "kernels/augment/augment_chain.h"
#include "kernels/augment/fused_augment.h"
#include "kernels/augment/pending.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {
namespace {

using namespace kernels;

bool host_plays = false;

// The jobs of one tensor, one after the other.
class Jobs {
 public:
  Jobs(const Pending& work, bool lazy) : lazy_(lazy), axes_(static_cast<int>(work.axes())) {
    begin(work.source().contiguous());
    for (const PendingStep& step : work.steps()) {
      later_ =
          std::any_of(&step + 1, work.steps().data() + work.steps().size(),
                      [](const PendingStep& s) { return s.kind == PendingStep::Kind::resample; });
      if (take(step)) continue;
      if (!empty_) next();
      if (!take(step)) refuse(step);
    }
  }
  std::vector<AugmentJob> into(const at::Tensor& out) {
    end(out);
    return std::move(jobs_);
  }

 private:
  void begin(at::Tensor source) {
    held_.push_back(std::move(source));
    const at::Tensor& t = held_.back();
    chain_.emplace(view_of(t.const_data_ptr(), voxel_type(t), t.size(0), shape_of(t)),
                   std::max(axes_, 2));  // a signal is an image with Y = 1
    empty_ = true;
    floats_ = elastic_ = false;
    how_.reset();
  }
  void end(const at::Tensor& out) {
    const AugmentOutput o =
        output_of(out.mutable_data_ptr(), voxel_type(out), out.size(0), chain_->shape());
    jobs_.push_back(chain_->job(o));
  }
  // What was taken so far gets a tensor of its own, and the next job reads that.
  void next() {
    const Shape3 n = chain_->shape();
    std::vector<std::int64_t> sizes{held_.back().size(0)};
    sizes.insert(sizes.end(), n.begin(), n.begin() + axes_);
    const auto type = floats_ ? at::kFloat : held_.back().scalar_type();
    const at::Tensor made = at::empty(sizes, held_.back().options().dtype(type));
    end(made);
    begin(made);
  }

  bool take(const PendingStep& step) {
    const bool taken = step.kind == PendingStep::Kind::reorder  ? chain_->reorder(step.order)
                       : step.kind == PendingStep::Kind::box    ? box(step)
                       : step.kind == PendingStep::Kind::values ? values(step)
                                                                : resampling(step);
    if (taken) empty_ = false;
    return taken;
  }

  // A pad that repeats voxels is a nearest resampling by whole voxels, in a job of its own: the
  // padding is that of the volume as it is by then.
  bool box(const PendingStep& step) {
    const Shape3 n = chain_->shape();
    bool inside = true;
    for (int d = 0; d < 3; ++d)
      inside &= step.box.start[d] >= 0 && step.box.start[d] + step.box.size[d] <= n[d];
    if (inside || step.filling == Filling::constant)
      return chain_->crop(step.box.start, step.box.size, static_cast<float>(step.value));
    if (step.filling != Filling::edge && step.filling != Filling::symmetric) return false;
    const Padding padding = step.filling == Filling::edge ? Padding::border : Padding::reflection;
    if (lazy_ && later_ && how_ && how_->padding == padding && !elastic_)
      return chain_->affine(box_affine(step.box), step.box.size, {});
    if (!empty_) return false;
    how_ = Sampling{Interpolation::nearest, padding};
    return chain_->affine(box_affine(step.box), step.box.size, {Interpolation::nearest, padding});
  }

  // With `lazy`, and only with what it would be joined to of the same mode.
  bool composes(const Sampling& how) const {
    return lazy_ && how_ && how_->mode == how.mode && !elastic_;
  }

  bool resampling(const PendingStep& step) {
    const bool first = chain_->interpolations() == 0;
    if (!possible(step) || (!first && !composes(step.how))) return false;
    const AugmentChain::Resampling how{step.how.mode, step.how.padding};
    if (step.by) {
      const at::Tensor nodes =
          step.by->nodes.contiguous().to(held_.back().device(), /*non_blocking=*/true);
      held_.push_back(nodes);
      std::swap(held_.back(), held_[held_.size() - 2]);  // the source stays the last
      if (!chain_->elastic(step.to_source, step.shape, how,
                           {nodes.const_data_ptr<float>(),
                            {nodes.size(1), nodes.size(2), nodes.size(3)},
                            step.by->step}))
        return false;
      elastic_ = true;
    } else if (!chain_->affine(map_of(step, first), step.shape, how)) {
      return false;
    }
    if (first) how_ = step.how;
    floats_ |= step.how.mode == Interpolation::linear;
    return true;
  }

  // torch's "nearest" takes the voxel that a new one's lower face lies in and not its centre's, and
  // both round a place between two voxels up; where resamplings are joined, it is the centre's.
  Affine map_of(const PendingStep& step, bool first) const {
    Affine m = step.to_source;
    if (!step.resized || step.how.mode == Interpolation::linear || !first || (lazy_ && later_))
      return m;
    for (int d = 0; d < 3; ++d)
      m[4 * d + 3] = (step.resized->mode == Resizing::nearest ? -0.5 : m[4 * d + 3]) + 1e-4;
    return m;
  }

  static bool possible(const PendingStep& step) {
    if (step.how.align_corners && step.how.padding == Padding::reflection) return false;
    return !step.resized || step.resized->mode == Resizing::linear ||
           step.resized->mode == Resizing::nearest || step.resized->mode == Resizing::nearest_exact;
  }

  bool values(const PendingStep& step) {
    if (step.limited) return false;
    AugmentChain longer = *chain_;
    for (std::size_t i = 0; i < step.ops.size(); ++i)
      if (!value(longer, step, i)) return false;
    chain_ = longer;
    return floats_ = true;
  }
  static bool value(AugmentChain& chain, const PendingStep& step, std::size_t i) {
    const AugmentOp& op = step.ops[i];
    if (op.kind == AugmentKind::hole)
      return chain.hole(step.holes[i].start, step.holes[i].size, op.a[6]);
    if (op.kind == AugmentKind::blur) return chain.blur(step.taps);
    if (op.kind == AugmentKind::bias) return chain.bias(step.bias);
    if (op.kind != AugmentKind::low_resolution) return chain.add(op);
    return chain.low_resolution({static_cast<std::int64_t>(op.a[0]),
                                 static_cast<std::int64_t>(op.a[1]),
                                 static_cast<std::int64_t>(op.a[2])});
  }

  [[noreturn]] static void refuse(const PendingStep& step) {
    blamed = Owners(step.owner);
    std::string what = step.limited ? step.limited : "this step";
    if (step.kind == PendingStep::Kind::box) what = "a pad other than constant, edge or symmetric";
    if (step.resized) what = "a resize other than linear or nearest";
    if (step.how.align_corners) what = "reflection at the voxels' centres (align_corners)";
    throw DataError(what + " is not done on a GPU; put the node in front of to_device");
  }

  const bool lazy_;
  const int axes_;
  std::vector<AugmentJob> jobs_;
  std::optional<AugmentChain> chain_;
  std::vector<at::Tensor> held_;  // what jobs read; the last is what the chain reads
  std::optional<Sampling> how_;   // of the chain's first resampling
  bool empty_ = true, floats_ = false, elastic_ = false;
  bool later_ = false;  // another resampling follows
};

void launch(const std::vector<AugmentJob>& jobs, const at::Tensor& like) {
  const int n = static_cast<int>(jobs.size());
  if (const char* problem = sluice_augment_problem(jobs.data(), n))
    throw DataError(std::string("fused augmentation: ") + problem);
  const std::size_t bytes = sluice_augment_workspace(jobs.data(), n);
  if (like.is_cuda()) {
    if (!cuda_library()) throw Error(Exit::gpu, "libsluice_cuda.so is not there, or finds no GPU");
    const CudaCall call(like);
    const at::Tensor workspace = call.memory(bytes);
    return call.require(
        call.table.augment(jobs.data(), n, workspace.mutable_data_ptr(), call.stream));
  }
  const at::Tensor workspace = at::empty({static_cast<std::int64_t>(bytes) + 256}, at::kByte);
  const auto start = reinterpret_cast<std::uintptr_t>(workspace.mutable_data_ptr());
  sluice_augment_cpu(jobs.data(), n, reinterpret_cast<void*>((start + 255) / 256 * 256));
}

}  // namespace

bool done_as_jobs(const at::Tensor& t) { return t.is_cuda() || host_plays; }
void host_plays_device(bool does) { host_plays = does; }

// A launch does the work of all at once, and the device's time is known of a body as a whole: it is
// booked to the node whose body this is.
static Owners owners_of(std::span<const Pending* const> all) {
  Owners owners(the_body ? the_body->position() : -1);
  for (const Pending* one : all)
    for (const PendingStep& step : one->steps()) owners.add(step.owner);
  return owners;
}

void do_as_jobs(std::span<const Pending* const> all, std::span<const at::Tensor> outs, bool lazy) {
  std::vector<Jobs> makers;  // they hold what lies between two jobs
  std::vector<std::vector<AugmentJob>> jobs;
  std::size_t rounds = 0;
  makers.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    makers.emplace_back(*all[i], lazy);
    jobs.push_back(makers.back().into(outs[i]));
    rounds = std::max(rounds, jobs.back().size());
  }
  PassTimer timer;
  timer.begin(owners_of(all));
  for (std::size_t r = 0; r < rounds; ++r) {
    std::vector<AugmentJob> together;
    for (const auto& one : jobs)
      if (r < one.size()) together.push_back(one[r]);
    launch(together, outs.front());
  }
}

}  // namespace sluice
