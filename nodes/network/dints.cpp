// dints: MONAI's DiNTS on a TopologyInstance (monai.networks.nets.dints 1.6.1), with their
// parameter names and defaults: a network whose paths and operations were found by a search. He et
// al. 2021.
//
//   image ─ / 1, 2, 4, ... ─ stem_down (once more / 2) ─▶ a feature of each resolution
//   num_blocks times: each resolution is the sum of cells of its own, the next finer, the next
//   coarser features, coarsest first ─ stem_up, + the next finer ─ ... ─ stem_finals ─▶ logits
//   cell: up, down or nothing ─ the sum of its operations
#include <ATen/ATen.h>

#include <cmath>

#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct Dints final : ImageNetwork<Dints> {
  struct Params : ImageNet {
    std::optional<Json> arch_code_a, arch_code_c, node_a;
    double channel_mul = 1;
    std::int64_t num_blocks = 6, num_depths = 3;
    bool use_downsample = true;
    Json act_name = "RELU", norm_name = Json::array({"INSTANCE", {{"affine", true}}});
    Params() { out_channels = 1; }
  } p;

  static Spec spec() {
    return image_net<Params>(
               "dints",
               "Network of searched paths and operations (MONAI's DiNTS on its TopologyInstance; "
               "num_classes is out_channels).",
               false)
        .param("arch_code_a", &Params::arch_code_a,
               "[num_blocks][3 num_depths - 2] of 0 and 1: the paths that there are; null: all. Of "
               "each resolution the paths from the finer, its own and the coarser one, in order.")
        .param("arch_code_c", &Params::arch_code_c,
               "The same shape: the operation of each path. 0 nothing, 1 conv 3x3(x3), and of "
               "volumes 2 to 4: 3x3x1, 3x1x3, 1x3x3 with one along the axis left; null: the sum of "
               "all.")
        .param("node_a", &Params::node_a,
               "[num_blocks + 1][num_depths] of 0 and 1: the resolutions that are used, the stem's "
               "first; null: all.")
        .param("channel_mul", &Params::channel_mul, "Times 32, 64, ... channels.")
        .above(0)
        .param("num_blocks", &Params::num_blocks, "Blocks one after the other.")
        .range(1, 64)
        .param("num_depths", &Params::num_depths, "Resolutions.")
        .range(1, 8)
        .param("use_downsample", &Params::use_downsample, "The stem halves once more.")
        .param("act_name", &Params::act_name, monai_name_doc)
        .choices(act_names())
        .param("norm_name", &Params::norm_name, "The same.")
        .choices(norm_names());
  }

  Values build(const Scope& s, const Value& image) const {
    const auto a = code("arch_code_a", p.arch_code_a, p.num_blocks, paths(), 1);
    const auto c =
        code("arch_code_c", p.arch_code_c, p.num_blocks, paths(), p.spatial_dims == 3 ? 4 : 1);
    const auto nodes = code("node_a", p.node_a, p.num_blocks + 1, p.num_depths, 1);
    Features features;
    Values entered;
    for (std::int64_t d = 0; d < p.num_depths; ++d) {
      const Value x = down(s / "stem_down" / d / "mod", image, d);
      const auto zeros = [](In t) { return at::zeros_like(t[0]); };
      entered.push_back(x);
      features.push_back(nodes[0][d] ? x : x.op("zeros", zeros));
    }
    for (std::int64_t b = 0; b < p.num_blocks; ++b) {
      Features next(p.num_depths);
      for (std::int64_t i = 0; i < paths(); ++i) {
        if (a[b][i] == 0) continue;
        const std::int64_t from = (i + 1) / 3 - 1 + (i + 1) % 3, to = (i + 1) / 3;
        if (!features[from])
          refuse("arch_code_a[" + std::to_string(b) + "][" + std::to_string(i) +
                 "]: no path leads to what it reads");
        const Scope at =
            s / ("dints_space.cell_tree.(" + std::to_string(b) + ", " + std::to_string(i) + ")");
        const Value y =
            cell(at, *features[from], channels(to + stem()), static_cast<int>(from - to),
                 p.arch_code_c ? std::optional(c[b][i]) : std::nullopt);
        next[to] = next[to] ? *next[to] + y : y;
      }
      features = std::move(next);
    }
    std::optional<Value> x;
    for (std::int64_t d = p.num_depths - 1; d >= 0; --d) {
      const Scope at = s / "stem_up" / d / "mod";
      if (!x && nodes.back()[d] == 0) {
        up(at, entered[d], d);  // nothing reads it: its weights are in the state_dict all the same
        continue;
      }
      if (!x && !features[d])
        refuse("node_a: no path leads to resolution " + std::to_string(d) + " of the last block");
      const Value sum = !x ? *features[d] : features[d] ? *features[d] + *x : *x;
      x = up(at, sum, d);
    }
    if (!x) refuse("node_a: the last block has no resolution");
    const Scope finals = s / "stem_finals";
    return {conv(finals / 1, act_conv_norm(finals / 0, *x, channels(0), 3), p.out_channels,
                 {.kernel = 1})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, std::int64_t{1} << (p.num_depths - 1 + stem()));
  }

 private:
  using Features = std::vector<std::optional<Value>>;
  using Code = std::vector<std::vector<std::int64_t>>;

  std::int64_t paths() const { return 3 * p.num_depths - 2; }
  std::int64_t stem() const { return p.use_downsample ? 1 : 0; }
  std::int64_t channels(std::int64_t depth) const {
    return static_cast<std::int64_t>(static_cast<double>(32LL << depth) * p.channel_mul);
  }

  // Rows of numbers from 0 to `most`; of none given all are 1.
  Code code(const char* name, const std::optional<Json>& given, std::int64_t rows,
            std::int64_t columns, std::int64_t most) const {
    Code out(rows, std::vector<std::int64_t>(columns, 1));
    if (!given) return out;
    const auto wrong = [&](const std::string& what) {
      refuse(std::string(name) + " is " + std::to_string(rows) + " rows of " +
             std::to_string(columns) + " numbers from 0 to " + std::to_string(most) + ", " + what);
    };
    if (!given->is_array() || given->size() != out.size()) wrong("found " + given->dump());
    for (std::size_t r = 0; r < out.size(); ++r) {
      const Json& row = (*given)[r];
      if (!row.is_array() || row.size() != out[r].size()) wrong("found row " + row.dump());
      for (std::size_t i = 0; i < out[r].size(); ++i) {
        const double v = row[i].is_number() ? row[i].get<double>() : -1;
        if (v < 0 || v > static_cast<double>(most) || v != std::floor(v))
          wrong("found " + row[i].dump() + " at [" + std::to_string(r) + "][" + std::to_string(i) +
                "]");
        out[r][i] = static_cast<std::int64_t>(v);
      }
    }
    return out;
  }

  Value activated(const Scope& s, const Value& x) const { return act(s, x, act_of(p.act_name)); }
  Value normed(const Scope& s, const Value& x) const { return norm(s, x, norm_of(p.norm_name)); }
  static Value bare(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
                    std::int64_t stride = 1) {
    return conv(s, x, out, {.kernel = kernel, .stride = stride, .bias = false});
  }

  Value down(const Scope& s, const Value& image, std::int64_t d) const {
    const Value x = d == 0 ? image : shrunk(image, std::int64_t{1} << d);
    const Value y = normed(s / 2, bare(s / 1, x, channels(d), 3));
    if (!p.use_downsample) return y;
    return normed(s / 5, bare(s / 4, activated(s / 3, y), channels(d + 1), 3, 2));
  }
  Value up(const Scope& s, const Value& x, std::int64_t d) const {
    const std::int64_t out = p.use_downsample ? d : std::max<std::int64_t>(d - 1, 0);
    const Value y = normed(s / 2, bare(s / 1, activated(s / 0, x), channels(out), 3));
    return p.use_downsample || d > 0 ? magnified(y, 2, true, true) : y;
  }

  // `rate` 1: from the coarser resolution, -1: from the finer one.
  Value cell(const Scope& s, const Value& x, std::int64_t out, int rate,
             std::optional<std::int64_t> operation) const {
    const Scope before = s / "preprocess";
    Value y = x;
    if (rate == 1)
      y = normed(
          before / "norm",
          bare(before / "conv", activated(before / "acti", magnified(x, 2, true, true)), out, 1));
    else if (rate == -1)
      y = reduced(before, x, out);
    else if (x.channels != out)
      y = act_conv_norm(before, x, out, 1);
    std::optional<Value> sum;
    std::int64_t number = 0;
    for (std::int64_t o = 0; o < (p.spatial_dims == 3 ? 5 : 2); ++o) {
      if (operation && o != *operation) continue;
      const Value z = operated(s / "op.ops" / number++, y, o);
      sum = sum ? *sum + z : z;
    }
    return *sum;
  }
  Value operated(const Scope& s, const Value& x, std::int64_t o) const {
    if (o == 0) return x;
    if (o == 1) return act_conv_norm(s, x, x.channels, 3);
    std::vector<std::int64_t> plane{3, 3, 3}, line{1, 1, 1};
    plane[4 - o] = 1;
    line[4 - o] = 3;
    const Value y = bare(s / "conv", activated(s / "acti", x), x.channels, plane);
    return normed(s / "norm", bare(s / "conv_1", y, x.channels, line));
  }
  Value act_conv_norm(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel) const {
    return normed(s / "norm", bare(s / "conv", activated(s / "acti", x), out, kernel));
  }
  // Half of the channels from even voxels, half from odd ones.
  Value reduced(const Scope& s, const Value& x, std::int64_t out) const {
    const Value y = activated(s / "act", x);
    const Value odd = y.op("odd", [](In t) {
      at::Tensor v = t[0];
      for (std::int64_t a = 2; a < v.dim(); ++a) v = v.slice(a, 1);
      return v;
    });
    return normed(s / "norm", concat({bare(s / "conv_1", y, out / 2, 1, 2),
                                      bare(s / "conv_2", odd, out - out / 2, 1, 2)}));
  }
};

const RegisterNetwork<Dints> registered;

}  // namespace
}  // namespace sluice
