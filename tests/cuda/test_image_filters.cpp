// The lattice, the random field, the mixture and the median on the device: the host's vertices and
// bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "kernels/image/crf_voxel.h"
#include "kernels/image/lattice_voxel.h"
#include "kernels/image/median_voxel.h"
#include "kernels/image/mixture_voxel.h"
#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

using Numbers = std::vector<std::int32_t>;

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Vertices numbered as they come, voxel by voxel.
struct Reference {
  int d;
  std::int64_t n;
  Numbers vertex, before, after;
  std::vector<float> weight, user_weight;
  std::vector<std::uint32_t> first, user;
  std::int32_t vertices = 0;

  Reference(int d_, std::int64_t n_, const std::vector<float>& features, const double* sigma)
      : d(d_), n(n_) {
    std::map<Numbers, std::int32_t> known;
    for (std::int64_t i = 0; i < n; ++i) {
      LatticePoint<0> point;
      REQUIRE(point.set(d, [&](int f) { return features[f * n + i] / sigma[f]; }));
      for (int k = 0; k <= d; ++k) {
        Numbers key;
        for (int f = 0; f < d; ++f) key.push_back(point.key(k, f));
        vertex.push_back(known.try_emplace(key, vertices).first->second);
        vertices = static_cast<std::int32_t>(known.size());
        weight.push_back(static_cast<float>(point.weight[k]));
      }
    }
    before.assign((d + 1) * vertices, vertices);
    after = before;
    for (const auto& [key, v] : known)
      for (int axis = 0; axis <= d; ++axis) {
        Numbers next = key;
        for (int f = 0; f < d; ++f) next[f] += f == axis ? -d : 1;
        if (!known.count(next)) continue;
        after[axis * vertices + v] = known[next];
        before[axis * vertices + known[next]] = v;
      }
    sort_uses();
  }

 private:
  void sort_uses() {
    std::vector<std::uint32_t> order(vertex.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return vertex[a] < vertex[b]; });
    first.assign(vertices + 1, 0);
    for (const auto use : order) {
      ++first[vertex[use] + 1];
      user.push_back(use / (d + 1));
      user_weight.push_back(weight[use]);
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
  }
};

}  // namespace

TEST_CASE("the lattice on the device has the host's vertices, numbers and neighbours") {
  SLUICE_NEEDS_GPU();
  for (const int d : {1, 2, 3, 4, 6}) {
    CAPTURE(d);
    const std::int64_t n = 700, uses = n * (d + 1);
    std::vector<float> of = test::numbers(d * n, 3, 0, 4);
    for (std::int64_t i = 0; i < n; ++i)
      if (i % 3 == 1)
        for (int f = 0; f < d; ++f) of[f * n + i] = of[f * n + i - 1];  // keys that come again
    LatticeBuild b;
    for (int f = 0; f < d; ++f) b.sigma[f] = 0.5 + 0.25 * f;
    const Reference wanted(d, n, of, b.sigma);
    const Both<float> features(of), weight(std::vector<float>(uses, -1));
    const Both<std::int32_t> keys{Numbers(uses * d)}, table(Numbers(1 << 14, -1)),
        slot(Numbers(uses, -1)), first{Numbers(uses)}, vertex{Numbers(uses)}, bad{Numbers(1)};
    b.d = d, b.n = n, b.places = 1 << 14;
    b.features = features.device(), b.keys = keys.device(), b.weight = weight.device();
    b.table = table.device(), b.slot = slot.device(), b.first = first.device();
    b.vertex = vertex.device(), b.bad = bad.device();
    for (const auto stage : {LatticeStage::place, LatticeStage::insert, LatticeStage::mark})
      test::ok(test::cuda().lattice_build(b, stage, nullptr));
    Numbers counted = first.read();
    std::partial_sum(counted.begin(), counted.end(), counted.begin());
    REQUIRE(counted.back() == wanted.vertices);
    const Both<std::int32_t> sums(counted), use{Numbers(wanted.vertices)},
        before(Numbers((d + 1) * wanted.vertices, wanted.vertices)), after(before.host);
    b.vertices = wanted.vertices;
    b.sums = sums.device(), b.use = use.device();
    b.before = before.device(), b.after = after.device();
    for (const auto stage : {LatticeStage::number, LatticeStage::neighbours})
      test::ok(test::cuda().lattice_build(b, stage, nullptr));
    CHECK(vertex.read() == wanted.vertex);
    CHECK(same_bits(weight.read(), wanted.weight));
    CHECK(before.read() == wanted.before);
    CHECK(after.read() == wanted.after);
    CHECK(bad.read()[0] == 0);
  }
}

TEST_CASE("a feature that is no number is told") {
  SLUICE_NEEDS_GPU();
  const Both<float> features({0, NAN, 1});
  const Both<std::int32_t> keys{Numbers(6)}, bad{Numbers(1)};
  const Both<float> weight(std::vector<float>(6, 1));
  LatticeBuild b;
  b.d = 1, b.n = 3, b.places = 16, b.sigma[0] = 1;
  b.features = features.device(), b.keys = keys.device(), b.weight = weight.device();
  b.bad = bad.device();
  test::ok(test::cuda().lattice_build(b, LatticeStage::place, nullptr));
  CHECK(bad.read()[0] == 1);
  b.places = 15;  // no power of two
  CHECK(test::cuda().lattice_build(b, LatticeStage::place, nullptr) != 0);
}

TEST_CASE("the lattice on the device filters to the host's bits") {
  SLUICE_NEEDS_GPU();
  const int d = 3;
  const std::int64_t n = 500, channels = 5;
  const double sigma[] = {0.5, 1, 1};
  const Reference r(d, n, test::numbers(d * n, 5, 0, 3), sigma);
  const Both<std::int32_t> vertex(r.vertex), before(r.before), after(r.after);
  const Both<float> weight(r.weight), user_weight(r.user_weight), x(test::numbers(channels * n, 6));
  const Both<std::uint32_t> first(r.first), user(r.user);
  const Both<float> norm(test::numbers(n, 7, 1, 2));
  const std::int64_t V = r.vertices;
  std::vector<float> values((V + 1) * channels), blurred(values), out(channels * n);
  LatticeCall<float> c;
  c.d = d, c.n = n, c.channels = channels, c.vertices = V;
  c.vertex = r.vertex.data(), c.weight = r.weight.data(), c.first = r.first.data();
  c.user = r.user.data(), c.user_weight = r.user_weight.data();
  c.before = r.before.data(), c.after = r.after.data(), c.in = x.host.data();
  c.norm = norm.host.data();
  for (std::int64_t v = 0; v < V; ++v)
    for (std::int64_t k = 0; k < channels; ++k) values[v * channels + k] = lattice_splat(c, v, k);
  for (int axis = 0; axis <= d; ++axis, std::swap(values, blurred)) {
    c.in = values.data();
    for (std::int64_t v = 0; v < V; ++v)
      for (std::int64_t k = 0; k < channels; ++k)
        blurred[v * channels + k] = lattice_blur(c, channels, axis, v, k);
  }
  c.in = values.data();
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < channels; ++k) out[k * n + i] = lattice_slice(c, channels, i, k);

  const std::vector<float> garbage((V + 1) * channels, NAN);
  const Both<float> there(garbage), next(garbage), made{std::vector<float>(channels * n)};
  c.vertex = vertex.device(), c.weight = weight.device(), c.first = first.device();
  c.user = user.device(), c.user_weight = user_weight.device();
  c.before = before.device(), c.after = after.device(), c.norm = norm.device();
  const auto run = [&](LatticeWork work, int axis, const float* in, float* to) {
    c.in = in, c.out = to;
    test::ok(test::cuda().lattice(c, work, axis, nullptr));
  };
  run(LatticeWork::splat, 0, x.device(), there.device());
  float *from = there.device(), *to = next.device();
  for (int axis = 0; axis <= d; ++axis, std::swap(from, to)) run(LatticeWork::blur, axis, from, to);
  run(LatticeWork::slice, 0, from, made.device());
  CHECK(same_bits(made.read(), out));
  CHECK(test::cuda().lattice(c, LatticeWork::blur, d + 1, nullptr) != 0);
}

TEST_CASE("a random field's update and its gradient have the host's bits") {
  SLUICE_NEEDS_GPU();
  CrfCall<float> c;
  c.members = 2, c.classes = 3, c.n = 333, c.by_b = 0.7F, c.by_c = -1.2F;
  const std::size_t all = 2 * 3 * 333;
  const Both<float> a(test::numbers(all, 1, -9, 9)), b(test::numbers(all, 2)),
      more(test::numbers(all, 3));
  for (const bool backward : {false, true}) {
    CAPTURE(backward);
    std::vector<float> wanted(all);
    c.a = a.host.data(), c.b = b.host.data(), c.c = more.host.data(), c.out = wanted.data();
    for (std::int64_t i = 0; i < c.members * c.n; ++i)
      backward ? crf_slope<float, 1>(c, i) : crf_update<float, 1>(c, i);
    const Both<float> made(std::vector<float>(all, -1));
    c.a = a.device(), c.b = b.device(), c.c = more.device(), c.out = made.device();
    test::ok(test::cuda().crf(c, backward, nullptr));
    CHECK(same_bits(made.read(), wanted));
  }
  c.classes = 0;
  CHECK(test::cuda().crf(c, false, nullptr) != 0);
}

TEST_CASE("a mixture's shares have the host's bits") {
  SLUICE_NEEDS_GPU();
  MixtureCall<float> c;
  c.colours = 3, c.n = 515, c.classes = 4, c.components = 2;
  const Both<float> packed(test::numbers(8 * component_size(3), 1, 0.1F, 2)),
      image(test::numbers(3 * c.n, 2, -3, 3));
  std::vector<float> wanted(4 * c.n), scratch(4 * 16), density(4 * 16);
  c.packed = packed.host.data(), c.image = image.host.data(), c.out = wanted.data();
  for (std::int64_t i = 0; i < c.n; i += 16)  // as the host does
    mixture_shares<float, 16>(c, std::min(i, c.n - 16), scratch.data(), density.data(), 16);
  const Both<float> made{std::vector<float>(4 * c.n)};
  c.packed = packed.device(), c.image = image.device(), c.out = made.device();
  test::ok(test::cuda().mixture(c, nullptr));
  CHECK(same_bits(made.read(), wanted));
  c.colours = 33;
  CHECK(test::cuda().mixture(c, nullptr) != 0);
}

TEST_CASE("the median and its gradient have the host's bits") {
  SLUICE_NEEDS_GPU();
  for (const std::array<std::int64_t, 3> r :
       {std::array<std::int64_t, 3>{0, 0, 0}, {1, 1, 1}, {0, 2, 1}, {2, 2, 2}, {0, 5, 6}}) {
    MedianCall<float> c;
    c.volumes = 2;
    const std::int64_t of[] = {3, 5, 19};
    for (int a = 0; a < 3; ++a) c.of[a] = of[a], c.wide[a] = 2 * r[a] + 1;
    CAPTURE(c.count());
    std::vector<std::int64_t> taps;
    for (std::int64_t x = 0; x < c.wide[0]; ++x)
      for (std::int64_t y = 0; y < c.wide[1]; ++y)
        for (std::int64_t z = 0; z < c.wide[2]; ++z)
          taps.push_back((x * c.framed(1) + y) * c.framed(2) + z);
    const Both<std::int64_t> by(taps);
    const Both<float> image(test::numbers(c.cells(), 1)), grad(test::numbers(c.voxels(), 2));
    std::vector<float> median(c.voxels()), slope(c.cells()), held(16 * median_held(c.count()));
    Numbers chosen(c.voxels());
    c.by = by.host.data(), c.image = image.host.data(), c.out = median.data();
    for (std::int64_t row = 0; row < c.voxels(); row += 19)
      for (const std::int64_t z : {0, 3}) median_of<float, 16>(c, row + z, held.data());
    c.median = median.data(), c.grad = grad.host.data(), c.chosen = chosen.data();
    for (std::int64_t i = 0; i < c.voxels(); ++i) median_choose(c, i);
    c.out = slope.data();
    for (std::int64_t i = 0; i < c.cells(); ++i) median_gather(c, i);
    double given = 0, got = 0;
    for (const float g : grad.host) given += g;
    for (const float g : slope) got += g;
    CHECK(std::abs(given - got) < 1e-3);

    const Both<float> made{std::vector<float>(c.voxels())}, back{std::vector<float>(c.cells())};
    const Both<std::int32_t> which{Numbers(c.voxels())};
    c.by = by.device(), c.image = image.device(), c.grad = grad.device();
    c.median = c.out = made.device(), c.chosen = which.device();
    test::ok(test::cuda().median(c, MedianWork::median, nullptr));
    test::ok(test::cuda().median(c, MedianWork::choose, nullptr));
    c.out = back.device();
    test::ok(test::cuda().median(c, MedianWork::gather, nullptr));
    CHECK(same_bits(made.read(), median));
    CHECK(which.read() == chosen);
    CHECK(same_bits(back.read(), slope));
  }
  MedianCall<float> wide;
  wide.wide[2] = 1023;
  CHECK(test::cuda().median(wide, MedianWork::median, nullptr) != 0);
}
