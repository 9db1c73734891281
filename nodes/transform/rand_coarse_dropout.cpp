// rand_coarse_dropout: MONAI's RandCoarseDropoutd. The same holes in all keys.
#include "kernels/image/holes.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/coarse_boxes.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandCoarseDropout final : FusedNode {
  struct Params : CoarseParams {
    bool dropout_holes = true;
    std::optional<std::vector<double>> fill_value;
  } p;

  static Spec spec() {
    Spec s("rand_coarse_dropout", "Fills boxes at random places, or all but them.");
    return add_coarse_params(s)
        .param("dropout_holes", &Params::dropout_holes,
               "Fill the boxes; otherwise everything around them.")
        .param(
            "fill_value", &Params::fill_value,
            "With this; or, for each voxel anew, uniform in [low, high]; null: the image's range.")
        .length(1, 2)
        .fuses(Fuses::values)
        .any_device();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    p.check();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    std::vector<Box> boxes;  // drawn for the first key's size
    Random::Stream stream{};
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       if (boxes.empty()) {
                         boxes = p.draw_boxes(random, shape, axes);
                         stream = random.stream();
                       }
                       CoarseParams::check_inside(boxes, shape, p.keys[i]);
                       const Filled filled{boxes, p.fill_value.value_or(std::vector<double>{}),
                                           stream, p.dropout_holes};
                       if (done_as_jobs(field.tensor))
                         append(field, job_of(filled, dtype_of(field)));
                       else if (p.dropout_holes || dtype_of(field) != at::kFloat)
                         change_on_host(field, filled);
                       else
                         append(field, filtered({}, filled));
                     });
    finish(f, std::move(out));
  }

 private:
  // What is done to a volume, or to a picture as it is.
  struct Filled {
    std::vector<Box> boxes;
    std::vector<double> value;  // none: the image's range
    Random::Stream stream;
    bool inside;

    at::Tensor operator()(const at::Tensor& from, const at::Tensor& into) const {
      const at::Tensor volume = to_volume(from);
      HoleFilling filling{0, 0, stream};
      if (!value.empty()) {
        filling.low = static_cast<float>(value.front());
        filling.high = static_cast<float>(value.back());
      } else {
        const auto range = kernels::ranges(volume, false).at(0);
        filling.low = range.low, filling.high = range.high;
      }
      return from_volume(fill_holes_in(volume, boxes, inside, filling, into), from.dim() - 1);
    }
  };

  static PendingStep job_of(const Filled& filled, at::ScalarType type) {
    PendingStep step = changed({}, filled);
    const auto& value = filled.value;
    if (!filled.inside || value.empty() || value.front() != value.back() || type != at::kFloat ||
        filled.boxes.size() > kernels::augment_ops)
      step.limited = "a dropout other than of few boxes of a float32 image, filled with one value,";
    else
      for (const Box& box : filled.boxes) {
        step.ops.push_back({kernels::AugmentKind::hole});
        step.ops.back().a[6] = static_cast<float>(value.front());
        step.holes.push_back(box);
      }
    return step;
  }
};

const Register<RandCoarseDropout> registered;

}  // namespace
}  // namespace sluice
