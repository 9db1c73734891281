// Convolutions of common shapes on one thread: forward, gradient of the input and of the weight,
// ours at every level this processor has beside LibTorch's (oneDNN), as multiply-adds a second and
// as a share of what a plain loop of the same instruction reaches.
//
//   bench_convolutions [repeats] [first shape]
//
// Prints one JSON line a shape and way: billions of multiply-adds a second; and one with the
// milliseconds of a forward pass by the share of vectors (kernels/net/sparsity.h) that is kept.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "kernels/base/allocator.h"
#include "kernels/net/direct_conv.h"
#include "kernels/net/direct_conv_tiles.h"
#include "kernels/net/sparsity.h"

using namespace sluice;

namespace {

struct Shape {
  const char* name;
  bool transposed;
  std::int64_t in, out, kernel, stride;
  std::vector<std::int64_t> size;  // of the input
  std::int64_t groups = 1;
};

// Of brain, hippocampus, the spleen network, dynunet, segresnet, a resnet, a picture's U-Net and
// vnet.
const std::vector<Shape> shapes{
    {"8 to 8, 64^3", false, 8, 8, 3, 1, {64, 64, 64}},
    {"3 to 3, 48x64x48", false, 3, 3, 3, 1, {48, 64, 48}},
    {"1 to 16 s2, 48x64x48", false, 1, 16, 3, 2, {48, 64, 48}},
    {"16 to 16, 48^3", false, 16, 16, 3, 1, {48, 48, 48}},
    {"16 to 32 s2, 48^3", false, 16, 32, 3, 2, {48, 48, 48}},
    {"32 to 32, 48^3", false, 32, 32, 3, 1, {48, 48, 48}},
    {"64 to 64, 24^3", false, 64, 64, 3, 1, {24, 24, 24}},
    {"128 to 128, 12^3", false, 128, 128, 3, 1, {12, 12, 12}},
    {"256 to 256, 6^3", false, 256, 256, 3, 1, {6, 6, 6}},
    {"96 to 16 up, 24^3", true, 96, 16, 3, 2, {24, 24, 24}},
    {"48 to 3 up, 24x32x24", true, 48, 3, 3, 2, {24, 32, 24}},
    {"32 to 3 1x1, 48^3", false, 32, 3, 1, 1, {48, 48, 48}},
    {"32 to 32, 256^2", false, 32, 32, 3, 1, {256, 256}},
    {"64 to 64, 56^2", false, 64, 64, 3, 1, {56, 56}},
    {"256 to 256, 14^2", false, 256, 256, 3, 1, {14, 14}},
    {"1 to 64 k7, 64^3", false, 1, 64, 7, 2, {64, 64, 64}},
    {"16 to 16 k7, 48^3", false, 16, 16, 7, 1, {48, 48, 48}},
    {"32 to 32 k7, 256^2", false, 32, 32, 7, 1, {256, 256}},
    {"320 to 320, 8^3", false, 320, 320, 3, 1, {8, 8, 8}},
    {"512 to 512, 4^3", false, 512, 512, 3, 1, {4, 4, 4}},
    {"512 to 512, 2^3", false, 512, 512, 3, 1, {2, 2, 2}},
    {"64 to 128 s2 1x1, 16^3", false, 64, 128, 1, 2, {16, 16, 16}},
    {"512 to 2048 1x1, 7^2", false, 512, 2048, 1, 1, {7, 7}},
    {"16 to 96 1x1, 112^2", false, 16, 96, 1, 1, {112, 112}},
    {"128 to 32, 28^2", false, 128, 32, 3, 1, {28, 28}},
    {"256 to 64 1x1, 56^2", false, 256, 64, 1, 1, {56, 56}},
    {"96 depthwise, 112^2", false, 96, 96, 3, 1, {112, 112}, 96},
    {"240 depthwise k5 s2, 28^2", false, 240, 240, 5, 2, {28, 28}, 240},
    {"32 depthwise, 64^3", false, 32, 32, 3, 1, {64, 64, 64}, 32},
    {"32 to 32 k5, 64^3", false, 32, 32, 5, 1, {64, 64, 64}},
    {"128 to 128 k5, 16^3", false, 128, 128, 5, 1, {16, 16, 16}},
    {"256 to 256 k5, 8^3", false, 256, 256, 5, 1, {8, 8, 8}},
    {"16 to 16, 64^3", false, 16, 16, 3, 1, {64, 64, 64}},
    {"32 to 32, 32^3", false, 32, 32, 3, 1, {32, 32, 32}},
    {"128 to 128 of 32 groups, 16^3", false, 128, 128, 3, 1, {16, 16, 16}, 32},
    {"256 to 256 of 32 groups, 28^2", false, 256, 256, 3, 1, {28, 28}, 32},
    {"256 to 256 of 32 groups s2, 28^2", false, 256, 256, 3, 2, {28, 28}, 32},
    {"512 to 512 of 32 groups, 8^3", false, 512, 512, 3, 1, {8, 8, 8}, 32},
};

// Of the processor's time, which others on the machine take nothing of.
double thread_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_of(int repeats, const std::function<void()>& f) {
  f();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const double start = thread_seconds();
    f();
    times.push_back(thread_seconds() - start);
  }
  return *std::min_element(times.begin(), times.end());
}

// A full tile of sums over words that stay in the first-level cache.
double peak(Products p) {
  const bool by_tiles = p == Products::tiles;
  const MicroTile tile = by_tiles ? MicroTile{most_tile_sums, 2} : micro_tile_of(p);
  alignas(64) static float acc[most_tile_sums * 16];
  alignas(64) static float weights[64 * 2 * 16], in[1024];
  const std::ptrdiff_t row = 0;
  const int m = tile.sums / tile.vectors, words = 64, rounds = 2000;
  const MicroTask t{&row, 1,    words, reinterpret_cast<const char*>(in),
                    16,   4,    0,     reinterpret_cast<const char*>(weights),
                    acc,  false};
  const Micro micro = by_tiles ? nullptr : find_micro(p, 1, m, tile.vectors);
  const double s = seconds_of(20, [&] {
    Tiles tiles;
    for (int i = 0; i < rounds; ++i)
      if (micro)
        micro(t);
      else
        tiles.run(t, m, tile.vectors, tile_words(words));
  });
  return double(rounds) * words * tile.sums * 16 * numbers_a_word(p) / s / 1e9;
}

const char* name_of(Products p) {
  return std::array{"avx2", "avx512", "pairs", "tiles"}.at(static_cast<std::size_t>(p));
}

// What this processor can multiply such numbers with.
std::vector<Products> products_here(std::initializer_list<at::ScalarType> types) {
  std::vector<Products> all;
  for (const auto type : types)
    for (const auto level :
         {CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16, CpuLevel::amx})
      if (const auto p = products_for(type, level); level <= cpu_level() && p)
        if (std::find(all.begin(), all.end(), *p) == all.end()) all.push_back(*p);
  return all;
}

void line(const Shape& s, const std::string& way, const char* type, double work, double forward,
          double input, double weight, double most) {
  std::printf(
      "{\"shape\": \"%s\", \"way\": \"%s\", \"type\": \"%s\", \"forward\": %.1f, \"input\": %.1f, "
      "\"weight\": %.1f, \"share\": %.2f}\n",
      s.name, way.c_str(), type, work / forward / 1e9, work / input / 1e9, work / weight / 1e9,
      3 * work / (forward + input + weight) / 1e9 / most);
  std::fflush(stdout);
}

void measure(const Shape& s, at::ScalarType type, int repeats) {
  const auto axes = s.size.size();
  const std::vector<std::int64_t> ones(axes, 1);
  ConvSpec spec{s.transposed, s.in, s.out, {}, {}, {}, {}, s.groups};
  spec.kernel.assign(axes, s.kernel);
  spec.stride.assign(axes, s.stride);
  spec.padding.assign(axes, (s.kernel - 1) / 2);
  spec.output_padding.assign(axes, s.transposed ? s.stride - 1 : 0);
  std::vector<std::int64_t> x_size{1, s.in},
      w_size{s.transposed ? s.in : s.out, (s.transposed ? s.out : s.in) / s.groups};
  x_size.insert(x_size.end(), s.size.begin(), s.size.end());
  w_size.insert(w_size.end(), spec.kernel.begin(), spec.kernel.end());
  const auto last = axes == 3 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  const auto y_size = conv_output_size(spec, x_size);
  const at::Tensor w = at::randn(w_size);
  double work = double(s.in * s.out / s.groups);
  for (std::size_t d = 0; d < axes; ++d)
    work *= double(s.kernel * (s.transposed ? x_size : y_size)[d + 2]);
  const char* type_name = type == at::kFloat ? "float32" : "bfloat16";
  const double most = peak(*products_for(type));
  for (const auto layout : {at::MemoryFormat::Contiguous, last}) {
    const at::Tensor x = at::randn(x_size).to(type).contiguous(layout);
    const at::Tensor g = at::randn(y_size).to(type).contiguous(layout);
    const at::Tensor v = w.to(type).contiguous(layout);
    const auto grad = [&](bool input, bool weight) {
      at::convolution_backward(g, x, v, std::nullopt, spec.stride, spec.padding, ones, s.transposed,
                               spec.output_padding, s.groups, {input, weight, false});
    };
    const double f = seconds_of(repeats, [&] {
      at::convolution(x, v, {}, spec.stride, spec.padding, ones, s.transposed, spec.output_padding,
                      s.groups);
    });
    const double i = seconds_of(repeats, [&] { grad(true, false); });
    const double b = seconds_of(repeats, [&] { grad(false, true); });
    line(s, layout == last ? "LibTorch, channels last" : "LibTorch", type_name, work, f, i, b,
         most);
  }
  for (const Products p : products_here({type})) {
    const at::Tensor x = at::randn(x_size).to(type).contiguous(last);
    const at::Tensor g = at::randn(y_size).to(type).contiguous(last);
    at::Tensor y = at::empty_like(g), dx = at::empty_like(x);
    const Gather there(spec, w, false, p, type, y_size), back(spec, w, true, p, type, x_size);
    const double f = seconds_of(repeats, [&] { there.run(x, {}, {}, y); });
    const double i = seconds_of(repeats, [&] { back.run(g, {}, {}, dx); });
    const double b = seconds_of(repeats, [&] { direct_weight_grad(spec, x, g, p); });
    line(s, name_of(p), type_name, work, f, i, b, most);
    if (!fits(spec, {Sparsity::Pattern::vector})) continue;
    // Each beside the dense one, one after the other: forward, milliseconds.
    std::printf("{\"shape\": \"%s\", \"way\": \"%s\", \"type\": \"%s\", \"kept\": {", s.name,
                name_of(p), type_name);
    for (const double keep : {1.0, 0.75, 0.5, 0.25, 0.125}) {
      const at::Tensor zeros = w * sparsity_mask(w, spec, {Sparsity::Pattern::vector, keep});
      const Gather sparse(spec, zeros, false, p, type, y_size);
      const double ms = 1e3 * seconds_of(repeats, [&] { sparse.run(x, {}, {}, y); });
      std::printf("%s\"%g\": %.2f", keep < 1 ? ", " : "", keep, ms);
    }
    std::printf("}}\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  tune_allocator();
  at::set_num_threads(1);
  at::NoGradGuard no_grad;
  const int repeats = argc > 1 ? std::stoi(argv[1]) : 5;
  const std::size_t first = argc > 2 ? std::stoul(argv[2]) : 0;
  for (const Products p : products_here({at::kFloat, at::kBFloat16}))
    std::printf("{\"peak\": \"%s\", \"billions\": %.1f}\n", name_of(p), peak(p));
  for (std::size_t i = first; i < shapes.size(); ++i)
    for (const auto type : {at::kFloat, at::kBFloat16}) measure(shapes[i], type, repeats);
}
