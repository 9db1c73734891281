// Transforms whose work may be left pending for the next node of a run (engine/plan/plan.h): what
// each would do is recorded, geometry and history included, and the last one does all of it.
//
//   Sample out = f.in();
//   for_each_pending(out, p.keys, p.allow_missing_keys,
//                    [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
//     record(field, reordered(r), "rand_flip", {r.flip.begin(), r.flip.end()});
//   });
//   finish(f, std::move(out));  // on every way out, or pass(f)
//
// Invariant: what leaves a node that is not told to leave work pending has none.
#pragma once

#include "kernels/augment/pending.h"
#include "nodes/transform/transform.h"

namespace sluice {

// Of resizing_names and filling_names those that pending_jobs.cpp does.
inline const std::vector<std::string> resizing_on_device{"nearest", "nearest-exact", "linear",
                                                         "bilinear", "trilinear"},
    filling_on_device{"constant", "edge", "replicate", "symmetric"};

// Does what is pending.
inline void settle(Field& field, bool lazy) {
  if (!field.pending) return;
  field.tensor = field.pending->done(lazy);
  field.pending.reset();
}

// One more step, which changes neither geometry nor history.
inline Pending& append(Field& field, PendingStep step) {
  auto longer = field.pending ? std::make_shared<Pending>(*field.pending)
                              : std::make_shared<Pending>(field.tensor);
  longer->add(std::move(step));
  Pending& pending = *longer;
  field.pending = std::move(longer);
  return pending;
}

inline Shape3 shape_of(const Field& field) {
  return field.pending ? field.pending->shape() : Pending(field.tensor).shape();
}

// As record() of nodes/fields.h, of what will be done; `affine` is the result's.
inline void record(Field& field, PendingStep step, const Affine& affine, std::string transform,
                   std::vector<double> values) {
  const Shape3 shape = shape_of(field);
  Applied applied{std::move(transform),
                  field.geometry().affine,
                  {shape.begin(), shape.begin() + field.tensor.dim() - 1},
                  std::move(values)};
  field.meta = {with_affine(field.geometry(), affine, std::move(applied))};
  append(field, std::move(step));
}
inline void record(Field& field, PendingStep step, std::string transform,
                   std::vector<double> values) {
  const Affine affine = multiply(field.geometry().affine, step.map(shape_of(field)));
  record(field, std::move(step), affine, std::move(transform), std::move(values));
}

// Calls fn(field, shape of what is pending, spatial axes, i) for the i-th key.
template <class Fn>
void for_each_pending(Sample& sample, const std::vector<std::string>& keys, bool allow_missing,
                      Fn&& fn, int least = 2) {
  for_each_key(sample, keys, allow_missing, [&](Field& field, std::size_t i) {
    require_spatial(field.tensor, keys[i], least);
    fn(field, shape_of(field), field.tensor.dim() - 1, i);
  });
}

// Each key to box_of(shape, spatial axes, i), by step_to(box, i) unless that is all of it.
template <class P, class BoxOf, class StepTo>
void take_box(Sample& sample, const P& p, const char* name, BoxOf&& box_of, StepTo&& step_to) {
  for_each_pending(
      sample, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
        const Box box = box_of(shape, axes, i);
        if (box == Box{{}, shape}) return;
        record(field, step_to(box, i), name, numbers(box));
      },
      1);
}

// One operation for all channels, whose statistics are taken together, or each by its own.
inline std::vector<kernels::AugmentOp> ops_of(kernels::AugmentKind kind, std::pair<float, float> a,
                                              bool channel_wise = false) {
  return {
      {kind, channel_wise ? kernels::each_channel : kernels::all_channels, {a.first, a.second}}};
}
inline std::vector<kernels::AugmentOp> linear_ops(const std::vector<kernels::Linear>& functors) {
  std::vector<kernels::AugmentOp> ops;
  for (std::size_t c = 0; c < functors.size(); ++c)
    ops.push_back({kernels::AugmentKind::linear,
                   functors.size() == 1 ? kernels::all_channels : static_cast<std::int32_t>(c),
                   {functors[c].gain, functors[c].offset}});
  return ops;
}

struct FusedNode : Node {
  void open(const OpenContext& context) override {
    leaves_ = context.leaves;
    lazy_ = context.lazy;
  }

 protected:
  void finish(Firing& f, Sample out) const {
    for (auto& [key, field] : out.fields())
      if (!leaves(field)) settle(field, lazy_);
    f.emit(std::move(out));
  }
  // Nothing to do to what came in.
  void pass(Firing& f) const {
    for (const auto& [key, field] : f.in().fields())
      if (field.pending && !leaves(field)) return finish(f, f.in());
    f.emit_ptr(f.ptr());
  }
  static at::ScalarType dtype_of(const Field& field) {
    return field.pending ? field.pending->dtype() : field.tensor.scalar_type();
  }
  void become_float(Field& field) const {
    if (dtype_of(field) == at::kFloat) return;
    settle(field, lazy_);
    field.tensor = field.tensor.to(at::kFloat);
  }
  // Voxel by voxel: as `ops` where jobs do it, else by `change`; both are the same function.
  // `limited`: what of it no job does.
  void change_values(Field& field, std::vector<kernels::AugmentOp> ops, PendingStep::Change change,
                     const char* limited = nullptr) const {
    if (!may_wait(field)) {
      field.tensor = change(field.tensor, {});
      return;
    }
    PendingStep step = changed(std::move(ops), std::move(change));
    step.limited = limited;
    append(field, std::move(step));
  }
  // On the host alone, for a field that no job works on. It is left pending where its result is
  // float32: of another type it comes out as `change` makes it.
  void change_on_host(Field& field, PendingStep::Change change) const {
    if (dtype_of(field) == at::kFloat && may_wait(field)) {
      append(field, changed({}, std::move(change)));
      return;
    }
    settle(field, lazy_);
    field.tensor = change(field.tensor, {});
  }

 private:
  // What Pending takes; anything else has nothing pending either.
  static bool may_wait(const Field& field) {
    return field.tensor.dim() >= 2 && field.tensor.dim() <= 4;
  }
  bool leaves(const Field& field) const {
    return leaves_ == Leaves::always ||
           (leaves_ == Leaves::on_device && field.tensor.defined() && done_as_jobs(field.tensor));
  }

  Leaves leaves_ = Leaves::nothing;
  bool lazy_ = false;
};

}  // namespace sluice
