// Fused augmentation: every single operation against the kernel of that name, chains against the
// kernels one after the other, and what a chain refuses. CUDA runs the same functors.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/augment/augment_chain.h"
#include "kernels/augment/color.h"
#include "kernels/augment/elastic.h"
#include "kernels/augment/fused_augment.h"
#include "kernels/image/affine_params.h"
#include "kernels/image/bias_field.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/intensity.h"
#include "kernels/image/resample.h"
#include "kernels/image/resizing.h"
#include "kernels/image/spatial.h"
#include "tests/nearness.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

// Random enough, and no two neighbours alike.
at::Tensor volume(at::IntArrayRef shape, double scale = 1) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (at::sin(k * k * 0.37 + k) * scale).to(at::kFloat).reshape(shape);
}
VoxelType type_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kHalf:
      return VoxelType::f16;
    case at::kBFloat16:
      return VoxelType::bf16;
    case at::kShort:
      return VoxelType::i16;
    case at::kByte:
      return VoxelType::u8;
    default:
      return VoxelType::f32;
  }
}
AugmentChain chain_of(const at::Tensor& v) {
  const bool flat = v.dim() == 3;
  return {view_of(v.const_data_ptr(), type_of(v), v.size(0),
                  {v.size(1), v.size(2), flat ? 1 : v.size(3)}),
          flat ? 2 : 3};
}
at::Tensor run(const AugmentChain& chain, std::int64_t channels, at::ScalarType type = at::kFloat,
               bool channels_last = false) {
  const Shape3 n = chain.shape();
  at::Tensor out = at::full({channels, n[0], n[1], n[2]}, 77, type);
  if (channels_last) out = out.permute({1, 2, 3, 0}).contiguous().permute({3, 0, 1, 2});
  const AugmentJob job =
      chain.job(output_of(out.data_ptr(), type_of(out), channels, n, channels_last));
  REQUIRE(sluice_augment_problem(&job, 1) == nullptr);
  std::vector<char> workspace(sluice_augment_workspace(&job, 1) + 256);
  auto* aligned = reinterpret_cast<char*>(
      (reinterpret_cast<std::uintptr_t>(workspace.data()) + 255) / 256 * 256);
  REQUIRE(sluice_augment_cpu(&job, 1, aligned));
  return out;
}
at::Tensor single(const at::Tensor& v, const AugmentOp& op) {
  AugmentChain chain = chain_of(v);
  REQUIRE(chain.add(op));
  return run(chain, v.size(0));
}
Affine turned(const Shape3& source, const Shape3& out) {
  return about_centres(centred_affine({{0.3, -0.2, 0.5}, {0.1}, {1.5, -2, 0.25}, {0.9, 1.1, 1}}, 3),
                       source, out);
}
constexpr std::uint64_t key = 0x1234567890abcdefull, counter = 42;
AugmentOp op(AugmentKind kind, float a0 = 0, float a1 = 0, float a2 = 0) {
  AugmentOp o{kind, -1, {a0, a1, a2}};
  o.key = key;
  o.counter = counter;
  return o;
}

}  // namespace

TEST_CASE("crops, flips and quarter turns copy the same voxels as the kernels, of every type") {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16, at::kShort, at::kByte}) {
    CAPTURE(c10::str(type));
    const at::Tensor v = volume({2, 9, 10, 11}, 100).abs().to(type).contiguous();
    AugmentChain chain = chain_of(v);
    const Box box{{-2, 1, 3}, {8, 7, 10}};  // sticks out on two sides
    const Reorder flip{{0, 1, 2}, {true, false, true}};
    REQUIRE(chain.reorder(quarter_turns(1, 0, 2)));
    REQUIRE(chain.crop(box.start, box.size, 3));
    REQUIRE(chain.reorder(flip));
    REQUIRE(chain.reorder(quarter_turns(3, 0, 1)));
    REQUIRE(chain.crop({1, 1, 2}, {5, 6, 7}));
    const at::Tensor expected =
        crop_pad(reorder(reorder(crop_pad(reorder(v, quarter_turns(1, 0, 2)), box, 3), flip),
                         quarter_turns(3, 0, 1)),
                 {{1, 1, 2}, {5, 6, 7}});
    CHECK(at::equal(run(chain, 2, type), expected));
    CHECK(at::equal(run(chain, 2, type, true), expected));  // channels-last
  }
}

TEST_CASE("one affine resampling equals the kernel, in every padding and mode") {
  const at::Tensor v = volume({2, 20, 17, 23});
  const Shape3 source{20, 17, 23}, size{16, 21, 19};
  const Affine m = turned(source, size);
  for (const auto padding : {Padding::zeros, Padding::border, Padding::reflection}) {
    CAPTURE(static_cast<int>(padding));
    AugmentChain chain = chain_of(v);
    REQUIRE(chain.affine(m, size, {Interpolation::linear, padding}));
    CHECK(distance(run(chain, 2), resample(v, m, size, {Interpolation::linear, padding})) < 3e-5);
    AugmentChain nearest = chain_of(v);
    REQUIRE(nearest.affine(m, size, {Interpolation::nearest, padding}));
    CHECK(at::equal(run(nearest, 2), resample(v, m, size, {Interpolation::nearest, padding})));
  }
}

TEST_CASE("an elastic deformation equals the kernel") {
  const at::Tensor v = volume({1, 20, 17, 23});
  const Shape3 n{20, 17, 23};
  const Displacement by = random_displacement(n, 6, 40, key, counter);
  REQUIRE(by.step > 1);
  AugmentChain chain = chain_of(v);
  REQUIRE(chain.elastic(turned(n, n), n, {Interpolation::linear, Padding::zeros},
                        {by.nodes.const_data_ptr<float>(),
                         {by.nodes.size(1), by.nodes.size(2), by.nodes.size(3)},
                         by.step}));
  CHECK(distance(run(chain, 1),
                 resample(v, turned(n, n), by, n, {Interpolation::linear, Padding::zeros})) < 5e-5);
}

TEST_CASE("a displacement made by a job is the field that the kernel makes") {
  const Shape3 n{20, 17, 23};
  for (const double sigma : {1.0, 3.5, 6.0, 13.0}) {
    CAPTURE(sigma);
    const Displacement by = random_displacement(n, sigma, 40, key, counter);
    const float zero = 0;
    at::Tensor nodes = at::full(by.nodes.sizes(), 77, at::kFloat);
    const auto made =
        displacement_job(n, sigma, 40, key, counter, &zero, nodes.mutable_data_ptr<float>());
    CHECK(made.step == by.step);
    CHECK(nodes.size(3) == made.count[2]);
    std::vector<char> workspace(sluice_augment_workspace(&made.job, 1));
    REQUIRE(sluice_augment_cpu(&made.job, 1, workspace.data()));
    CHECK(distance(nodes, by.nodes) < 1e-5);
  }
}

TEST_CASE("operations on voxels equal the kernels' functors, bit for bit") {
  const at::Tensor v = volume({2, 5, 6, 7}, 3);
  CHECK(
      at::equal(single(v, op(AugmentKind::linear, 1.3f, -0.2f)), map<Linear>(v, {{1.3f, -0.2f}})));
  CHECK(at::equal(single(v, op(AugmentKind::normalize, 0.3f, 1.7f)),
                  map<Normalize>(v, {{0.3f, 1.7f}})));
  CHECK(at::equal(single(v, op(AugmentKind::shift, 0.3f)), map<Shift>(v, {{0.3f}})));
  AugmentOp rescale{AugmentKind::rescale, -1, {-1, 3, 2, 0.5f, 0, 1}};
  CHECK(at::equal(single(v, rescale), map<Rescale>(v, {{-1, 3, 2, 0.5f, 0, 1}})));
  const kernels::Range r = ranges(v, false).front();
  CHECK(at::equal(single(v, op(AugmentKind::contrast, 1.7f, 1)),
                  map<Contrast>(v, {{r.low, r.high - r.low, 1.7f, 1}})));
  CHECK(at::equal(single(v, op(AugmentKind::contrast, 0.6f, -1)),
                  map<Contrast>(v, {{-r.high, r.high - r.low, 0.6f, -1}})));
}

TEST_CASE("noise by counter is the same draw, bit for bit, wherever a row begins") {
  for (const std::int64_t nz : {8, 7, 5}) {  // rows that begin in the middle of a block of four
    const at::Tensor v = volume({2, 5, 6, nz}, 3);
    const at::Tensor expected = add_noise(v, 0.1f, 0.7f, Random::Stream{key, counter});
    CHECK(at::equal(single(v, op(AugmentKind::noise, 0.1f, 0.7f)), expected));
  }
}

TEST_CASE("a contrast about the mean gray is the colour jitter's") {
  for (const std::int64_t channels : {1, 3}) {
    const at::Tensor picture = (volume({channels, 9, 14, 1}, 3) * 0.2 + 0.5).clamp(0, 1);
    for (const float by : {0.4f, 1.7f})
      CHECK(distance(single(picture, op(AugmentKind::gray_contrast, by)),
                     jitter(picture, Jitter::contrast, by)) < 2e-6);
    AugmentOp brighter{AugmentKind::rescale, -1, {0, 1, 1.4f, 0, 0, 1}};
    CHECK(distance(single(picture, brighter), jitter(picture, Jitter::brightness, 1.4)) < 1e-6);
  }
}

TEST_CASE("saturation and hue of a picture are the colour jitter's, to the bit, in any order") {
  at::Tensor picture = (volume({3, 9, 14, 3}, 3) * 0.2 + 0.5).clamp(0, 1);
  picture.select(1, 0).fill_(0.25f);                       // gray
  picture.select(1, 1).zero_();                            // black
  picture.select(1, 2).copy_(picture.select(1, 2) > 0.5);  // two or three alike
  const auto saturated = [](float by) {
    return AugmentOp{AugmentKind::saturation, all_channels, {by, 1 - by}};
  };
  for (const float by : {0.0f, 0.4f, 1.7f})
    CHECK(at::equal(single(picture, saturated(by)), jitter(picture, Jitter::saturation, by)));
  for (const float by : {-0.5f, -0.2f, -1e-9f, 0.1f, 0.5f})
    CHECK(at::equal(single(picture, op(AugmentKind::hue, by)), jitter(picture, Jitter::hue, by)));

  AugmentChain chain = chain_of(picture);
  REQUIRE(chain.add(op(AugmentKind::hue, 0.3f)));
  REQUIRE(chain.add(saturated(0.5f)));
  REQUIRE(chain.add({AugmentKind::rescale, all_channels, {0, 1, 1.5f, 0, 0, 1}}));
  REQUIRE(chain.add(op(AugmentKind::gray_contrast, 0.6f)));
  REQUIRE(chain.add(op(AugmentKind::hue, -0.4f)));
  REQUIRE(chain.crop({1, 0, 1}, {8, 13, 2}) == false);  // a contrast is of the whole picture
  const at::Tensor one_by_one = jitter(picture, {{Jitter::hue, 0.3},
                                                 {Jitter::saturation, 0.5},
                                                 {Jitter::brightness, 1.5},
                                                 {Jitter::contrast, 0.6},
                                                 {Jitter::hue, -0.4}});
  CHECK(distance(run(chain, 3), one_by_one) < 5e-6);
  AugmentChain part = chain_of(picture);
  REQUIRE(part.add(op(AugmentKind::hue, 0.3f)));
  REQUIRE(part.crop({1, 0, 1}, {8, 13, 2}));
  CHECK(at::equal(run(part, 3),
                  crop_pad(jitter(picture, Jitter::hue, 0.3), {{1, 0, 1}, {8, 13, 2}})));
}

TEST_CASE("colours of other than three channels are refused") {
  const at::Tensor v = volume({2, 4, 4, 4});
  AugmentChain chain = chain_of(v);
  REQUIRE(chain.add(op(AugmentKind::hue, 0.3f)));
  at::Tensor out = at::empty_like(v);
  const AugmentJob job = chain.job(output_of(out.data_ptr(), VoxelType::f32, 2, {4, 4, 4}));
  CHECK(sluice_augment_problem(&job, 1) != nullptr);
}

TEST_CASE("what needs statistics of the image equals the kernels that take them") {
  const at::Tensor v = volume({3, 5, 6, 7}, 3) + 10;
  const auto m = moments(v, false, false).front();
  CHECK(distance(single(v, op(AugmentKind::std_shift, 0.5f)), v + 0.5 * m.std) < 2e-6);
  CHECK(distance(single(v, op(AugmentKind::mean_contrast, 1.5f)), (v - m.mean) * 1.5 + m.mean) <
        4e-6);
  AugmentChain chain = chain_of(v);
  REQUIRE(chain.add(op(AugmentKind::contrast, 2, 1)));
  REQUIRE(chain.add(op(AugmentKind::linear, 3, 1)));
  REQUIRE(chain.add(op(AugmentKind::restore)));
  const at::Tensor back = run(chain, 3);
  CHECK(back.mean().item<double>() == doctest::Approx(v.mean().item<double>()).epsilon(1e-6));
  CHECK(back.std().item<double>() == doctest::Approx(v.std().item<double>()).epsilon(1e-6));

  const kernels::Range all = ranges(v, false).front();
  CHECK(at::equal(single(v, op(AugmentKind::to_range, 3, -1, 9)),
                  map<Rescale>(v, {{all.low, all.high - all.low, 3, -1}})));
  CHECK(at::equal(single(at::full_like(v, 7), op(AugmentKind::to_range, 3, -1, 9)),
                  at::full_like(v, 63)));
  AugmentOp own = op(AugmentKind::standardize, 99, 99, 1);  // of each channel
  own.a[3] = own.a[4] = 1;
  own.channel = each_channel;
  at::Tensor holes = v * 0.01 + 1000;  // a mean that is large beside the deviation
  holes[1].select(0, 2).zero_();
  holes[2].fill_(0.3f);
  std::vector<Normalize> functors;
  for (const auto& each : moments(holes, true, true))
    functors.push_back({float(each.mean), each.std == 0 ? 1 : float(each.std), true});
  CHECK(distance(single(holes, own), map(holes, functors)) < 1e-6);

  AugmentOp second = op(AugmentKind::contrast, 1.7f, 1);  // of one channel, by its own range
  second.channel = 1;
  const kernels::Range r = ranges(v[1].unsqueeze(0), false).front();
  at::Tensor expected = v.clone();
  expected[1].copy_(map<Contrast>(v[1], {{r.low, r.high - r.low, 1.7f, 1}}));
  CHECK(at::equal(single(v, second), expected));
}

TEST_CASE("a bias field, a blur and a low resolution equal the kernels") {
  const at::Tensor v = volume({2, 12, 9, 14});
  std::vector<double> c;
  for (int i = 0; i < bias_terms; ++i) c.push_back(0.3 * std::sin(3.0 * i));
  AugmentChain biased = chain_of(v);
  REQUIRE(biased.bias(c));
  CHECK(cubic_coefficients(3, bias_table(3, 3, c)) == c);
  CHECK(distance(run(biased, 2), apply_bias_field(v, 3, bias_table(3, 3, c))) < 2e-6);

  AugmentChain blurred = chain_of(v);
  REQUIRE(blurred.blur({gaussian_weights(0.8), gaussian_weights(1.4), gaussian_weights(3.5)}));
  CHECK(distance(run(blurred, 2), gaussian(v, {0.8, 1.4, 3.5})) < 2e-6);

  AugmentChain low = chain_of(v);
  REQUIRE(low.low_resolution({7, 5, 9}));
  const at::Tensor down = resize(v, {7, 5, 9}, Resizing::nearest, false);
  CHECK(distance(run(low, 2), resize(down, {12, 9, 14}, Resizing::linear, false)) < 2e-6);
}

TEST_CASE("a whole chain with one interpolation equals the kernels one after the other") {
  const at::Tensor cached = (volume({2, 30, 28, 26}, 1000)).to(at::kShort);
  AugmentView view = view_of(cached.const_data_ptr(), VoxelType::i16, 2, {30, 28, 26});
  view.gain = 0.001f, view.offset = 0.5f;
  AugmentChain chain(view, 3);
  const Box box{{3, 5, 2}, {20, 18, 21}};
  const Reorder flip{{0, 1, 2}, {false, true, false}}, turn = quarter_turns(1, 0, 1);
  const Shape3 n{18, 20, 21};  // after the turn
  const Affine m = turned(n, n);
  const Sampling how{Interpolation::linear, Padding::reflection};
  REQUIRE(chain.crop(box.start, box.size));
  REQUIRE(chain.reorder(flip));
  REQUIRE(chain.reorder(turn));
  REQUIRE(chain.affine(m, n, {how.mode, how.padding}));
  REQUIRE(chain.reorder(flip));
  REQUIRE(chain.crop({1, 2, 3}, {16, 16, 16}));
  REQUIRE(chain.interpolations() == 1);
  at::Tensor t = map<Linear>(cached, {{0.001f, 0.5f}});
  t = resample_general(reorder(reorder(crop_pad(t, box), flip), turn), m, n, how);
  t = crop_pad(reorder(t, flip), {{1, 2, 3}, {16, 16, 16}});
  const at::Tensor moved = run(chain, 2);
  CHECK(distance(moved, t) < 3e-5);

  // From here on everything is exact, since it begins with the same voxels.
  REQUIRE(chain.add(op(AugmentKind::noise, 0, 0.1f)));
  REQUIRE(chain.blur({gaussian_weights(0.7), gaussian_weights(0.7), gaussian_weights(0.7)}));
  REQUIRE(chain.add(op(AugmentKind::linear, 1.2f, 0.1f)));
  REQUIRE(chain.add(op(AugmentKind::contrast, 1.4f, 1)));
  REQUIRE(chain.add(op(AugmentKind::shift, -0.25f)));
  t = add_noise(moved, 0, 0.1f, Random::Stream{key, counter});
  t = map<Linear>(gaussian(t, {0.7, 0.7, 0.7}), {{1.2f, 0.1f}});
  const kernels::Range r = ranges(t, false).front();
  t = map<Shift>(map<Contrast>(t, {{r.low, r.high - r.low, 1.4f, 1}}), {{-0.25f}});
  CHECK(distance(run(chain, 2), t) < 1e-6);
  CHECK(distance(run(chain, 2, at::kBFloat16, true), t.to(at::kBFloat16)) < 4e-3);
}

TEST_CASE("an image in 2-D goes the same way as a volume of one slice") {
  const at::Tensor v = volume({3, 24, 30});
  const at::Tensor as_volume = to_volume(v);
  const Shape3 size{30, 24, 1};
  const Affine m = about_centres(centred_affine({{0.4}, {}, {2, 1}, {1.1, 0.9}}, 2), size, size);
  AugmentChain chain = chain_of(v);
  REQUIRE(chain.reorder(quarter_turns(1, 0, 1)));
  REQUIRE(chain.affine(m, size, {Interpolation::linear, Padding::border}));
  REQUIRE(chain.add(op(AugmentKind::noise, 0, 0.3f)));
  CHECK(chain.shape() == size);
  const at::Tensor expected = add_noise(resample(reorder(as_volume, quarter_turns(1, 0, 1)), m,
                                                 size, {Interpolation::linear, Padding::border}),
                                        0, 0.3f, Random::Stream{key, counter});
  CHECK(distance(run(chain, 3), expected) < 3e-5);
}

TEST_CASE("two interpolations become one sampling: exact where the volume is linear") {
  const Shape3 n{24, 24, 24};
  at::Tensor ramp = at::empty({1, 24, 24, 24});
  for (int x = 0; x < 24; ++x)
    for (int y = 0; y < 24; ++y)
      for (int z = 0; z < 24; ++z) ramp[0][x][y][z] = 0.1 * x - 0.2 * y + 0.05 * z;
  const Affine a = about_centres(centred_affine({{0.1, 0.05, -0.1}}, 3), n, n);
  const Affine b = about_centres(centred_affine({{0, 0, 0.2}, {}, {}, {0.9, 0.9, 0.9}}, 3), n, n);
  const Sampling how{Interpolation::linear, Padding::border};
  for (const bool linear : {true, false}) {
    const at::Tensor v = linear ? ramp : volume({1, 24, 24, 24});
    AugmentChain chain = chain_of(v);
    REQUIRE(chain.affine(a, n, {how.mode, how.padding}));
    REQUIRE(chain.reorder({{0, 1, 2}, {true, false, false}}));
    REQUIRE(chain.affine(b, n, {how.mode, how.padding}));
    CHECK(chain.interpolations() == 2);
    const at::Tensor twice = resample_general(
        reorder(resample_general(v, a, n, how), {{0, 1, 2}, {true, false, false}}), b, n, how);
    const Box inner{{6, 6, 6}, {12, 12, 12}};
    const at::Tensor once = crop_pad(run(chain, 1), inner), two = crop_pad(twice, inner);
    if (linear) {
      CHECK(distance(once, two) < 1e-5);
    } else {  // white noise is the worst case: one interpolation leaves more of it
      CHECK(distance(once, two) > 0.05);
      CHECK(once.std().item<double>() > two.std().item<double>());
    }
  }
}

TEST_CASE("a chain refuses what would not equal the nodes, and stays as it was") {
  const at::Tensor v = volume({1, 8, 8, 8});
  AugmentChain chain = chain_of(v);
  REQUIRE(chain.add(op(AugmentKind::linear, 2, 0)));
  const at::Tensor before = run(chain, 1);
  CHECK_FALSE(chain.affine(turned({8, 8, 8}, {8, 8, 8}), {8, 8, 8}, {}));
  CHECK_FALSE(chain.crop({-1, 0, 0}, {8, 8, 8}));
  CHECK_FALSE(chain.add(op(AugmentKind::restore)));
  CHECK(at::equal(run(chain, 1), before));
  CHECK(chain.reorder({{0, 1, 2}, {true, false, false}}));  // values do not mind where they stand
  REQUIRE(chain.add(op(AugmentKind::noise, 0, 1)));
  CHECK_FALSE(chain.reorder({{0, 1, 2}, {true, false, false}}));  // noise does
  CHECK_FALSE(chain.crop({0, 0, 0}, {4, 4, 4}));
  CHECK_FALSE(chain.blur({gaussian_weights(5)}));
  AugmentChain padded = chain_of(v);
  REQUIRE(padded.crop({-1, 0, 0}, {10, 8, 8}));
  CHECK_FALSE(padded.affine(turned({10, 8, 8}, {8, 8, 8}), {8, 8, 8}, {}));
}

TEST_CASE("a broken job is named and not run") {
  AugmentJob job;
  CHECK(sluice_augment_problem(&job, 1) != nullptr);
  CHECK_FALSE(sluice_augment_cpu(&job, 1, nullptr));
  float x = 0;
  job.in.data = job.out.data = &x;
  CHECK(sluice_augment_problem(&job, 1) == nullptr);
  job.op_count = augment_ops + 1;
  CHECK(sluice_augment_problem(&job, 1) != nullptr);
}
