// Colours, smoothing and resizing against plain sums, and steps done together against the same one
// by one.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/augment/color.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/resizing.h"
#include "kernels/image/separable.h"
#include "kernels/image/spatial.h"
#include "tests/nearness.h"

using namespace sluice;
using kernels::Jitter;
using kernels::JitterStep;

namespace {

at::Tensor pixels(at::IntArrayRef shape, at::ScalarType type) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble);
  const at::Tensor unit = (at::sin(k * k * 0.37 + k) + 1) / 2;
  return (type == at::kByte ? unit * 255.99 : unit).to(type).reshape(shape);
}
// sum_t weight[t] * in[cell[t]] along an axis of a double tensor.
at::Tensor along(const at::Tensor& in, const Band& band, std::int64_t axis) {
  at::Tensor out;
  for (int t = 0; t < band.taps; ++t) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(in.dim()), 1);
    sizes[axis] = band.size;
    const std::vector<std::int64_t> cells(band.cell.begin() + t * band.size,
                                          band.cell.begin() + (t + 1) * band.size);
    const std::vector<float> weights(band.weight.begin() + t * band.size,
                                     band.weight.begin() + (t + 1) * band.size);
    const at::Tensor term = in.index_select(axis, at::tensor(cells)) *
                            at::tensor(weights).to(at::kDouble).reshape(sizes);
    out = out.defined() ? out + term : term;
  }
  return out;
}

}  // namespace

TEST_CASE("colour steps done together give what they give one by one, to the bit") {
  const std::vector<std::vector<JitterStep>> chains{
      {{Jitter::brightness, 1.3}, {Jitter::contrast, 0.7}},
      {{Jitter::contrast, 1.4}, {Jitter::brightness, 0.6}},
      {{Jitter::contrast, 0.2}},
      {{Jitter::hue, 0.2}, {Jitter::saturation, 1.5}, {Jitter::contrast, 1.1}},
      {{Jitter::saturation, 0.3}, {Jitter::contrast, 1.2}, {Jitter::contrast, 0.8}},
  };
  for (const auto type : {at::kFloat, at::kByte, at::kDouble})
    for (const std::int64_t channels : {1, 3})
      for (const auto& steps : chains) {
        const at::Tensor image = pixels({channels, 37, 61}, type), before = image.clone();
        at::Tensor one_by_one = image;
        for (const JitterStep& s : steps) one_by_one = kernels::jitter(one_by_one, s.what, s.by);
        const at::Tensor together = kernels::jitter(image, steps);
        CHECK((together.scalar_type() == type));
        CHECK(at::equal(together, one_by_one));
        CHECK(at::equal(image, before));
        if (type == at::kDouble) continue;
        const at::Tensor in_place = image.clone();
        CHECK(at::equal(kernels::jitter(in_place, steps, in_place), one_by_one));
        if (channels == 3) CHECK(at::equal(in_place, one_by_one));
      }
}

TEST_CASE("a contrast by nothing leaves the mean gray everywhere, also of many blocks") {
  const at::Tensor image = pixels({3, 70, 50}, at::kFloat), x = image.to(at::kDouble);
  const double mean = (0.2989 * x[0] + 0.587 * x[1] + 0.114 * x[2]).mean().item<double>();
  CHECK(distance(kernels::jitter(image, Jitter::contrast, 0), at::full_like(x, mean)) < 1e-6);
}

TEST_CASE("smoothing and resizing of pictures and volumes are the sums that their taps name") {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2, 9, 83, 1}, {1, 40, 7, 1}, {1, 3, 2, 1}, {2, 12, 10, 37}}) {
    const at::Tensor v = pixels(shape, at::kFloat);
    at::Tensor smooth = v.to(at::kDouble);
    for (int d = 0; d < 3; ++d)
      if (shape[d + 1] > 1)
        smooth = along(smooth, filter_axis(shape[d + 1], gaussian_weights(0.6 + d)), d + 1);
    const at::Tensor got = gaussian(v, {0.6, 1.6, shape[3] > 1 ? 2.6 : 1e-3});
    CHECK(distance(got, smooth) < 1e-5);
    const at::Tensor given = at::empty_like(v);
    gaussian(v, {0.6, 1.6, shape[3] > 1 ? 2.6 : 1e-3}, "erf", false, given);
    CHECK(at::equal(given, got));
  }
  // 3 voxels become 2: the mean of two each, of which one is shared.
  const at::Tensor line = at::tensor({1.0f, 2.0f, 6.0f}).reshape({1, 1, 3, 1});
  const at::Tensor half = resize(line, {1, 2, 1}, Resizing::area, false);
  CHECK(at::equal(half, at::tensor({1.5f, 4.0f}).reshape({1, 1, 2, 1})));
}

TEST_CASE("smoothing along rows and across them is the same sum, to the bit, at the ends too") {
  const at::Tensor v = pixels({2, 45, 70, 1}, at::kFloat);
  const at::Tensor turned = v.transpose(1, 2).contiguous();
  CHECK(at::equal(gaussian(v, {1.6, 1e-3}), gaussian(turned, {1e-3, 1.6}).transpose(1, 2)));
}
