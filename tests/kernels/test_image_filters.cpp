// The bilateral filters, the lattice, the random field and the mixture against golden values and
// central differences.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/image/bilateral.h"
#include "kernels/image/crf.h"
#include "kernels/image/filters.h"
#include "kernels/image/instances.h"
#include "kernels/image/lattice.h"
#include "kernels/image/lattice_point.h"
#include "kernels/image/median.h"
#include "kernels/image/mixture.h"
#include "tests/kernels/gradient_error.h"

using namespace sluice;

namespace {

at::Tensor image() { return row({0, .25, 1, .75, 0, .5}); }
at::Tensor number(double v) { return at::scalar_tensor(v, at::kDouble); }
at::Tensor list(std::vector<double> v) { return at::tensor(v, at::kDouble); }

std::vector<at::Tensor> gradients(const at::Tensor& out, const std::vector<at::Tensor>& inputs,
                                  const at::Tensor& weight) {
  return torch::autograd::grad({out}, inputs, {weight.view(out.sizes())});
}
const at::Tensor first = row({1, 0, 0, 0, 0, 0}), ones = row({1, 1, 1, 1, 1, 1});

}  // namespace

TEST_CASE("the bilateral filters give the golden values and gradients") {
  at::Tensor x = image().requires_grad_(), s = list({1}).requires_grad_(),
             c = number(.5).requires_grad_();
  at::Tensor out = bilateral(x, x, s, c, Neighbours::clamped);
  CHECK(apart(out, row({.066275, .262956, .820144, .706162, .234797, .43088})) < 1e-6);
  CHECK(apart(gradients(out, {x}, first)[0], row({.831479, .190343, -.021822, 0, 0, 0})) < 1e-6);

  out = bilateral(x, x, s, c, Neighbours::inside);
  CHECK(apart(out, row({.097923, .280266, .820144, .706162, .221046, .396403})) < 1e-6);
  auto g = gradients(out, {x, s, c}, ones);
  CHECK(apart(g[0], row({.92734, 1.127505, .859361, 1.128709, .908478, 1.048608})) < 1e-6);
  CHECK(apart(g[1], list({.085969})) < 1e-6);
  CHECK(apart(g[2], list({.019742})) < 1e-6);

  const at::Tensor guide = row({0, 0, 1, 1, 1, 0}).requires_grad_();
  out = bilateral(x, guide, s, c, Neighbours::inside);
  CHECK(apart(out, row({.104593, .202599, .800872, .609091, .346103, .466863})) < 1e-6);
  g = gradients(out, {x, guide, s, c}, row({1, 2, 3, 4, 5, 6}));
  CHECK(apart(g[0], row({1.355936, 1.711213, 3.185298, 4.549724, 4.487683, 5.710145})) < 1e-6);
  CHECK(apart(g[1], row({-.055173, .012446, .042941, -.099107, .697303, -.59841})) < 1e-6);
  CHECK(apart(g[2], list({.43335})) < 1e-5);
  CHECK(apart(g[3], list({-1.282274})) < 1e-6);
}

TEST_CASE("the bilateral filters' gradients are central differences on one to three axes") {
  const std::vector<std::vector<std::int64_t>> shapes{{7}, {5, 6}, {3, 4, 3}};
  for (const auto& shape : shapes)
    for (const auto neighbours : {Neighbours::clamped, Neighbours::inside}) {
      CAPTURE(shape.size());
      std::vector<std::int64_t> of{2, 2}, with{2, 3};
      of.insert(of.end(), shape.begin(), shape.end());
      with.insert(with.end(), shape.begin(), shape.end());
      std::vector<double> sigmas{.9, .7, .8};
      sigmas.resize(shape.size());
      const auto filter = [&](const auto& t) {
        return bilateral(t[0], t[1], t[2], t[3], neighbours);
      };
      CHECK(gradient_error(filter, {wave(of, .9), wave(with, 1.9), list(sigmas), number(.6)}) <
            1e-6);
      const auto self = [&](const auto& t) {
        return bilateral(t[0], t[0], list({.8}), number(.5), neighbours);
      };
      CHECK(gradient_error(self, {wave(of, .7)}) < 1e-6);
    }
}

TEST_CASE("the lattice's vertices, and what it filters, are golden") {
  kernels::LatticePoint<2> point;
  const double feature[] = {.3, .8}, weights[] = {.026795, .626795, .34641};
  const int keys[3][2] = {{0, 0}, {1, 1}, {2, -1}};
  REQUIRE(point.set(2, [&](int i) { return feature[i]; }));
  for (int k = 0; k < 3; ++k) {
    CHECK(point.key(k, 0) == keys[k][0]);
    CHECK(point.key(k, 1) == keys[k][1]);
    CHECK(std::abs(point.weight[k] - weights[k]) < 1e-6);
  }
  const at::Tensor features =
      at::cat({row({0, .4, 1.1, .9, .2, .6}), row({.3, 1.7, .2, .8, 1.1, .1})}, 1);
  const at::Tensor x = image().requires_grad_(), out = Lattices(features, {.5, 1}).filter(x);
  CHECK(apart(out, row({.208098, .303488, .692592, .590279, .26108, .46979})) < 1e-6);
  CHECK(apart(gradients(out, {x}, first)[0],
              row({.355379, .12752, .037937, .061284, .233244, .184636})) < 1e-6);
  CHECK_THROWS_AS(Lattices(at::full({1, 1, 3}, 1e30), {1}), DataError);
  CHECK_THROWS_AS(Lattices(at::full({1, 1, 3}, std::nan("")), {1}), DataError);
  // More uses of vertices than have a number; refused before any memory is asked for.
  const at::Tensor vast = at::zeros({1, 1, 1}).expand({1, 1, std::int64_t{1} << 31});
  CHECK_THROWS_WITH_AS(Lattices(vast, {1}),
                       "an image of 2147483648 voxels is too large for a lattice", DataError);
}

TEST_CASE("the lattice comes near the sum in full, for up to five features") {
  at::manual_seed(1);
  for (const std::int64_t d : {1, 2, 3, 4, 5}) {
    CAPTURE(d);
    const at::Tensor f = at::rand({1, d, 1500}, at::kDouble) * 3,
                     x = at::rand({1, 1, 1500}, at::kDouble);
    const at::Tensor w = at::exp(at::cdist(f[0].t(), f[0].t()).square() * -.5);
    const at::Tensor full = at::matmul(w, x[0][0]) / w.sum(1);
    const at::Tensor fast = Lattices(f, std::vector<double>(d, 1.0)).filter(x)[0][0];
    CHECK((fast - full).abs().mean().item<double>() / full.abs().mean().item<double>() < .05);
  }
}

TEST_CASE("a lattice that threads build by parts is the one that a thread builds") {
  at::manual_seed(3);
  const int before = at::get_num_threads();
  // Noise, whose vertices are nearly all met once, and noise that comes back in the opposite order:
  // what the last of two parts meets first, the first one meets last.
  const at::Tensor noise = at::rand({2, 3, 20, 21, 22}), half = noise.narrow(2, 0, 10),
                   x = at::rand({2, 2, 20, 21, 22});
  for (const at::Tensor& f : {noise, at::cat({half, half.flip({2, 3, 4})}, 2)}) {
    at::Tensor wanted;
    for (const int threads : {1, 2, 3, 8}) {
      CAPTURE(threads);
      at::set_num_threads(threads);
      const at::Tensor found = Lattices(f, {.05, .1, .2}).filter(x);
      if (!wanted.defined()) wanted = found;
      CHECK(at::equal(found, wanted));
    }
  }
  at::set_num_threads(before);
}

TEST_CASE("the random field gives the golden values and exact gradients") {
  const at::Tensor logits = at::cat({row({1, .5, -.5, -1, .2, .7}), row({0, 0, 0, 0, 0, 0})}, 1);
  const at::Tensor q = crf(logits, image(), {});
  CHECK(apart(q.narrow(1, 0, 1), row({.999048, .998423, .995661, .992895, .997876, .9987})) < 1e-5);
  CrfRule rule;
  rule.iterations = 0;
  CHECK(apart(crf(logits, image(), rule), at::softmax(logits, 1)) < 1e-12);
  rule.iterations = 3;
  rule.update_factor = .7;
  rule.compatibility = at::tensor(std::vector<double>{1, -.5, .2, .8}, at::kDouble).view({2, 2});
  const auto field = [&](const auto& t) { return crf(t[0], wave({1, 1, 4, 5}, .8), rule); };
  CHECK(gradient_error(field, {wave({1, 2, 4, 5}, 1.1)}) < 1e-6);
}

TEST_CASE("the mixture gives the golden model and probabilities") {
  const at::Tensor x = list({0, .1, .3, 2, 2.2, 2.5, 5, 5.1, 5.6, 3, 1}).view({1, 11});
  const at::Tensor label = list({0, 0, 0, 0, 0, 0, 1, 1, 1, -1, -1}).to(at::kLong);
  const at::Tensor one = apply_mixture(x, learn_mixture(x, label, 2, 1));
  CHECK(apart(one[1], list({0, 0, 0, 0, 0, 0, .999414, .99968, .999882, 0, 0})) < 1e-6);
  CHECK(apart(apply_mixture(x.to(at::kFloat), learn_mixture(x, label, 2, 1)), one) < 1e-5);
  const double model[4][4] = {{3, .133333, 64.141551, 4.006344},
                              {3, 2.233333, 23.655575, 2.432745},
                              {2, 5.05, 396.8207, 13.280318},
                              {1, 5.6, 93963.28, 74.535600}};
  const Mixture two = learn_mixture(x, label, 2, 2);
  for (int k = 0; k < 4; ++k) {
    const MixtureComponent& c = two[k / 2][k % 2];
    CHECK(c.count == model[k][0]);
    CHECK(std::abs(c.mean[0] - model[k][1]) < 1e-6);
    CHECK(c.root[0] * c.root[0] == doctest::Approx(model[k][2]));
    CHECK(c.factor == doctest::Approx(model[k][3]));
  }
  // A colour that no class knows, and a class without voxels.
  const at::Tensor far = apply_mixture(at::full({1, 1}, 1e4F), learn_mixture(x, label, 3, 2));
  CHECK(apart(far, at::zeros({3, 1})) == 0);
}

TEST_CASE("a watershed's water goes no lower than it stood, as scikit-image's") {
  const at::Tensor heights = at::tensor({0.f, 1.f, 0.f, 0.f, 1.f}).view({1, 1, 5});
  const at::Tensor markers = at::tensor({1, 0, 0, 0, 2}).view({1, 1, 5});
  CHECK(watershed(heights, markers, at::ones_like(markers), 1)
            .flatten()
            .equal(at::tensor({1, 1, 1, 2, 2}, at::kInt)));
  // Heights that float32 cannot tell apart: the lower of two passes floods the middle first.
  const at::Tensor fine = at::tensor({0., 1 + 2e-9, 1., 1 + 1e-9, 0.}, at::kDouble).view({1, 1, 5});
  CHECK(watershed(fine, markers, at::ones_like(markers), 1)
            .flatten()
            .equal(at::tensor({1, 1, 2, 2, 2}, at::kInt)));
}

TEST_CASE("a window with NaN has no median, and all others have theirs") {
  const at::Tensor whole = at::arange(49, at::kFloat).view({1, 1, 7, 7});
  at::Tensor holed = whole.clone();
  holed[0][0][2][3] = NAN;
  const at::Tensor lost = median_filter(holed, {1}).isnan();
  CHECK(lost.sum().item<int>() == 9);
  CHECK(lost[0][0].slice(0, 1, 4).slice(1, 2, 5).all().item<bool>());
  CHECK(median_filter(holed, {1})
            .masked_select(~lost)
            .equal(median_filter(whole, {1}).masked_select(~lost)));
}

TEST_CASE("the median is the middle one, and its gradient goes there") {
  at::manual_seed(2);
  for (const std::int64_t r : {0, 1, 2}) {
    const at::Tensor x = at::rand({1, 2, 9, 10, 19}),
                     w = at::replication_pad3d(x, {r, r, r, r, r, r});
    const std::int64_t n = 2 * r + 1;
    const at::Tensor windows = w.unfold(2, n, 1).unfold(3, n, 1).unfold(4, n, 1);
    CHECK(at::equal(median_filter(x, {r}),
                    std::get<0>(windows.reshape({1, 2, 9, 10, 19, -1}).median(-1))));
  }
  const auto median = [](const auto& t) { return median_filter(t[0], {1, 2}); };
  CHECK(gradient_error(median, {wave({2, 2, 5, 6}, 2.3)}) < 1e-6);
}

TEST_CASE("filters along axes are MONAI's, with gradients to image and kernel") {
  const at::Tensor x = row({0, .25, 1, .75, 0, .5, 2, 1.5});
  const std::pair<const char*, at::Tensor> fits[] = {
      {"zeros", row({0, .4, .828571, .642857, .171428, .735714, 1.657143, 1.371429})},
      {"reflect", row({0, .378571, .828571, .642857, .171428, .735714, 1.485714, 2.014286})},
      {"replicate", row({0, .4, .828572, .642857, .171429, .735714, 1.528572, 1.757143})},
      {"circular", row({.342857, .271429, .828571, .642857, .171428, .735714, 1.657143, 1.35})}};
  for (const auto& [mode, wanted] : fits) {
    CAPTURE(mode);
    CHECK(apart(filter_along(x, 2, savitzky_golay_kernel(5, 2), mode), wanted) < 2e-6);
  }
  const std::tuple<const char*, at::Tensor, double> smooth[] = {
      {"erf", row({.157916, .379873, .5678, .576603, .581605, .840262, 1.126111, .995106}),
       -6.085735},
      {"sampled", row({.152613, .380968, .577337, .57758, .567913, .837527, 1.147011, 1.011}),
       -6.36244},
      {"scalespace", row({.140205, .369802, .610291, .59372, .521013, .807037, 1.206428, 1.041502}),
       -6.575473}};
  for (const auto& [approx, wanted, slope] : smooth) {
    CAPTURE(approx);
    const at::Tensor sigma = list({1.2}).requires_grad_();
    const at::Tensor out = separable_filtering(x, {gaussian_kernel(sigma, 4, approx)});
    CHECK(apart(out, wanted) < 1e-5);
    CHECK(apart(gradients(out, {sigma}, row({1, 2, 3, 4, 5, 6, 7, 8}))[0], list({slope})) < 2e-4);
    const auto of = [&, a = std::string(approx)](const auto& t) {
      return separable_filtering(t[0], {gaussian_kernel(t[1], 4, a)});
    };
    CHECK(gradient_error(of, {wave({2, 1, 4, 5}, .9), list({.8})}) < 1e-6);
  }
  // In one pass, without a trained kernel.
  const at::Tensor small = wave({2, 2, 5, 4, 3}, .9),
                   kernel = gaussian_kernel(list({.8}), 4, "erf");
  const at::Tensor quick = small.to(at::kFloat).requires_grad_(),
                   slow = small.clone().requires_grad_();
  const at::Tensor a = separable_filtering(quick, {kernel}),
                   b = separable_filtering(slow, {kernel});
  CHECK(apart(a, b) < 1e-5);
  const at::Tensor weight = wave(small.sizes(), 1.7);
  CHECK(apart(gradients(a, {quick}, weight.to(at::kFloat))[0], gradients(b, {slow}, weight)[0]) <
        1e-5);

  const at::Tensor h = hilbert_transform(x, 2, 8);
  CHECK(apart(h.select(-1, 0), x) < 1e-6);
  CHECK(apart(h.select(-1, 1), row({.728553, -.396447, -.198223, .396447, .021447, -1.103553,
                                    -.551777, 1.103553})) < 2e-6);
  CHECK(apart(hilbert_transform(x, 2, 5).select(-1, 1),
              row({-.117557, -.506555, -.307768, .57921, .352671})) < 2e-6);
  const auto filter = [](const auto& t) { return apply_filter(t[0], t[1]); };
  CHECK(gradient_error(filter, {wave({2, 2, 4, 5}, .9), wave({3, 3}, 1.1)}) < 1e-6);
  CHECK(gradient_error(filter, {wave({2, 2, 4, 5}, .9), wave({2, 1, 3}, 1.1)}) < 1e-6);
  CHECK(gradient_error(filter, {wave({2, 2, 6}, .9), wave({2, 2, 5}, 1.1)}) < 1e-6);
}
