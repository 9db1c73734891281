// synthetic: images of balls (or discs) and their labels, made as MONAI's create_test_image_3d
// (_2d) makes them; for trying a graph out where there is no data.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/lists/numpy_random.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Synthetic final : Node {
  struct Params {
    std::int64_t num_samples = 0, first = 0, seed = 0;
    std::vector<std::int64_t> spatial_size{128, 128, 128};
    std::int64_t num_objs = 12, rad_max = 30, rad_min = 5, num_seg_classes = 5;
    double noise_max = 0;
    std::optional<std::string> instance_key;
    bool shuffle = false, by_shard = false;
  } p;

  static Spec spec() {
    Spec s("synthetic",
           "Makes volumes with balls (pictures with discs) of several brightnesses, and their "
           "labels.");
    s.out("sample", "image float32 0..1 and label uint8, [1, X, Y(, Z)] each")
        .param("num_samples", &Params::num_samples, "Samples of an epoch.")
        .required()
        .at_least(1)
        .param("first", &Params::first, "Number of the first one: sample n is the same everywhere.")
        .at_least(0)
        .param("seed", &Params::seed,
               "Sample n is create_test_image_3d's (_2d's) with RandomState(seed + n).")
        .at_least(0)
        .param("spatial_size", &Params::spatial_size,
               "Voxels, each above 2 rad_max; two for pictures.")
        .length(2, 3)
        .param("num_objs", &Params::num_objs, "Balls.")
        .at_least(0)
        .param("rad_max", &Params::rad_max, "Radii are below it, in voxels.")
        .param("rad_min", &Params::rad_min, "And not below this.")
        .at_least(1)
        .below("rad_max")
        .param("noise_max", &Params::noise_max, "Noise between 0 and this.")
        .at_least(0)
        .param("num_seg_classes", &Params::num_seg_classes,
               "Labels 1..n, and images as bright; with 1 brightnesses differ all the same.")
        .range(1, 255)
        .param("instance_key", &Params::instance_key,
               "Field for the balls' numbers from 1, int32; of those that overlap the last one's. "
               "null: none.");
    return add_order_params<Params>(s)
        .source()
        .gives("image", Form::image)
        .channels("1")
        .dtype("float32")
        .resizes("image", "spatial_size")
        .gives("label", Form::image)
        .channels("1")
        .dtype("uint8")
        .resizes("label", "spatial_size")
        .gives("@instance_key", Form::image)
        .channels("1")
        .dtype("int32")
        .when("instance_key");
  }

  void open(const OpenContext&) override {
    for (const std::int64_t n : p.spatial_size)
      if (n <= 2 * p.rad_max || n > 4096)
        throw Error(Exit::usage, "spatial_size must be above 2 rad_max and at most 4096");
  }

  void process(Firing& f) override {
    emit_in_order(f, static_cast<std::uint64_t>(p.num_samples), p.shuffle,
                  [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t item) const override {
    return std::make_shared<const Sample>(made(p.first + static_cast<std::int64_t>(item)));
  }
  std::optional<std::uint64_t> epoch_size() const override {
    return static_cast<std::uint64_t>(p.num_samples);
  }

 private:
  Sample made(std::int64_t number) const {
    NumpyRandom random(static_cast<std::uint32_t>(p.seed + number));
    std::vector<std::int64_t> shape = p.spatial_size;
    shape.insert(shape.begin(), 1);
    at::Tensor image = at::zeros(shape, at::kDouble);
    at::Tensor instances =
        at::zeros(p.instance_key ? shape : std::vector<std::int64_t>{0}, at::kInt);
    auto* const voxels = image.mutable_data_ptr<double>();
    auto* const numbers = p.instance_key ? instances.mutable_data_ptr<std::int32_t>() : nullptr;
    for (std::int64_t i = 0; i < p.num_objs; ++i)
      draw_ball(random, [&, n = static_cast<std::int32_t>(i + 1)](std::int64_t at, double value) {
        voxels[at] = value;
        if (numbers) numbers[at] = n;
      });
    const at::Tensor label = image.ceil().to(at::kByte);
    if (p.noise_max > 0) {
      const double most = static_cast<double>(p.num_seg_classes) * p.noise_max;
      auto* v = image.mutable_data_ptr<double>();
      for (std::int64_t i = 0; i < image.numel(); ++i) v[i] = std::max(v[i], most * random.unit());
    }
    at::Tensor x = image.to(at::kFloat);
    const at::Tensor low = x.min(), range = x.max() - low;
    if (range.item<float>() > 0) x = (x - low) / range;
    auto meta = std::make_shared<Meta>();
    meta->has_affine = true;
    Sample sample;
    sample.name = "synthetic_" + std::to_string(number);
    sample.set("image", Field(x, meta));
    sample.set("label", Field(label, meta));
    if (p.instance_key) sample.set(*p.instance_key, Field(instances, meta));
    return sample;
  }

  template <class F>
  void draw_ball(NumpyRandom& random, const F& paint) const {  // paint(voxel, brightness)
    const bool flat = p.spatial_size.size() == 2;
    std::int64_t centre[3]{};
    for (std::size_t d = 0; d < p.spatial_size.size(); ++d)
      centre[d] =
          p.rad_max +
          random.interval(static_cast<std::uint32_t>(p.spatial_size[d] - 2 * p.rad_max - 1));
    const std::int64_t radius =
        p.rad_min + random.interval(static_cast<std::uint32_t>(p.rad_max - p.rad_min - 1));
    const double drawn = random.unit(), classes = static_cast<double>(p.num_seg_classes);
    const double value = p.num_seg_classes > 1 ? std::ceil(drawn * classes) : drawn * 0.5 + 0.5;
    const std::int64_t deep = flat ? 0 : radius, depth = flat ? 1 : p.spatial_size[2];
    for (std::int64_t x = -radius; x <= radius; ++x)
      for (std::int64_t y = -radius; y <= radius; ++y)
        for (std::int64_t z = -deep; z <= deep; ++z)
          if (x * x + y * y + z * z <= radius * radius)
            paint(((centre[0] + x) * p.spatial_size[1] + centre[1] + y) * depth + centre[2] + z,
                  value);
  }
};

const Register<Synthetic> registered;

}  // namespace
}  // namespace sluice
