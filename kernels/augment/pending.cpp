#include "kernels/augment/pending.h"

#include <ATen/ops/empty.h>

#include "engine/base/borrowed_time.h"
#include "engine/base/error.h"

namespace sluice {
namespace {

constexpr Affine none{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

bool inside(const Box& box, const Shape3& shape) {
  for (int d = 0; d < 3; ++d)
    if (box.start[d] < 0 || box.size[d] < 1 || box.start[d] + box.size[d] > shape[d]) return false;
  return true;
}

// A box of a grid, its axes reordered: what flips, turns and crops come to.
struct Window {
  Box box;
  Reorder order;

  explicit Window(const Shape3& grid) : box{{}, grid} {}
  void reorder(const Reorder& r) {
    const Reorder before = order;
    for (int o = 0; o < 3; ++o) {
      order.from[o] = before.from[r.from[o]];
      order.flip[o] = before.flip[r.from[o]] != r.flip[o];
    }
  }
  void crop(const Box& b) {
    for (int o = 0; o < 3; ++o) {
      const int g = order.from[o];
      box.start[g] += order.flip[o] ? box.size[g] - b.start[o] - b.size[o] : b.start[o];
    }
    for (int o = 0; o < 3; ++o) box.size[order.from[o]] = b.size[o];
  }
  Affine map() const { return multiply(box_affine(box), reorder_affine(order, box.size)); }
};

// How a pad continues the volume, if a resampling's padding does the same.
bool continues(const PendingStep& pad, Padding padding) {
  if (pad.filling == Filling::edge) return padding == Padding::border;
  if (pad.filling == Filling::symmetric) return padding == Padding::reflection;
  return pad.filling == Filling::constant && pad.value == 0 && padding == Padding::zeros;
}

// Does the steps of one Pending on the host.
class OnHost {
 public:
  OnHost(const at::Tensor& source, at::ScalarType stands_for, bool lazy)
      : done_(to_volume(source)),
        source_(done_.const_data_ptr()),
        stands_for_(stands_for),
        window_(shape_of(done_)),
        lazy_(lazy) {}

  void add(const PendingStep& step) {
    if (step.kind == PendingStep::Kind::values) return changes_.push_back(&step);
    if (!changes_.empty()) flush();
    switch (step.kind) {
      case PendingStep::Kind::reorder:
        if (pad_) flush();
        moved_by_.add(step.owner);
        return window_.reorder(step.order);
      case PendingStep::Kind::box:
        return box(step);
      default:
        return resampling(step);
    }
  }

  at::Tensor result(const at::Tensor& into) {
    flush(into.defined() ? to_volume(into) : into, true);
    return done_;
  }

 private:
  void box(const PendingStep& step) {
    if (pad_) flush();
    if (inside(step.box, reorder_shape(window_.order, window_.box.size))) {
      moved_by_.add(step.owner);
      return window_.crop(step.box);
    }
    if (!first_ || !continues(step, first_->how.padding)) flush();
    pad_ = &step;
    if (!first_) flush();
  }

  // Of two that meet the maps are multiplied; else what waits is done.
  void resampling(const PendingStep& step) {
    if (lazy_ && first_ && composes(step)) {
      Affine between = window_.map();
      if (pad_) between = multiply(between, box_affine(pad_->box));
      if (pad_) moved_by_.add(pad_->owner);
      map_ = multiply(multiply(map_, between), step.to_source);
      many_ = true;
      by_ = step.by;
    } else {
      flush();
      first_ = &step;
      map_ = step.to_source;
      by_ = step.by;
    }
    sampled_by_.add(step.owner);
    pad_ = nullptr;
    shape_ = step.shape;
    window_ = Window(shape_);
  }

  bool composes(const PendingStep& step) const {
    const auto sampled = [](const PendingStep& s) {
      return !s.resized ||
             (s.resized->mode != Resizing::area && s.resized->mode != Resizing::cubic);
    };
    return !by_ && first_->how.mode == step.how.mode && sampled(*first_) && sampled(step);
  }

  // Does what waits, all of it where it is the `last` time: then what comes out is `into`, if that
  // is defined. The pass that can writes there itself.
  void flush(const at::Tensor& result = {}, bool last = false) {
    // What is filtered may not be read from where the result is written.
    const at::Tensor into = last_filter() ? at::Tensor() : result;
    const bool straight = window_.order == Reorder{};
    const bool linear = first_ && first_->how.mode == Interpolation::linear;
    const auto made = linear ? at::kFloat : done_.scalar_type();
    const bool direct = into.defined() && !pad_ && made == into.scalar_type();
    const at::Tensor to = direct ? into : at::Tensor();
    const auto picks = choice();
    if (first_ || !straight || window_.box != whole(done_)) timer_.begin(movers(picks && pad_));
    if (picks) {
      const bool fits = into.defined() && made == into.scalar_type();
      done_ = resize(done_, shape_, first_->resized->mode, first_->resized->align_corners, *picks,
                     fits ? into : at::Tensor());
      pad_ = nullptr;
    } else if (first_) {
      done_ = resampled_part(straight ? to : at::Tensor());
      if (!straight) done_ = reorder(done_, window_.order, whole(done_), to);
    } else if (!straight) {
      done_ = reorder(done_, window_.order, window_.box, to);
    } else if (window_.box != whole(done_)) {
      done_ = crop_pad(done_, window_.box, 0, to);
    }
    if (linear) stands_for_ = at::kFloat;
    if (pad_) timer_.begin(Owners(pad_->owner));
    if (pad_ && pad_->value != 0) widen({});  // it may not fit the narrow type
    if (pad_) done_ = crop_pad(done_, pad_->box, pad_->filling, pad_->value);
    if (!changes_.empty()) timer_.begin(Owners(changes_.front()->owner));
    if (last || !changes_.empty()) widen(into);
    change(result);
    if (result.defined() && !same(result)) done_ = result.copy_(done_);
    timer_.end();
    moved_by_ = sampled_by_ = {};
    first_ = pad_ = nullptr;
    by_.reset();
    many_ = false;
    window_ = Window(shape_of(done_));
  }

  // Whose steps the pass does that moves voxels. It is booked to the resampling's, else to the
  // first.
  Owners movers(bool pads) const {
    Owners all = sampled_by_;
    all.add(moved_by_);
    if (pads) all.add(pad_->owner);
    return all;
  }

  // A resize, the window and the pad after it are a choice of the whole result's voxels.
  std::optional<Picks> choice() const {
    if (!first_ || !first_->resized || many_ || window_.order != Reorder{}) return std::nullopt;
    Picks picks = picks_of(window_.box, shape_);
    if (!pad_) return picks;
    if (!repeats_voxels(pad_->filling)) return std::nullopt;
    Picks padded = picks_of(pad_->box, window_.box.size, pad_->filling);
    for (int d = 0; d < 3; ++d)
      for (std::int32_t& i : padded[d]) i = picks[d][i];
    return padded;
  }

  void widen(const at::Tensor& into) {
    if (done_.scalar_type() == stands_for_) return;
    const bool fits = into.defined() && into.scalar_type() == stands_for_;
    done_ = fits ? into.copy_(done_) : done_.to(stands_for_);
  }

  // In place, unless what is there is the source. The last that is not writes to `result`.
  void change(const at::Tensor& result) {
    const PendingStep* const filter = last_filter();
    at::Tensor into = filter ? at::Tensor() : result;
    for (const PendingStep* step : changes_) {
      timer_.begin(Owners(step->owner));
      if (step == filter) into = result;
      const bool own = done_.const_data_ptr() != source_ && done_.scalar_type() == at::kFloat;
      done_ = step->change(done_, own && step->in_place ? done_ : into);
      stands_for_ = at::kFloat;
    }
    changes_.clear();
  }
  const PendingStep* last_filter() const {
    const PendingStep* filter = nullptr;
    for (const PendingStep* step : changes_)
      if (!step->in_place) filter = step;
    return filter;
  }

  bool same(const at::Tensor& t) const { return done_.const_data_ptr() == t.const_data_ptr(); }

  at::Tensor resampled_part(const at::Tensor& into) const {
    if (first_->resized && !many_) {
      const at::Tensor all =
          resize(done_, shape_, first_->resized->mode, first_->resized->align_corners);
      return cut(all);
    }
    if (by_) return cut(resample(done_, map_, *by_, shape_, first_->how));
    return resample(done_, map_, shape_, first_->how, window_.box, into);
  }
  at::Tensor cut(const at::Tensor& all) const {
    return window_.box == whole(all) ? all : crop_pad(all, window_.box);
  }

  at::Tensor done_;
  const void* const source_;
  at::ScalarType stands_for_;                // what `done_` may be kept narrower than
  Window window_;                            // of what waits, else of what is done
  const PendingStep* first_ = nullptr;       // a resampling that waits; its mode and padding count
  const PendingStep* pad_ = nullptr;         // after the window
  std::vector<const PendingStep*> changes_;  // after all of these
  Affine map_ = none;                        // of all resamplings that wait
  std::optional<Displacement> by_;           // of the last of them
  Shape3 shape_{};
  bool many_ = false, lazy_;
  Owners moved_by_, sampled_by_;  // of the moves and resamplings that wait
  PassTimer timer_;
};

}  // namespace

// ---- steps --------------------------------------------------------------------------------------

Affine PendingStep::map(const Shape3& from) const {
  if (kind == Kind::reorder) return reorder_affine(order, from);
  if (kind == Kind::box) return box_affine(box);
  return kind == Kind::resample ? to_source : none;
}

Shape3 PendingStep::result(const Shape3& from) const {
  if (kind == Kind::reorder) return reorder_shape(order, from);
  if (kind == Kind::box) return box.size;
  return kind == Kind::resample ? shape : from;
}

PendingStep reordered(const Reorder& r) {
  PendingStep s{PendingStep::Kind::reorder};
  s.order = r;
  return s;
}

PendingStep boxed(const Box& box, Filling filling, double value) {
  for (int d = 0; d < 3; ++d)
    if (box.size[d] < 1)
      throw DataError("a crop of size " + std::to_string(box.size[d]) + " is empty");
  PendingStep s{PendingStep::Kind::box};
  s.box = box;
  s.filling = filling;
  s.value = value;
  return s;
}

PendingStep resampled(const Affine& to_source, const Shape3& shape, const Sampling& how) {
  PendingStep s{PendingStep::Kind::resample};
  s.to_source = to_source;
  s.shape = shape;
  s.how = how;
  return s;
}

PendingStep resampled(const Affine& to_source, const Displacement& by, const Shape3& shape,
                      const Sampling& how) {
  PendingStep s = resampled(to_source, shape, how);
  s.by = by;
  return s;
}

PendingStep resized(const Shape3& from, const Shape3& shape, Resizing mode, bool align_corners) {
  const bool nearest = mode == Resizing::nearest || mode == Resizing::nearest_exact;
  const Sampling how{nearest ? Interpolation::nearest : Interpolation::linear, Padding::border};
  PendingStep s = resampled(resize_affine(from, shape, align_corners), shape, how);
  s.resized = {mode, align_corners};
  return s;
}

PendingStep changed(std::vector<kernels::AugmentOp> ops, PendingStep::Change change) {
  PendingStep s{PendingStep::Kind::values};
  s.ops = std::move(ops);
  s.change = std::move(change);
  return s;
}

PendingStep filtered(std::vector<kernels::AugmentOp> ops, PendingStep::Change change) {
  PendingStep s = changed(std::move(ops), std::move(change));
  s.in_place = false;
  return s;
}

// ---- Pending ------------------------------------------------------------------------------------

Pending::Pending(const at::Tensor& tensor) : Pending(tensor, tensor.scalar_type()) {}

Pending::Pending(const at::Tensor& tensor, at::ScalarType stands_for)
    : source_(tensor), stands_for_(stands_for), shape_(shape_of(tensor)) {}

void Pending::add(PendingStep step) {
  if (the_body && step.owner < 0) step.owner = the_body->position();
  shape_ = step.result(shape_);
  steps_.push_back(std::move(step));
}

std::vector<std::int64_t> Pending::sizes() const {
  std::vector<std::int64_t> out{source_.size(0)};
  out.insert(out.end(), shape_.begin(), shape_.begin() + axes());
  return out;
}

at::ScalarType Pending::dtype() const {
  for (const PendingStep& s : steps_)
    if (s.kind == PendingStep::Kind::values ||
        (s.kind == PendingStep::Kind::resample && s.how.mode == Interpolation::linear))
      return at::kFloat;
  return stands_for_;
}

at::Tensor Pending::done(bool lazy, const at::Tensor& into) const {
  if (done_as_jobs(source_) && !steps_.empty()) {
    const Pending* const all[]{this};
    const at::Tensor outs[]{into.defined() ? into
                                           : at::empty(sizes(), source_.options().dtype(dtype()))};
    do_as_jobs(all, outs, lazy);
    return outs[0];
  }
  OnHost work(source_, stands_for_, lazy);
  for (const PendingStep& step : steps_) work.add(step);
  return from_volume(work.result(into), axes());
}

}  // namespace sluice
