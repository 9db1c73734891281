// A few voxels through each kernel of the resampler's, the filters' and the mixture's family on a
// device, beside golden values: `sluice doctor` runs it, since a driver or a new card may be wrong
// without an error. The values are those of the host's tests.
#include "kernels/cuda/golden.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/bilateral_voxel.h"
#include "kernels/image/crf_voxel.h"
#include "kernels/image/grid_voxel.h"
#include "kernels/image/lattice_voxel.h"
#include "kernels/image/median_voxel.h"
#include "kernels/image/mixture_voxel.h"

namespace sluice::kernels {
namespace {

struct Failure {
  int error;
};
void must(int error) {
  if (error != 0) throw Failure{error};
}

// Numbers on the device.
template <class T>
class There {
 public:
  explicit There(const std::vector<T>& numbers) : size_(numbers.size()) {
    must(cuda_allocate(&memory_, size_ * sizeof(T)));
    must(cuda_copy(memory_, numbers.data(), size_ * sizeof(T), nullptr));
    must(cuda_synchronize(nullptr));
  }
  explicit There(std::int64_t n, T value = 0)
      : There(std::vector<T>(static_cast<std::size_t>(n), value)) {}
  There(const There&) = delete;
  ~There() { cuda_release(memory_); }
  operator T*() const { return static_cast<T*>(memory_); }
  std::vector<T> read() const {
    std::vector<T> out(size_);
    must(cuda_copy(out.data(), memory_, size_ * sizeof(T), nullptr));
    must(cuda_synchronize(nullptr));
    return out;
  }

 private:
  std::size_t size_;
  void* memory_ = nullptr;
};

// The places of `of` by what stands there, then where those of each number below n, and n, begin.
template <class T>
struct Sorted {
  std::vector<T> order, first;
  Sorted(const std::vector<std::int32_t>& of, std::int32_t n) : order(of.size()) {
    std::iota(order.begin(), order.end(), T(0));
    std::stable_sort(order.begin(), order.end(), [&](T a, T b) {
      return of[static_cast<std::size_t>(a)] < of[static_cast<std::size_t>(b)];
    });
    for (std::int32_t v = 0; v <= n; ++v)
      first.push_back(static_cast<T>(
          std::count_if(of.begin(), of.end(), [&](std::int32_t o) { return o < v; })));
  }
};

using Numbers = std::vector<float>;
const Numbers colours{0, .25F, 1, .75F, 0, .5F};

Numbers grid(GridWork work, Bound bound, int order, const Numbers& values = {}) {
  const There<float> image(Numbers{1, 2, 4, 8}), points(Numbers{-1.25F, .5F, 3.75F}),
      given(values.empty() ? Numbers{0} : values), out(work == GridWork::add ? 4 : 3);
  GridCall c;
  c.axes = 1;
  c.rule.order[0] = order;
  c.rule.bound[0] = bound;
  c.work = work;
  c.points = 3;
  c.shape[0] = 4;
  c.image = image;
  c.grid = points;
  c.values = given;
  c.out = out;
  if (!c.adds()) {
    must(cuda_grid(c, nullptr));
    return out.read();
  }
  GridUses uses;
  uses.end = c.points;
  const There<std::int32_t> line(uses.count(c));
  uses.line = line;
  must(cuda_grid_uses(c, uses, nullptr));
  const Sorted<std::int64_t> by_line(line.read(), static_cast<std::int32_t>(c.lines()));
  const There<std::int64_t> sorted(by_line.order), first(by_line.first);
  uses.sorted = sorted;
  uses.first = first;
  must(cuda_grid_add(c, uses, nullptr));
  return out.read();
}
Numbers pull_linear() { return grid(GridWork::value, Bound::dst2, 1); }
Numbers pull_cubic() { return grid(GridWork::value, Bound::dct2, 3); }
Numbers pull_seventh() { return grid(GridWork::value, Bound::dct2, 7); }
Numbers push() { return grid(GridWork::add, Bound::dct2, 1, {1, 2, 3}); }
Numbers slopes() { return grid(GridWork::slopes, Bound::dct2, 3); }

// Sigmas 1 and 0.5; beyond the border its colours go on.
Numbers bilateral() {
  Numbers framed{0, 0};
  framed.insert(framed.end(), colours.begin(), colours.end());
  framed.insert(framed.end(), {.5F, .5F});
  const There<float> image(framed), mask(10, 1), filtered(6), weight(6);
  BilateralCall<float> c;
  c.half[2] = 2;
  c.of[2] = 6;
  c.stride[0] = c.stride[1] = c.cells = 10;
  c.space[2] = static_cast<float>(-1 / (2 * std::log(2.0)));
  c.color = 4 * c.space[2];
  c.guide = c.image = image;
  c.mask = mask;
  c.filtered = filtered;
  c.weight = weight;
  must(cuda_bilateral(c, false, nullptr));
  return filtered.read();
}

// The lattice of six voxels with two features each, built and passed through as lattice.cpp does.
struct SmallLattice {
  static constexpr int n = 6, d = 2, uses = n * (d + 1), places = 64;
  std::int32_t vertices = 0;
  There<std::int32_t> vertex{uses};
  There<float> weight{uses};
  There<std::int32_t> before{1}, after{1};  // of no use before the vertices are counted

  Numbers filtered() {
    const There<float> features(
        Numbers{0, .4F, 1.1F, .9F, .2F, .6F, .3F, 1.7F, .2F, .8F, 1.1F, .1F});
    const There<std::int32_t> keys(uses * d), table(places, -1), slot(uses), first(uses), bad(1);
    LatticeBuild b;
    b.d = d;
    b.n = n;
    b.places = places;
    b.sigma[0] = .5;
    b.sigma[1] = 1;
    b.features = features;
    b.keys = keys;
    b.weight = weight;
    b.table = table;
    b.slot = slot;
    b.first = first;
    b.vertex = vertex;
    b.bad = bad;
    for (const LatticeStage stage : {LatticeStage::place, LatticeStage::insert, LatticeStage::mark})
      must(cuda_lattice_build(b, stage, nullptr));
    std::vector<std::int32_t> sums = first.read();
    std::partial_sum(sums.begin(), sums.end(), sums.begin());
    vertices = std::clamp(sums.back(), 1, uses);
    const There<std::int32_t> summed(sums), use(vertices), behind(vertices * (d + 1), vertices),
        ahead(vertices * (d + 1), vertices);
    b.vertices = vertices;
    b.sums = summed;
    b.use = use;
    b.before = behind;
    b.after = ahead;
    must(cuda_lattice_build(b, LatticeStage::number, nullptr));
    must(cuda_lattice_build(b, LatticeStage::neighbours, nullptr));

    // The uses of each vertex, in the voxels' order.
    const Sorted<std::uint32_t> by_vertex(vertex.read(), vertices);
    std::vector<std::uint32_t> users;
    Numbers shares;
    const Numbers weights = weight.read();
    for (const std::uint32_t use_of : by_vertex.order) {
      users.push_back(use_of / (d + 1));
      shares.push_back(weights[use_of]);
    }
    const There<std::uint32_t> first_user(by_vertex.first), user(users);
    const There<float> share(shares);
    LatticeCall<float> c;
    c.d = d;
    c.n = n;
    c.vertices = vertices;
    c.vertex = vertex;
    c.weight = weight;
    c.first = first_user;
    c.user = user;
    c.user_weight = share;
    c.before = behind;
    c.after = ahead;
    Numbers out = passed(c, colours);
    const Numbers norm = passed(c, Numbers(n, 1));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] /= norm[i];
    return out;
  }

 private:
  Numbers passed(LatticeCall<float> c, const Numbers& values) const {
    const There<float> in(values), one(vertices + 1), two(vertices + 1), out(n);
    const float* from = in;
    float *to = one, *next = two;
    const auto step = [&](LatticeWork work, int axis) {
      c.in = from;
      c.out = work == LatticeWork::slice ? static_cast<float*>(out) : to;
      must(cuda_lattice(c, work, axis, nullptr));
      from = to;
      std::swap(to, next);
    };
    step(LatticeWork::splat, 0);
    for (int axis = 0; axis <= d; ++axis) step(LatticeWork::blur, axis);
    step(LatticeWork::slice, 0);
    return out.read();
  }
};
Numbers lattice() { return SmallLattice().filtered(); }

// Softmax of the logits and twice a message.
Numbers crf() {
  const There<float> logits(Numbers{1, .5F, -.5F, -1, 0, 0, 0, 0}),
      messages(Numbers{0, 0, .25F, .5F, 0, 0, 0, 0}), out(8);
  CrfCall<float> c{1, 2, 4, logits, messages};
  c.by_b = 2;
  c.out = out;
  must(cuda_crf(c, false, nullptr));
  return out.read();
}

// Two classes of one Gaussian each, of variance 1 about 0 and 1.
Numbers mixture() {
  const There<float> packed(Numbers{1, 0, 1, 1, 1, 1}), image(Numbers{0, .5F, 1, 2}), out(8);
  must(cuda_mixture(MixtureCall<float>{1, 4, 2, 1, packed, image, out}, nullptr));
  return out.read();
}

Numbers median() {
  const There<float> image(Numbers{0, 0, 3, 1, 2, 2}), out(4);
  const There<std::int64_t> by(std::vector<std::int64_t>{0, 1, 2});
  MedianCall<float> c;
  c.of[2] = 4;
  c.wide[2] = 3;
  c.by = by;
  c.image = image;
  c.out = out;
  must(cuda_median(c, MedianWork::median, nullptr));
  return out.read();
}

struct Golden {
  const char* name;
  Numbers (*run)();
  Numbers wanted;
};

std::string wrong_on(int device) {
  const Golden all[] = {
      {"grid_pull", pull_linear, {-1.25F, 1.5F, -4}},
      {"grid_pull, order 3", pull_cubic, {1.32292F, 1.54167F, 7.70833F}},
      {"grid_pull, order 7", pull_seventh, {1.490529F, 1.711706F, 7.106361F}},
      {"grid_push", push, {1.75F, 1.25F, 0, 3}},
      {"grid_grad", slopes, {-.75F, 1, -1}},
      {"bilateral", bilateral, {.066275F, .262956F, .820144F, .706162F, .234797F, .43088F}},
      {"lattice", lattice, {.208098F, .303488F, .692592F, .590279F, .26108F, .46979F}},
      {"crf", crf, {.731059F, .622459F, .5F, .5F, .268941F, .377541F, .5F, .5F}},
      {"mixture", mixture, {.622459F, .5F, .377541F, .182426F, .377541F, .5F, .622459F, .817574F}},
      {"median", median, {0, 1, 2, 2}}};
  must(cuda_use(device));
  std::string wrong;
  for (const auto& [name, run, wanted] : all) {
    const Numbers found = run();
    bool same = found.size() == wanted.size();
    for (std::size_t i = 0; same && i < found.size(); ++i)
      same = std::abs(found[i] - wanted[i]) < 2e-5F;
    if (!same) wrong += (wrong.empty() ? "" : "; ") + std::string(name);
  }
  return wrong;
}

}  // namespace
}  // namespace sluice::kernels

int sluice_cuda_golden(int device, const char** wrong) {
  using namespace sluice::kernels;
  static std::string names;
  *wrong = "";
  try {
    int devices = 0;
    must(cuda_devices(&devices));
    must(device < devices ? cudaSuccess : cudaErrorInvalidValue);
    names = wrong_on(device);
  } catch (const Failure& f) {
    return f.error;
  }
  *wrong = names.c_str();
  return 0;
}
