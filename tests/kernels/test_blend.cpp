// Blending on the host against its own functor, which is what the device runs.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "kernels/base/team.h"
#include "kernels/image/labels.h"
#include "kernels/infer/blend.h"

using namespace sluice;

namespace {

using Shape = std::vector<std::int64_t>;

struct Draws {
  std::uint64_t key, next = 0;
  std::int64_t operator()(std::int64_t low, std::int64_t high) {  // both included
    return low + philox(next++, 0, key).v[0] % (high - low + 1);
  }
};

// A volume, windows that cover it in order, and their logits.
struct Case {
  std::int64_t channels;
  Shape size;
  BlendWindow window;
  std::vector<Shape> starts;
  at::Tensor logits;
};

Case drawn(std::uint64_t key) {
  Draws draw{key};
  const std::size_t axes = draw(0, 3) ? 3 : 2;
  Case c{draw(1, 5), {}, {}, {{}}, {}};
  for (std::size_t a = 0; a < axes; ++a) {
    c.window.size.push_back(draw(1, 7));
    c.size.push_back(c.window.size[a] + draw(0, 9));
    std::vector<Shape> longer;
    const std::int64_t step = draw(1, c.window.size[a]), last = c.size[a] - c.window.size[a];
    for (const Shape& s : c.starts)
      for (std::int64_t at = 0;; at = std::min(at + step, last)) {
        longer.push_back(s);
        longer.back().push_back(at);
        if (at == last) break;
      }
    c.starts = longer;
  }
  if (draw(0, 1)) {
    for (const std::int64_t n : c.window.size) c.window.weights.push_back(at::rand({n}) + 0.01);
    c.window.least = 1e-2f;
  }
  Shape shape{static_cast<std::int64_t>(c.starts.size()), c.channels};
  shape.insert(shape.end(), c.window.size.begin(), c.window.size.end());
  c.logits = at::randn(shape).mul(10).round().div(10);  // so that classes tie
  if (draw(0, 3) == 0) c.logits.masked_fill_(at::rand(shape) < 0.03, std::nan(""));
  if (draw(0, 1)) c.logits = c.logits.movedim(1, -1).contiguous().movedim(-1, 1);
  if (draw(0, 2) == 0) c.logits = c.logits.to(draw(0, 1) ? at::kHalf : at::kBFloat16);
  return c;
}

at::Tensor blended(const Case& c, bool classes, std::int64_t batch) {
  Shape shape{classes ? 1 : c.channels};
  shape.insert(shape.end(), c.size.begin(), c.size.end());
  const at::Tensor out = at::full(shape, 77, classes ? at::kByte : at::kFloat);
  Blend blend(c.window, c.channels, out);
  const auto all = static_cast<std::int64_t>(c.starts.size());
  for (std::int64_t i = 0; i < all; i += batch) {
    const std::int64_t n = std::min(batch, all - i);
    blend.add(c.logits.narrow(0, i, n), {c.starts.data() + i, static_cast<std::size_t>(n)});
  }
  blend.finish();
  std::int64_t plane = 1;
  for (std::size_t a = 1; a < c.size.size(); ++a) plane *= c.size[a];
  CHECK(blend.bytes() == 4 * c.window.size[0] * plane * (classes ? c.channels + 1 : 1));
  return out;
}

// The functor, voxel by voxel and window by window, with sums of the whole volume.
at::Tensor by_voxel(const Case& c) {
  using namespace kernels;
  const bool flat = c.size.size() == 2;
  const auto of = [&](const Shape& s, int d, std::int64_t missing) {
    return static_cast<std::int32_t>(flat ? d == 1 ? missing : s[d / 2] : s[d]);
  };
  BlendCall call;
  BlendSums& s = call.sums;
  s.channels = static_cast<std::int32_t>(c.channels);
  for (int d = 0; d < 3; ++d)
    s.size[d] = of(c.size, d, 1), call.window[d] = of(c.window.size, d, 1);
  s.sum_planes = s.total_planes = s.size[0];
  Shape shape{c.channels};
  shape.insert(shape.end(), c.size.begin(), c.size.end());
  const at::Tensor sum = at::zeros(shape), total = at::zeros(c.size);
  s.sum = sum.mutable_data_ptr<float>();
  s.total = total.mutable_data_ptr<float>();
  const at::Tensor logits = c.logits.to(at::kFloat).contiguous();
  for (int d = 2; d >= 0; --d)
    call.stride[d] = d == 2 ? 1 : call.stride[d + 1] * call.window[d + 1];
  call.channel_stride = call.stride[0] * call.window[0];
  for (std::size_t a = 0; a < c.window.weights.size(); ++a)
    call.weight[flat ? 2 * a : a] = c.window.weights[a].const_data_ptr<float>();
  call.least = c.window.least;
  call.windows = 1;
  for (std::size_t w = 0; w < c.starts.size(); ++w) {
    call.logits = logits[static_cast<std::int64_t>(w)].const_data_ptr<float>();
    for (int d = 0; d < 3; ++d) call.start[0][d] = of(c.starts[w], d, 0);
    REQUIRE(blend_problem(call) == nullptr);
    for (int x = 0; x < s.size[0]; ++x)
      for (int y = 0; y < s.size[1]; ++y)
        for (int z = 0; z < s.size[2]; ++z) blend_voxel<float>(call, x, y, z);
  }
  for (int x = 0; x < s.size[0]; ++x)
    for (std::int64_t i = 0; i < s.plane(); ++i) finish_voxel({s, 0, s.size[0], nullptr}, x, i);
  return sum;
}

}  // namespace

TEST_CASE("blending on the host is the functor's, bit for bit, by any batches and threads") {
  at::manual_seed(3);
  for (std::uint64_t key = 0; key < 60; ++key) {
    CAPTURE(key);
    const Case c = drawn(key);
    const at::Tensor means = by_voxel(c), classes = kernels::argmax_channels(means);
    for (const int threads : {1, 3})
      for (const std::int64_t batch : {1, 4, 1000}) {
        const int before = at::get_num_threads();
        at::set_num_threads(threads);
        CHECK(at::allclose(blended(c, false, batch), means, 0, 0, true));
        CHECK(at::equal(blended(c, true, batch), classes));
        at::set_num_threads(before);
      }
  }
}

TEST_CASE("logits of more channels than a byte counts have means, and no classes") {
  const BlendWindow window{{2, 2, 2}, {}};
  const std::vector<Shape> starts{{0, 0, 0}};
  const at::Tensor y = at::randn({1, 300, 2, 2, 2}), means = at::empty({300, 2, 2, 2});
  Blend blend(window, 300, means);
  blend.add(y, starts);
  blend.finish();
  CHECK(at::equal(means, y[0]));
  Blend classes(window, 300, at::empty({1, 2, 2, 2}, at::kByte));
  classes.add(y, starts);
  CHECK_THROWS_WITH_AS(classes.finish(), "blending: channels that a byte does not count", Error);
}
