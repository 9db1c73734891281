// Fused augmentation on the device against its CPU body: the same functors, so the same bits but
// where sums over an image are involved.
#include <cmath>
#include <cstring>

#include "kernels/augment/augment_chain.h"
#include "kernels/augment/fused_augment.h"
#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

constexpr Shape3 whole{21, 18, 37}, patch{16, 12, 33};
constexpr std::int64_t channels = 2, voxels = 16 * 12 * 33;

std::vector<std::int16_t> cached() {
  std::vector<std::int16_t> out;
  for (float v : test::numbers(static_cast<std::size_t>(channels * 21 * 18 * 37), 1, -900, 900))
    out.push_back(static_cast<std::int16_t>(v));
  return out;
}

AugmentOp op(AugmentKind kind, float a0 = 0, float a1 = 0, int channel = -1) {
  AugmentOp o{kind, channel, {a0, a1}};
  o.key = 7;
  o.counter = 9;
  return o;
}

// One job a row of the table: what differs is all in `build`.
using Build = void (*)(AugmentChain&);
const std::vector<Build> builds{
    [](AugmentChain&) {},
    [](AugmentChain& c) {
      c.reorder({{0, 1, 2}, {true, false, true}});
    },
    [](AugmentChain& c) { c.add(op(AugmentKind::noise, 0.1f, 0.7f)); },
    [](AugmentChain& c) {
      c.add(op(AugmentKind::linear, 1.2f, -0.1f));
      c.add(op(AugmentKind::contrast, 1.6f, 1));
      c.add(op(AugmentKind::restore));
    },
    [](AugmentChain& c) {
      c.add(op(AugmentKind::mean_contrast, 1.3f, 1, 1));
      c.add(op(AugmentKind::std_shift, 0.3f, 1));
    },
    [](AugmentChain& c) {
      c.blur({{0.25f, 0.5f, 0.25f}, {0.1f, 0.2f, 0.4f, 0.2f, 0.1f}, {0.3f, 0.4f, 0.3f}});
      c.add(op(AugmentKind::shift, 0.5f));
    },
    [](AugmentChain& c) {
      c.low_resolution({9, 7, 15});
    },
    [](AugmentChain& c) { c.add(op(AugmentKind::gray_contrast, 0.7f)); },
    [](AugmentChain& c) {
      AugmentOp own = op(AugmentKind::standardize, 0.2f, 3, each_channel);
      own.a[2] = own.a[4] = 1;
      c.add(own);
      AugmentOp unit = op(AugmentKind::to_range, 3, -1);
      unit.a[2] = 9;
      c.add(unit);
    },
    [](AugmentChain& c) {
      c.hole({2, 3, 5}, {6, 4, 7}, 0.25f);
    },
    [](AugmentChain& c) {
      std::vector<double> coefficients;
      for (int i = 0; i < bias_terms; ++i) coefficients.push_back(0.2 * std::sin(2.0 * i));
      c.bias(coefficients);
    },
};

// A small turn and a scale.
Affine map_of(const Shape3& n) {
  const Affine m{0.98, -0.2, 0.05, 0, 0.2, 0.97, -0.1, 0, -0.03, 0.1, 1.05, 0, 0, 0, 0, 1};
  return multiply(multiply(centre_of(n), m), inverse(centre_of(n)));
}

struct Case {
  bool resample = false, deform = false, half = false;
  Interpolation mode = Interpolation::linear;
  Padding padding = Padding::border;
};

AugmentChain chain_of(const std::int16_t* data, const float* nodes, const Case& k, Build build) {
  AugmentView view = view_of(data, VoxelType::i16, channels, whole);
  view.gain = 0.001f;
  AugmentChain chain(view, 3);
  REQUIRE(chain.crop({2, 3, 1}, patch));
  if (k.deform)
    REQUIRE(chain.elastic(map_of(patch), patch, {k.mode, k.padding}, {nodes, {5, 4, 9}, 4}));
  else if (k.resample)
    REQUIRE(chain.affine(map_of(patch), patch, {k.mode, k.padding}));
  build(chain);
  return chain;
}

}  // namespace

TEST_CASE("a batch on the device equals the batch on the CPU, for every kind of job") {
  SLUICE_NEEDS_GPU();
  const Both<std::int16_t> volume(cached());
  const Both<float> nodes(test::numbers(3 * 5 * 4 * 9, 3, -2, 2));
  for (const Case& k :
       {Case{}, Case{true}, Case{true, false, true, Interpolation::nearest, Padding::zeros},
        Case{true, false, false, Interpolation::linear, Padding::reflection},
        Case{true, true, false, Interpolation::linear, Padding::zeros}}) {
    const auto n = static_cast<int>(builds.size());
    const std::int64_t size = channels * voxels;
    Both<float> wide(std::vector<float>(static_cast<std::size_t>(n * size), 99));
    Both<Half> half(std::vector<Half>(static_cast<std::size_t>(n * size)));
    std::vector<AugmentJob> here, there;
    for (int i = 0; i < n; ++i) {
      const auto out = [&](float* f, Half* h) {
        return k.half ? output_of(h + i * size, VoxelType::f16, channels, patch, true)
                      : output_of(f + i * size, VoxelType::f32, channels, patch);
      };
      const Build build = builds[static_cast<std::size_t>(i)];
      here.push_back(chain_of(volume.host.data(), nodes.host.data(), k, build)
                         .job(out(wide.host.data(), half.host.data())));
      there.push_back(chain_of(volume.device(), nodes.device(), k, build)
                          .job(out(wide.device(), half.device())));
    }
    const std::size_t bytes = sluice_augment_workspace(here.data(), n);
    REQUIRE(bytes == sluice_augment_workspace(there.data(), n));
    Both<std::uint64_t> workspace(std::vector<std::uint64_t>(bytes / 8 + 1));
    REQUIRE(sluice_augment_cpu(here.data(), n, workspace.host.data()));
    test::ok(test::cuda().augment(there.data(), n, workspace.device(), nullptr));
    const std::vector<float> got = wide.read();
    const std::vector<Half> got_half = half.read();
    for (int i = 0; i < n; ++i) {
      CAPTURE(i);
      double worst = 0;
      for (std::int64_t v = i * size; v < (i + 1) * size; ++v) {
        const auto at = static_cast<std::size_t>(v);
        const double a = k.half ? to_float(got_half[at]) : got[at];
        const double b = k.half ? to_float(half.host[at]) : wide.host[at];
        worst = std::max(worst, std::isnan(a) ? 1e9 : std::abs(a - b));
      }
      CHECK(worst <= (k.half ? 2e-3 : 2e-6));
    }
  }
}

TEST_CASE("colours of a picture on the device equal those of the CPU") {
  SLUICE_NEEDS_GPU();
  constexpr Shape3 size{40, 33, 1};
  constexpr std::size_t values = 3 * 40 * 33;
  const Both<float> picture(test::numbers(values, 5, 0, 1));
  Both<float> out(std::vector<float>(2 * values, 99));
  AugmentJob here[2], there[2];  // two jobs, so that each finds its own channels
  for (int i = 0; i < 2; ++i)
    for (const bool device : {false, true}) {
      AugmentChain chain(
          view_of(device ? picture.device() : picture.host.data(), VoxelType::f32, 3, size), 2);
      REQUIRE(chain.add(op(AugmentKind::hue, i == 0 ? 0.3f : -0.4f)));
      REQUIRE(chain.add(op(AugmentKind::saturation, 1.4f, -0.4f)));
      REQUIRE(chain.add(op(AugmentKind::gray_contrast, 0.8f)));
      REQUIRE(chain.add(op(AugmentKind::hue, 0.1f)));
      float* const to = (device ? out.device() : out.host.data()) + i * values;
      (device ? there : here)[i] = chain.job(output_of(to, VoxelType::f32, 3, size));
    }
  Both<std::uint64_t> workspace(
      std::vector<std::uint64_t>(sluice_augment_workspace(here, 2) / 8 + 1));
  REQUIRE(sluice_augment_cpu(here, 2, workspace.host.data()));
  test::ok(test::cuda().augment(there, 2, workspace.device(), nullptr));
  const std::vector<float> got = out.read();
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - out.host[i]) < 5e-6);
  }
}

TEST_CASE("the draws of the device are the CPU's, bit for bit") {
  SLUICE_NEEDS_GPU();
  const Both<float> zeros(std::vector<float>(3 * 40 * 41));
  Both<float> out(std::vector<float>(3 * 40 * 41, 99));
  AugmentJob jobs[2];
  for (int d = 0; d < 2; ++d) {
    AugmentChain chain(
        view_of(d ? zeros.device() : zeros.host.data(), VoxelType::f32, 1, {3, 40, 41}), 3);
    REQUIRE(chain.add(op(AugmentKind::noise, 0, 1)));
    jobs[d] =
        chain.job(output_of(d ? out.device() : out.host.data(), VoxelType::f32, 1, {3, 40, 41}));
  }
  Both<std::uint64_t> workspace(
      std::vector<std::uint64_t>(sluice_augment_workspace(jobs, 1) / 8 + 1));
  REQUIRE(sluice_augment_cpu(&jobs[0], 1, workspace.host.data()));
  test::ok(test::cuda().augment(&jobs[1], 1, workspace.device(), nullptr));
  const auto got = out.read();
  CHECK(std::memcmp(got.data(), out.host.data(), got.size() * sizeof(float)) == 0);
}

TEST_CASE("a broken job is refused before anything is queued") {
  AugmentJob job;
  CHECK(test::cuda().augment(&job, 1, nullptr, nullptr) != 0);
}
