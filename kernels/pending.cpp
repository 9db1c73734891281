#include "kernels/pending.h"

#include "engine/error.h"

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
  OnHost(const at::Tensor& source, bool lazy)
      : done_(to_volume(source)), window_(shape_of(done_)), lazy_(lazy) {}

  void add(const PendingStep& step) {
    switch (step.kind) {
      case PendingStep::Kind::reorder:
        if (pad_) flush();
        return window_.reorder(step.order);
      case PendingStep::Kind::box:
        return box(step);
      case PendingStep::Kind::resample:
        return resampling(step);
      case PendingStep::Kind::values:
        throw std::logic_error("values are never left pending on the host");
    }
  }

  at::Tensor result() {
    flush();
    return done_;
  }

 private:
  void box(const PendingStep& step) {
    if (pad_) flush();
    if (inside(step.box, reorder_shape(window_.order, window_.box.size)))
      return window_.crop(step.box);
    if (!first_ || !continues(step, first_->how.padding)) flush();
    pad_ = &step;
    if (!first_) flush();
  }

  // Of two that meet the maps are multiplied; else what waits is done.
  void resampling(const PendingStep& step) {
    if (lazy_ && first_ && composes(step)) {
      Affine between = window_.map();
      if (pad_) between = multiply(between, box_affine(pad_->box));
      map_ = multiply(multiply(map_, between), step.to_source);
      many_ = true;
      by_ = step.by;
    } else {
      flush();
      first_ = &step;
      map_ = step.to_source;
      by_ = step.by;
    }
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

  void flush() {
    const bool straight = window_.order == Reorder{};
    if (first_) {
      done_ = resampled_part();
      if (!straight) done_ = reorder(done_, window_.order);
    } else if (!straight) {
      done_ = reorder(done_, window_.order, window_.box);
    } else if (window_.box != whole(done_)) {
      done_ = crop_pad(done_, window_.box);
    }
    if (pad_) done_ = crop_pad(done_, pad_->box, pad_->filling, pad_->value);
    first_ = pad_ = nullptr;
    by_.reset();
    many_ = false;
    window_ = Window(shape_of(done_));
  }

  at::Tensor resampled_part() const {
    if (first_->resized && !many_) {
      const at::Tensor all =
          resize(done_, shape_, first_->resized->mode, first_->resized->align_corners);
      return cut(all);
    }
    if (by_) return cut(resample(done_, map_, *by_, shape_, first_->how));
    return resample(done_, map_, shape_, first_->how, window_.box);
  }
  at::Tensor cut(const at::Tensor& all) const {
    return window_.box == whole(all) ? all : crop_pad(all, window_.box);
  }

  at::Tensor done_;
  Window window_;                       // of what waits, else of what is done
  const PendingStep* first_ = nullptr;  // a resampling that waits; its mode and padding count
  const PendingStep* pad_ = nullptr;    // behind the window
  Affine map_ = none;                   // of all resamplings that wait
  std::optional<Displacement> by_;      // of the last of them
  Shape3 shape_{};
  bool many_ = false, lazy_;
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

PendingStep changed(std::vector<kernels::AugmentOp> ops) {
  PendingStep s{PendingStep::Kind::values};
  s.ops = std::move(ops);
  return s;
}

// ---- Pending ------------------------------------------------------------------------------------

Pending::Pending(const at::Tensor& tensor)
    : source_(tensor),
      shape_{tensor.size(1), tensor.size(2), tensor.dim() > 3 ? tensor.size(3) : 1} {}

void Pending::add(PendingStep step) {
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
  return source_.scalar_type();
}

at::Tensor Pending::done(bool lazy) const {
  if (steps_.empty()) return source_;
  if (done_as_jobs(source_)) {
    const Pending* const all[]{this};
    const at::Tensor outs[]{at::empty(sizes(), source_.options().dtype(dtype()))};
    do_as_jobs(all, outs, lazy);
    return outs[0];
  }
  OnHost work(source_, lazy);
  for (const PendingStep& step : steps_) work.add(step);
  return from_volume(work.result(), axes());
}

}  // namespace sluice
