// What holds for every node of the resampler's, the filters' and the mixture's family, forward and
// backward: the same bits on any float_number of threads and in every repeat, and no memory that
// stays.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <fstream>

#include "kernels/image/bilateral.h"
#include "kernels/image/crf.h"
#include "kernels/image/filters.h"
#include "kernels/image/grid_sampling.h"
#include "kernels/image/lattice.h"
#include "kernels/image/median.h"
#include "kernels/image/mixture.h"
#include "kernels/net/lltm.h"
#include "tests/campaign.h"
#include "tests/kernels/gradient_error.h"

using namespace sluice;

namespace {

struct Module {
  const char* name;
  Operation of;
  std::vector<at::Tensor> inputs;
};

at::Tensor float_number(double v) { return at::scalar_tensor(v, at::kFloat); }

// Volumes of `n` voxels an axis, two channels, float32.
std::vector<Module> modules(std::int64_t n) {
  const auto volume = [n](std::int64_t channels, double pace) {
    return wave({1, channels, n, n + 1, n + 2}, pace).to(at::kFloat);
  };
  const at::Tensor x = volume(2, .37), guide = volume(1, .7);
  const at::Tensor grid =
      (wave({1, n, n + 1, n + 2, 3}, 2.9) * static_cast<double>(n)).to(at::kFloat);
  const std::vector<std::int64_t> shape{n, n + 1, n + 2};
  const at::Tensor sigmas = at::full({3}, .8, at::kFloat);
  std::vector<Module> all;
  for (const int order : {0, 1, 3, 7}) {
    kernels::GridRule rule;
    for (int a = 0; a < 3; ++a) {
      rule.order[a] = order;
      rule.bound[a] = kernels::Bound::dct2;
    }
    all.push_back(
        {"grid_pull", [=](const auto& t) { return grid_pull(t[0], t[1], rule); }, {x, grid}});
    all.push_back({"grid_push",
                   [=](const auto& t) { return grid_push(t[0], t[1], shape, rule); },
                   {x, grid}});
    all.push_back(
        {"grid_count", [=](const auto& t) { return grid_count(t[0], shape, rule); }, {grid}});
    all.push_back(
        {"grid_grad", [=](const auto& t) { return grid_grad(t[0], t[1], rule); }, {x, grid}});
  }
  for (const Neighbours neighbours : {Neighbours::clamped, Neighbours::inside})
    all.push_back({"bilateral filters",
                   [=](const auto& t) { return bilateral(t[0], t[1], t[2], t[3], neighbours); },
                   {x, guide, sigmas, float_number(.5)}});
  all.push_back(
      {"phl_filter",
       [=](const auto& t) {
         return Lattices(at::cat({guide, coordinates(guide)}, 1), {.3, 4, 4, 4}).filter(t[0]);
       },
       {x}});
  all.push_back({"crf", [=](const auto& t) { return crf(t[0], guide, {}); }, {x}});
  all.push_back({"lltm",
                 [](const auto& t) {
                   const LltmState now = lltm(t[0], {t[1], t[2]}, t[3], t[4]);
                   return at::cat({now.h, now.cell}, 1);
                 },
                 {wave({9, 32}, .3).to(at::kFloat), wave({9, 24}, .5).to(at::kFloat),
                  wave({9, 24}, .9).to(at::kFloat), wave({72, 56}, .11).to(at::kFloat),
                  wave({72}, .2).to(at::kFloat)}});
  all.push_back({"median_filter", [](const auto& t) { return median_filter(t[0], {1}); }, {x}});
  all.push_back(
      {"gaussian_filter",
       [](const auto& t) { return separable_filtering(t[0], {gaussian_kernel(t[1], 4, "erf")}); },
       {x, float_number(1.2)}});
  all.push_back({"savitzky_golay_filter",
                 [](const auto& t) {
                   return filter_along(t[0], 2, savitzky_golay_kernel(5, 2).to(at::kFloat),
                                       "reflect");
                 },
                 {x}});
  all.push_back({"hilbert_transform",
                 [n](const auto& t) {
                   return at::view_as_real(at::view_as_complex(hilbert_transform(t[0], 2, n)));
                 },
                 {x}});
  all.push_back({"apply_filter",
                 [](const auto& t) { return apply_filter(t[0], t[1]); },
                 {x, sharpen_kernel(3, 3).to(at::kFloat)}});
  all.push_back({"sobel",
                 [](const auto& t) {
                   return sobel(t[0], 3, {0, 1, 2}, true, "reflect");
                 },
                 {x}});
  const at::Tensor label = at::arange(9000, at::kLong).remainder(3) - 1;
  all.push_back({"gaussian_mixture_model",
                 [=](const auto& t) {
                   return apply_mixture(t[0].detach(), learn_mixture(t[0].detach(), label, 2, 3)) +
                          0 * t[0].sum();
                 },
                 {wave({3, 9000}, 1.3).to(at::kFloat)}});
  return all;
}

// The output, and the gradients of all inputs.
std::vector<at::Tensor> results(const Module& m) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& t : m.inputs) leaves.push_back(t.detach().clone().requires_grad_());
  const at::Tensor out = m.of(leaves);
  auto all = torch::autograd::grad({out}, leaves, {wave(out.sizes(), 1.7).to(out.scalar_type())},
                                   {}, false, true);
  all.push_back(out.detach());
  return all;
}

}  // namespace

TEST_CASE("every module gives the same bits on 1, 2 and 8 threads, again and again") {
  const int before = at::get_num_threads();
  for (const Module& m : modules(9)) {
    CAPTURE(std::string(m.name));
    std::vector<at::Tensor> wanted;
    for (const int threads : {1, 2, 8}) {
      CAPTURE(threads);
      at::set_num_threads(threads);
      for (int repeat = 0; repeat < (campaign::at_length() ? 10 : 3); ++repeat) {
        const auto found = results(m);
        if (wanted.empty()) wanted = found;
        for (std::size_t i = 0; i < wanted.size(); ++i)
          CHECK((!wanted[i].defined() || at::equal(found[i], wanted[i])));
      }
    }
  }
  at::set_num_threads(before);
}

TEST_CASE("a thousand calls of every module keep no memory") {
  const auto resident = [] {
    std::int64_t all = 0, here = 0;
    std::ifstream("/proc/self/statm") >> all >> here;
    return here * 4;  // KiB
  };
  const int calls = campaign::at_length() ? 1000 : 100;
  for (const Module& m : modules(5)) {
    for (int i = 0; i < calls / 4; ++i) results(m);
    const auto before = resident();
    for (int i = 0; i < calls; ++i) results(m);
    const auto grown = resident() - before;
    CAPTURE(std::string(m.name));
    CAPTURE(grown);
    CHECK(grown <= 512);
  }
}
