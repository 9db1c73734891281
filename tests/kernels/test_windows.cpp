// Windows as nnU-Net 2.8.1 lays and weighs them; MONAI's are held by the golden values of
// sliding_window.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/infer/windows.h"

using namespace sluice;

using Starts = std::vector<std::int64_t>;

TEST_CASE("even windows begin where nnU-Net's do") {
  const auto even = [](std::int64_t size, std::int64_t window, double overlap) {
    return window_starts(size, window, overlap, true);
  };
  CHECK(even(110, 64, 0.5) == Starts{0, 23, 46});
  CHECK(even(64, 64, 0.5) == Starts{0});
  CHECK(even(41, 40, 0.5) == Starts{0, 1});
  CHECK(even(300, 128, 0.5) == Starts{0, 57, 115, 172});
  CHECK(even(257, 96, 0.5) == Starts{0, 40, 80, 121, 161});
  CHECK(even(200, 128, 0.75) == Starts{0, 24, 48, 72});
  CHECK(even(3, 1, 0.5) == Starts{0, 1, 2});  // slices are not seen twice
  CHECK(window_starts(110, 64, 0.5) == Starts{0, 32, 46});
}

TEST_CASE("the weights of a window are nnU-Net's") {
  const BlendWindow w = blend_window({8, 12, 10}, "nnunet", {0.125});
  const double lines[3][12] = {
      {0.0033546, 0.11109, 1.3533528, 6.0653066, 10.0, 6.0653066, 1.3533528, 0.11109},
      {0.0033546, 0.0386592, 0.285655, 1.3533528, 4.1111229, 8.007374, 10.0, 8.007374, 4.1111229,
       1.3533528, 0.285655, 0.0386592},
      {0.0033546, 0.0597602, 0.5613476, 2.780373, 7.2614904, 10.0, 7.2614904, 2.780373, 0.5613476,
       0.0597602}};
  const at::Tensor all = w.weights[0].view({8, 1, 1}) * w.weights[1].view({12, 1}) * w.weights[2];
  for (int a = 0; a < 3; ++a) {
    at::Tensor line = all;
    for (int b = 2; b >= 0; --b)
      if (a != b) line = line.select(b, line.size(b) / 2);
    for (std::int64_t i = 0; i < line.numel(); ++i)
      CHECK(line[i].item<double>() == doctest::Approx(lines[a][i]).epsilon(1e-5));
  }
  CHECK(all.sum().item<double>() == doctest::Approx(295.20189385048127).epsilon(1e-5));
  CHECK(w.least == doctest::Approx(3.775134544279099e-10).epsilon(1e-5));

  // Narrower, the impulse does not reach the edges: the smallest other weight stands there.
  const BlendWindow narrow = blend_window({16}, "nnunet", {0.05});
  CHECK(narrow.weights[0][0].item<float>() == 0);
  CHECK(narrow.least > 0);
  CHECK(narrow.least == doctest::Approx(narrow.weights[0][5].item<double>()));
}

TEST_CASE("sums in float16 are rounded as float16 is") {
  at::manual_seed(5);
  const at::Tensor x =
      at::cat({at::randn({20000}), at::randn({20000}) * 1e-5, at::randn({999}) * 3e4,
               at::arange(-40, 40, at::kFloat) * 0x1p-25f});
  const at::Tensor rounded = x.to(at::kHalf).to(at::kFloat);
  int other = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float wanted = rounded[i].item<float>();
    other += std::isfinite(wanted) && kernels::as_half(x[i].item<float>()) != wanted;
  }
  CHECK(other == 0);

  const at::Tensor logits = at::randn({3, 2, 8});
  BlendWindow window = blend_window({8}, "nnunet", {0.125}, true);
  CHECK(window.least >= 0x1p-24f);
  const at::Tensor result = at::empty({2, 1, 1, 14}), classes = at::empty({1, 1, 1, 14}, at::kByte);
  BlendWindow flat = window;
  flat.size = {1, 1, 8};
  flat.weights = {at::ones({1}), at::ones({1}), window.weights[0]};
  for (const at::Tensor& to : {result, classes}) {
    Blend blend(flat, 2, to);
    blend.add(logits.view({3, 2, 1, 1, 8}), std::vector<Starts>{{0, 0, 0}, {0, 0, 3}, {0, 0, 6}});
    blend.finish();
  }
  at::Tensor sum = at::zeros({2, 14}, at::kHalf), total = at::zeros({14}, at::kHalf);
  const at::Tensor weights = window.weights[0].to(at::kHalf).clamp_min(window.least);
  for (int w = 0; w < 3; ++w) {
    sum.narrow(1, 3 * w, 8).add_(logits[w] * weights.to(at::kFloat));
    total.narrow(0, 3 * w, 8).add_(weights);
  }
  const at::Tensor wanted = sum / total;
  CHECK(at::equal(result.view({2, 14}), wanted.to(at::kFloat)));
  CHECK(at::equal(classes.view({14}), wanted.to(at::kFloat).argmax(0).to(at::kByte)));
}
