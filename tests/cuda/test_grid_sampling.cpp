// The resampler on the device: all of its work and bounds, against the host's loops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/image/grid_voxel.h"
#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

constexpr std::int64_t shape[3] = {5, 6, 7}, voxels = 5 * 6 * 7, points = 50, batch = 2,
                       channels = 2;

void on_host(const GridCall& c) {
  with_grid(c, [&](auto derivatives, auto nodes) {
    constexpr int K = decltype(derivatives)::value, N = decltype(nodes)::value;
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t i = 0; i < c.points; ++i) {
        if (!c.adds())
          grid_read<float, K, N>(c, b, i);
        else if constexpr (K < 2)
          grid_add<float, K, N>(c, b, i, 0, c.shape[0]);
      }
  });
}

// In parts of so many points.
void add_there(const GridCall& c, std::int64_t at_once) {
  const std::int64_t all = c.batch * c.points, lines = c.batch * c.lines();
  for (std::int64_t begin = 0; begin < all; begin += at_once) {
    GridUses uses;
    uses.begin = begin, uses.end = std::min(begin + at_once, all);
    const Both<std::int32_t> line(std::vector<std::int32_t>(uses.count(c)));
    uses.line = line.device();
    test::ok(test::cuda().grid_uses(c, uses, nullptr));
    const std::vector<std::int32_t> of = line.read();
    std::vector<std::int64_t> order(of.size()), begins(lines + 1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return of[a] < of[b]; });
    for (std::int64_t l = 0; l <= lines; ++l)
      begins[l] = std::count_if(of.begin(), of.end(), [&](auto o) { return o < l; });
    const Both<std::int64_t> sorted(order), first(begins);
    uses.sorted = sorted.device(), uses.first = first.device();
    test::ok(test::cuda().grid_add(c, uses, nullptr));
  }
}

}  // namespace

TEST_CASE("the resampler on the device gives what it gives on the host") {
  SLUICE_NEEDS_GPU();
  const Both<float> image(test::numbers(batch * channels * voxels, 1)),
      grid(test::numbers(batch * points * 3, 2, -3, 9)),
      values(test::numbers(batch * channels * points * 3, 3));
  for (const auto work : {GridWork::value, GridWork::slopes, GridWork::move, GridWork::turn,
                          GridWork::add, GridWork::add_slope})
    for (const Bound bound : {Bound::replicate, Bound::dct1, Bound::dct2, Bound::dst1, Bound::dst2,
                              Bound::dft, Bound::zero})
      for (const int order : {0, 1, 2, 3, 7}) {
        CAPTURE(int(work));
        CAPTURE(int(bound));
        CAPTURE(order);
        GridCall c;
        c.work = work;
        c.batch = batch, c.channels = channels, c.points = points;
        for (int a = 0; a < 3; ++a) {
          c.shape[a] = shape[a];
          c.rule.order[a] = order;
          c.rule.bound[a] = bound;
        }
        std::vector<float> wanted(batch * channels * std::max(voxels, 3 * points));
        const Both<float> made(wanted);
        c.image = image.host.data(), c.grid = grid.host.data(), c.values = values.host.data();
        c.out = wanted.data();
        on_host(c);
        c.image = image.device(), c.grid = grid.device(), c.values = values.device();
        c.out = made.device();
        if (c.adds())
          add_there(c, 30);
        else
          test::ok(test::cuda().grid(c, nullptr));
        const std::vector<float> got = made.read();
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          worst = std::max(worst, double(std::abs(got[i] - wanted[i])));
        CHECK(worst < 1e-5);
      }
}
