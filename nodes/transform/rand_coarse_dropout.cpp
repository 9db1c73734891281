// rand_coarse_dropout: MONAI's RandCoarseDropoutd. The same holes in all keys.
#include "engine/run/registry.h"
#include "kernels/image/holes.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandCoarseDropout final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::int64_t holes = 1;
    std::vector<std::int64_t> spatial_size;
    bool dropout_holes = true;
    std::optional<std::vector<double>> fill_value;
    std::optional<std::int64_t> max_holes;
    std::optional<std::vector<std::int64_t>> max_spatial_size;
    double prob = 0.1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_coarse_dropout", "Fills boxes at random places, or all but them.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, X, Y, Z] or [C, X, Y].")
        .param("holes", &Params::holes, "How many boxes; with max_holes, at least.")
        .required()
        .at_least(1)
        .param("spatial_size", &Params::spatial_size,
               "Their size in voxels, one or one an axis; with max_spatial_size, at least; 0 or "
               "less: the whole axis.")
        .required()
        .length(1, 3)
        .param("dropout_holes", &Params::dropout_holes,
               "Fill the boxes; otherwise everything around them.")
        .param(
            "fill_value", &Params::fill_value,
            "With this; or, for each voxel anew, uniform in [low, high]; null: the image's range.")
        .length(1, 2)
        .param("max_holes", &Params::max_holes, "At most so many boxes, drawn.")
        .at_least(1)
        .param("max_spatial_size", &Params::max_spatial_size, "At most so large, drawn.")
        .length(1, 3)
        .param("prob", &Params::prob, "Probability that a sample is changed.")
        .range(0, 1)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .fuses(Fuses::values)
        .any_device()
        .takes("@keys", Form::image, 2, 3);
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.max_holes && *p.max_holes < p.holes) throw Error(Exit::usage, "max_holes is below holes");
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
                         boxes = draw_boxes(random, shape, axes);
                         stream = random.stream();
                       }
                       check_inside(boxes, shape, p.keys[i]);
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

  static std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
    if (high <= low) return low;
    return low +
           static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(high - low + 1)));
  }

  std::vector<Box> draw_boxes(Random& random, const Shape3& shape, std::int64_t axes) const {
    const std::int64_t holes = between(random, p.holes, p.max_holes.value_or(p.holes));
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i < holes; ++i) {
      Shape3 size = fall_back(p.spatial_size, shape, axes);
      const Shape3 most = p.max_spatial_size ? fall_back(*p.max_spatial_size, shape, axes) : size;
      Box box;
      for (int d = 0; d < 3; ++d) {
        box.size[d] = std::min(between(random, size[d], most[d]), shape[d]);
        box.start[d] = between(random, 0, shape[d] - box.size[d]);
      }
      boxes.push_back(box);
    }
    return boxes;
  }

  static void check_inside(const std::vector<Box>& boxes, const Shape3& shape,
                           const std::string& key) {
    for (const Box& box : boxes)
      for (int d = 0; d < 3; ++d)
        if (box.start[d] + box.size[d] > shape[d])
          throw DataError("field \"" + key + "\" is smaller than the first key's");
  }
};

const Register<RandCoarseDropout> registered;

}  // namespace
}  // namespace sluice
