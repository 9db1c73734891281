// The direct convolutions, and those by products of matrices, against LibTorch's, in float32 from
// the same numbers, at each level of processors up to this one's.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "kernels/net/conv_matmul.h"
#include "kernels/net/direct_conv.h"
#include "kernels/net/sparsity.h"
#include "tests/campaign.h"
#include "tests/nearness.h"

using namespace sluice;

namespace {

at::Tensor sines(at::IntArrayRef shape, double first, at::ScalarType type = at::kBFloat16) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  const auto format =
      shape.size() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  return at::sin(k * k * 0.37).reshape(shape).to(type).contiguous(format);
}

// The same numbers, with nothing behind the last one: reading there ends the process.
at::Tensor at_the_end(const at::Tensor& t) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), bytes = t.nbytes();
  const std::size_t whole = (bytes + page - 1) / page * page;
  void* const memory =
      ::mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  char* const end = static_cast<char*>(memory) + whole;
  REQUIRE(::mprotect(end, page, PROT_NONE) == 0);
  const at::Tensor copy = at::from_blob(
      end - bytes, t.sizes(), t.strides(), [=](void*) { ::munmap(memory, whole + page); },
      t.options());
  return copy.copy_(t);
}

struct Case {
  ConvSpec spec;
  std::vector<std::int64_t> size;
};

ConvSpec spec(bool transposed, std::int64_t in, std::int64_t out, std::vector<std::int64_t> kernel,
              std::vector<std::int64_t> stride) {
  ConvSpec s{transposed, in, out, kernel, stride, {}, {}};
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    s.padding.push_back((kernel[d] - 1) / 2);
    s.output_padding.push_back(transposed ? stride[d] - 1 : 0);
  }
  return s;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (bool transposed : {false, true})
    for (const auto& [in, channels] : std::vector<std::pair<int, int>>{
             {1, 16}, {3, 3}, {16, 32}, {32, 3}, {48, 16}, {5, 7}, {16, 1}, {33, 40}, {3, 64}}) {
      out.push_back({spec(transposed, in, channels, {3, 3, 3}, {1, 1, 1}), {4, 5, 7}});
      out.push_back({spec(transposed, in, channels, {3, 3, 3}, {2, 2, 2}), {4, 6, 8}});
      out.push_back({spec(transposed, in, channels, {3, 3, 3}, {2, 2, 2}), {5, 3, 9}});
      out.push_back({spec(transposed, in, channels, {3, 3}, {2, 2}), {6, 30}});
      out.push_back({spec(transposed, in, channels, {1, 1, 1}, {1, 1, 1}), {3, 4, 5}});
      out.push_back({spec(transposed, in, channels, {3, 1, 5}, {1, 2, 3}), {4, 5, 29}});
    }
  // A channel by itself, of whole vectors and not.
  for (bool transposed : {false, true})
    for (const std::int64_t channels : {16, 35, 64})
      for (const auto& [kernel, stride] :
           std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
               {{3, 3, 3}, {1, 1, 1}},
               {{3, 3, 3}, {2, 2, 2}},
               {{5, 5}, {2, 1}},
               {{5, 5, 5}, {1, 1, 1}},
               {{1, 3, 7}, {1, 2, 3}},
               {{2, 2}, {2, 2}}}) {
        Case c{spec(transposed, channels, channels, kernel, stride), {7, 6, 29}};
        c.spec.groups = channels;
        c.size.resize(kernel.size());
        out.push_back(c);
      }
  // Groups of a few channels and of many, several to a vector or not.
  for (bool transposed : {false, true})
    for (const auto& [in, channels, groups] : std::vector<std::array<int, 3>>{
             {16, 16, 4}, {32, 64, 8}, {48, 24, 6}, {20, 20, 5}, {64, 32, 2}, {14, 28, 2}})
      for (const std::int64_t stride : {1, 2})
        for (const std::vector<std::int64_t>& kernel :
             std::vector<std::vector<std::int64_t>>{{3, 3, 3}, {3, 3}, {1, 1, 1}}) {
          Case c{spec(transposed, in, channels, kernel, {stride, stride, stride}), {4, 6, 11}};
          c.spec.stride.resize(kernel.size());
          c.spec.groups = groups;
          c.size.resize(kernel.size());
          out.push_back(c);
          c.spec.dilation.assign(kernel.size(), 2);
          if (kernel.back() == 3) c.spec.padding.assign(kernel.size(), 2);
          if (!transposed && stride == 1) out.push_back(c);
        }
  // Few channels in the result, and borders of other widths than the kernel's.
  for (bool transposed : {false, true})
    for (const auto& [in, channels] :
         std::vector<std::pair<int, int>>{{8, 8}, {2, 1}, {20, 12}, {7, 11}, {40, 2}})
      for (const std::int64_t padding : {0, 1, 2}) {
        Case c{spec(transposed, in, channels, {3, 3, 3}, {1, 1, 1}), {4, 5, 35}};
        c.spec.padding.assign(3, padding);
        out.push_back(c);
        c.spec.stride = {1, 2, 2};
        c.spec.output_padding = {0, transposed ? 1 : 0, transposed ? 1 : 0};
        out.push_back(c);
      }
  // Three numbers or more along x, at every number of outputs of the last tile, and other borders.
  for (const std::vector<std::int64_t>& kernel : std::vector<std::vector<std::int64_t>>{{3, 3, 3},
                                                                                        {1, 3, 3},
                                                                                        {5, 1, 3},
                                                                                        {3, 3},
                                                                                        {5, 5, 5},
                                                                                        {3, 5},
                                                                                        {3, 1, 4},
                                                                                        {3, 7, 7},
                                                                                        {6, 3},
                                                                                        {9, 7}})
    for (std::int64_t width = 5; width < 13; ++width) {
      Case c{spec(false, 16 + width % 2, 32, kernel, {1, 1, 1}), {5, 4, width}};
      c.spec.stride.resize(kernel.size());
      c.spec.padding.back() = width % 4;
      c.size.resize(kernel.size());
      c.size.back() = width;
      out.push_back(c);
    }
  // Long rows of many channels: AMX's tiles, one to four of them, full and not.
  for (bool transposed : {false, true})
    for (const auto& [in, channels] :
         std::vector<std::pair<int, int>>{{16, 16}, {24, 40}, {64, 8}, {48, 70}}) {
      out.push_back({spec(transposed, in, channels, {3, 3}, {1, 1}), {3, 32}});
      out.push_back({spec(transposed, in, channels, {3, 3}, {1, 1}), {4, 49}});
      out.push_back({spec(transposed, in, channels, {3, 3}, {1, 2}), {4, 64}});
      out.push_back({spec(transposed, in, channels, {1, 2}, {1, 2}), {3, 100}});
      out.push_back({spec(transposed, in, channels, {1, 5}, {1, 3}), {2, 97}});
    }
  // Planes that a weight's gradient takes in pieces, and kernels past the borders.
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t padding : {0, 1, 3}) {
      Case c{spec(stride == 2 && padding == 1, 40, 33, {3, 3, 3}, {1, stride, stride}),
             {3, 43, 61}};
      c.spec.padding = {1, padding, padding};
      out.push_back(c);
    }
  out.push_back({spec(false, 33, 48, {3, 3, 3}, {1, 1, 1}), {7, 26, 23}});
  // Dilated ones: of images that are wider than the dilation, and not.
  for (const std::int64_t dilation : {2, 3, 7})
    for (const std::int64_t width : {5, 16, 29}) {
      Case c{spec(false, 17, 32, {3, 3, 3}, {1, 1, 1}), {5, 9, width}};
      c.spec.dilation = {1 + dilation % 3, dilation, dilation};
      c.spec.padding = {1, dilation, dilation};
      out.push_back(c);
    }
  // Sums of tiles that are made some rows of tiles, and some planes, at a time.
  out.push_back({spec(false, 17, 16, {3, 3, 3}, {1, 1, 1}), {4, 41, 50}});
  out.push_back({spec(false, 16, 18, {3, 3}, {1, 1}), {90, 70}});
  return out;
}

// What this machine can multiply with.
std::vector<std::pair<Products, at::ScalarType>> ways() {
  std::vector<std::pair<Products, at::ScalarType>> all;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto level :
         {CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16, CpuLevel::amx}) {
      const auto p = level <= cpu_level() ? products_for(type, level) : std::nullopt;
      if (p && (all.empty() || all.back() != std::pair(*p, type))) all.emplace_back(*p, type);
    }
  return all;
}

// `zeros`: what the pattern leaves out of the weights.
void compare(const ConvSpec& s, const std::vector<std::int64_t>& size, Products p,
             at::ScalarType type, const Sparsity& zeros = {}) {
  std::vector<std::int64_t> x_size{2, s.in},
      w_size{s.transposed ? s.in : s.out, (s.transposed ? s.out : s.in) / s.groups};
  x_size.insert(x_size.end(), size.begin(), size.end());
  w_size.insert(w_size.end(), s.kernel.begin(), s.kernel.end());
  CAPTURE(s.transposed);
  CAPTURE(c10::str(x_size));
  CAPTURE(c10::str(w_size));
  CAPTURE(c10::str(s.stride));
  CAPTURE(static_cast<int>(p));
  const auto format =
      size.size() == 3 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const at::Tensor x = at_the_end(sines(x_size, 1, type)),
                   w = at_the_end(sines(w_size, 2, type).contiguous());
  if (fits(s, zeros)) w.mul_(sparsity_mask(w.to(at::kFloat), s, zeros));
  const at::Tensor b = sines({s.out, 1, 1, 1}, 3).to(at::kFloat).flatten();
  std::vector<std::int64_t> dilation = s.dilation;
  dilation.resize(size.size(), 1);
  if (!has_direct_conv(s, type)) return;
  const at::Tensor expected = at::convolution(wide(x), wide(w), wide(b), s.stride, s.padding,
                                              dilation, s.transposed, s.output_padding, s.groups);
  REQUIRE(expected.sizes() == at::IntArrayRef(conv_output_size(s, x_size)));
  const at::Tensor residual = at_the_end(sines(expected.sizes(), 4, type));
  std::vector<std::int64_t> bias_size(expected.dim(), 1);
  bias_size[1] = s.out;
  at::Tensor y = at::empty(expected.sizes(), at::TensorOptions(at::kFloat), format);
  for (const at::IntArrayRef size : {at::IntArrayRef(), expected.sizes()}) {
    Gather(s, w, false, p, type, size).run(x, b, residual, y);
    CHECK(relative(y, expected + residual) < 1e-5);
  }

  const at::Tensor g = at_the_end(sines(expected.sizes(), 5, type));
  const auto [dx, dw, db] = at::convolution_backward(
      wide(g), wide(x), wide(w), std::nullopt, s.stride, s.padding, dilation, s.transposed,
      s.output_padding, s.groups, {true, true, false});
  at::Tensor mine = at::empty(x_size, at::TensorOptions(type), format);
  Gather(s, w, true, p, type).run(g, {}, {}, mine);
  CHECK(relative(mine, dx) < (type == at::kFloat ? 1e-5 : 4e-3));  // it is rounded to bfloat16
  CHECK(relative(direct_weight_grad(s, x, g, p), dw) < 1e-5);

  if (s.transposed || s.groups > 1) return;
  const at::ScalarType as = matmul_conv_type(type, p, 1024);
  const at::Tensor m = w.to(as), alone = expected - b.view(bias_size);
  const double rounding = as == at::kFloat ? 1e-5 : 4e-3;
  CHECK(relative(matmul_conv(s, x, m, b, {}), expected) < 1e-5);
  CHECK(relative(matmul_conv(s, x, m, {}, residual), alone + residual) < 1e-5);
  for (const at::Tensor& added : {at::Tensor(), residual})
    for (const at::Tensor& one : {at::Tensor(), b}) {
      const at::Tensor result = matmul_conv(s, x, m, one, added, true);
      CHECK((result.dtype() == type));
      CHECK(relative(result, (one.defined() ? expected : alone) +
                                 (added.defined() ? added : at::zeros({}))) <
            (type == at::kFloat ? 1e-5 : 4e-3));
    }
  CHECK(relative(matmul_conv_input_grad(s, g, m, x, {}), dx) < rounding);
  const at::Tensor left = at_the_end(sines(x_size, 6, type)), kept = left.clone();
  CHECK(relative(matmul_conv_input_grad(s, g, m, x, left), dx + left) < rounding);
  CHECK(at::equal(left, kept));
  CHECK(relative(matmul_conv_weight_grad(s, x, g, as), dw) < 1e-5);
}

// Any shape that a convolution may have, of a few million products; small ones are commoner.
Case random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  while (true) {
    Case c{{between(0, 2) == 0, 1 << between(0, 6), 1 << between(0, 6)}, {}};
    ConvSpec& s = c.spec;
    s.in += between(0, s.in - 1), s.out += between(0, s.out - 1);
    if (between(0, 9) == 0) s.out = s.groups = s.in;
    if (s.groups == 1 && between(0, 4) == 0) {
      s.groups = between(2, 9);
      s.in *= s.groups, s.out *= s.groups;
    }
    double products = static_cast<double>(2 * s.in * s.out / s.groups);
    for (std::int64_t d = between(2, 3); d > 0; --d) {
      s.kernel.push_back(between(0, 5) == 0   ? between(1, 7)
                         : between(0, 1) == 0 ? 3
                                              : between(1, 5));
      s.stride.push_back(between(0, 1) == 0 ? 1 : between(1, 3));
      s.padding.push_back(between(0, 1) == 0 ? s.kernel.back() / 2
                                             : between(0, s.kernel.back() - 1));
      s.output_padding.push_back(s.transposed ? between(0, s.stride.back() - 1) : 0);
      c.size.push_back(between(1, 1 << between(2, 6)));
      products *= static_cast<double>(s.kernel.back() * c.size.back());
    }
    if (!s.transposed && between(0, 2) == 0)
      for (std::size_t d = 0; d < c.size.size(); ++d) s.dilation.push_back(between(1, 4));
    std::vector<std::int64_t> x_size{1, s.in};
    x_size.insert(x_size.end(), c.size.begin(), c.size.end());
    const auto out = conv_output_size(s, x_size);
    bool fits = products < 2e7 && has_direct_conv(s, at::kFloat);
    for (std::size_t d = 0; d < c.size.size(); ++d)  // no kernel wider than its padded image
      fits = fits && out[d + 2] > 0 &&
             (s.transposed || s.dilation.empty() ||
              c.size[d] + 2 * s.padding[d] > (s.kernel[d] - 1) * s.dilation[d]) &&
             (s.transposed || c.size[d] + 2 * s.padding[d] >= s.kernel[d]);
    if (fits) return c;
  }
}

}  // namespace

TEST_CASE("direct convolutions of random shapes equal LibTorch's") {
  campaign::for_seeds("convolutions", 60, 2000, [](std::uint64_t seed) {
    CAPTURE(seed);
    const auto [s, size] = random_case(seed);
    for (const auto& [products, type] : ways()) compare(s, size, products, type);
  });
}

TEST_CASE("direct convolutions equal LibTorch's forward and backward") {
  for (const auto& [products, type] : ways())
    for (const auto& [s, size] : cases()) compare(s, size, products, type);
}

TEST_CASE("direct convolutions pass over weights that are zero, with the same result") {
  for (const auto& [products, type] : ways())
    for (const double keep : {0.5, 0.1, 1e-5})
      for (const bool transposed : {false, true}) {
        const Sparsity zeros{Sparsity::Pattern::vector, keep};
        compare(spec(transposed, 16, 32, {3, 3, 3}, {1, 1, 1}), {4, 5, 27}, products, type, zeros);
        compare(spec(transposed, 9, 40, {3, 3, 3}, {2, 2, 2}), {5, 3, 9}, products, type, zeros);
        compare(spec(transposed, 16, 32, {3, 3}, {1, 2}), {6, 30}, products, type, zeros);
        compare(spec(transposed, 16, 16, {1, 1, 1}, {1, 1, 1}), {3, 4, 5}, products, type, zeros);
        // Of more weights than a core's cache holds.
        compare(spec(transposed, 160, 160, {3, 3, 3}, {1, 1, 1}), {2, 3, 5}, products, type, zeros);
      }
}

TEST_CASE("direct convolutions of groups, of which some have no weights, equal LibTorch's") {
  ConvSpec s = spec(false, 32, 64, {3, 3, 3}, {1, 1, 1});
  s.groups = 4;
  const at::Tensor x = sines({1, 32, 5, 9, 11}, 1, at::kFloat);
  at::Tensor w = sines({64, 8, 3, 3, 3}, 2, at::kFloat).contiguous();
  w.narrow(0, 0, 32).zero_();
  const at::Tensor expected =
      at::convolution(x, w, {}, s.stride, s.padding, {1, 1, 1}, false, s.output_padding, s.groups);
  for (const auto& [products, type] : ways()) {
    if (type != at::kFloat) continue;
    at::Tensor y = at::empty_like(expected, at::MemoryFormat::ChannelsLast3d);
    Gather(s, w, false, products, type, y.sizes()).run(x, {}, {}, y);
    CHECK(relative(y, expected) < 1e-5);
  }
}

TEST_CASE(
    "single positions are products of matrices in float32, of many weights with tiles, else a "
    "few") {
  const ConvSpec one = spec(false, 64, 64, {1, 1, 1}, {1, 1, 1}),
                 wide = spec(false, 512, 512, {1, 1, 1}, {1, 1, 1}),
                 patches = spec(false, 1, 768, {16, 16, 16}, {16, 16, 16});
  CHECK(matmul_conv_pays(wide, at::kBFloat16, Products::tiles, 1 << 24));
  CHECK_FALSE(matmul_conv_pays(one, at::kBFloat16, Products::tiles, 1 << 24));
  CHECK(matmul_conv_pays(patches, at::kBFloat16, Products::tiles, 1024));
  CHECK((matmul_conv_type(at::kBFloat16, Products::tiles, 1024) == at::kBFloat16));
  CHECK((matmul_conv_type(at::kBFloat16, Products::pairs, 1024) == at::kFloat));
  CHECK((matmul_conv_type(at::kBFloat16, Products::tiles, 128) == at::kFloat));
  for (const Products p : {Products::avx2, Products::avx512, Products::pairs}) {
    CAPTURE(static_cast<int>(p));
    const bool numbers = p != Products::pairs;
    if (numbers) CHECK(matmul_conv_pays(one, at::kFloat, p, 1 << 24));
    CHECK_FALSE(matmul_conv_pays(one, at::kBFloat16, p, 1 << 24));
    CHECK_FALSE(matmul_conv_pays(wide, at::kBFloat16, p, 1 << 24));
    CHECK(matmul_conv_pays(wide, at::kBFloat16, p, 128));
  }
}

TEST_CASE("direct convolutions give equal bits for any number of threads") {
  ConvSpec depthwise = spec(false, 35, 35, {3, 3, 3}, {2, 2, 2});
  depthwise.groups = 35;
  ConvSpec dilated = spec(false, 16, 32, {3, 3, 3}, {1, 1, 1});
  dilated.dilation = dilated.padding = {1, 2, 2};
  ConvSpec grouped = spec(false, 32, 64, {3, 3, 3}, {1, 1, 1});
  grouped.groups = 4;
  for (const ConvSpec& s :
       {spec(true, 32, 3, {3, 3, 3}, {2, 2, 2}), spec(false, 8, 3, {3, 3, 3}, {1, 1, 1}),
        spec(false, 16, 32, {3, 3, 3}, {1, 1, 1}), dilated, grouped, depthwise})
    for (const auto& [products, type] : ways()) {
      if (!has_direct_conv(s, type)) continue;
      const at::Tensor x = sines({3, s.in, 9, 8, 12}, 1, type);
      const at::Tensor w =
          sines({s.transposed ? s.in : s.out, (s.transposed ? s.out : s.in) / s.groups, 3, 3, 3}, 2)
              .to(at::kFloat);
      const at::Tensor g = sines(conv_output_size(s, x.sizes()), 3, type);
      std::vector<at::Tensor> ys, dws;
      for (int threads : {1, 2, 5}) {
        at::set_num_threads(threads);
        ys.push_back(at::empty_like(g));
        Gather(s, w, false, products, type).run(x, {}, {}, ys.back());
        dws.push_back(direct_weight_grad(s, x, g, products));
        CHECK(ys.back().equal(ys[0]));
        CHECK(dws.back().equal(dws[0]));
      }
    }
  at::set_num_threads(1);
}

TEST_CASE("an output has the same bits however many channels are stored with it") {
  for (const auto& [products, type] : ways()) {
    CAPTURE(static_cast<int>(products));
    for (const std::int64_t width : {11, 12}) {
      const at::Tensor x = sines({1, 16, 3, 5, width}, 1, type),
                       w = sines({48, 16, 3, 1, 3}, 2).to(at::kFloat),
                       bias = sines({1, 48, 1, 1, 1}, 3).to(at::kFloat).flatten();
      const auto outputs = [&](std::int64_t n, bool add) {
        ConvSpec s = spec(false, 16, n, {3, 1, 3}, {1, 1, 1});
        s.padding = {1, 0, 1};
        const at::Tensor before = sines({1, 48, 3, 5, width}, 4, type)
                                      .narrow(1, 0, n)
                                      .contiguous(at::MemoryFormat::ChannelsLast3d);
        at::Tensor y = at::empty_like(before);
        Gather(s, w.narrow(0, 0, n).contiguous(), false, products, type)
            .run(x, add ? bias.narrow(0, 0, n).contiguous() : at::Tensor(),
                 add ? before : at::Tensor(), y);
        return y;
      };
      for (const bool add : {false, true}) {
        const at::Tensor all = outputs(48, add);  // two vectors, and one
        for (const std::int64_t n : {8, 16, 17, 31, 32, 33})
          CHECK(outputs(n, add).equal(all.narrow(1, 0, n)));
      }
    }
  }
}
