#include "kernels/net/conv_matmul.h"

#include <ATen/ATen.h>

#include <limits>

#include "kernels/base/team.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/direct_conv_winograd.h"
#include "kernels/net/norm_act.h"
#include "kernels/net/products.h"

namespace sluice {
namespace {

// body(output, tap, input) for each output position in [begin, end) and each tap that lies in the
// image; positions count over all samples, z, y and x.
class Reads {
 public:
  Reads(const ConvSpec& spec, const at::Tensor& x, const std::vector<std::int64_t>& out)
      : kernel_(three(spec.kernel, 1)),
        stride_(three(spec.stride, 1)),
        pad_(three(spec.padding, 0)),
        dilation_(dilation_of(spec)),
        in_(spatial(x)),
        out_(three({out.begin() + 2, out.end()}, 1)) {}
  std::int64_t taps() const { return kernel_[0] * kernel_[1] * kernel_[2]; }

  template <class F>
  void each(std::int64_t begin, std::int64_t end, const F& body) const {
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t ox = o % out_[2], oy = o / out_[2] % out_[1],
                         oz = o / (out_[2] * out_[1]) % out_[0],
                         n = o / (out_[2] * out_[1] * out_[0]);
      std::int64_t tap = 0;
      for (std::int64_t kz = 0; kz < kernel_[0]; ++kz)
        for (std::int64_t ky = 0; ky < kernel_[1]; ++ky)
          for (std::int64_t kx = 0; kx < kernel_[2]; ++kx, ++tap) {
            const std::int64_t z = oz * stride_[0] - pad_[0] + kz * dilation_[0],
                               y = oy * stride_[1] - pad_[1] + ky * dilation_[1],
                               x = ox * stride_[2] - pad_[2] + kx * dilation_[2];
            if (z >= 0 && z < in_[0] && y >= 0 && y < in_[1] && x >= 0 && x < in_[2])
              body(o, tap, ((n * in_[0] + z) * in_[1] + y) * in_[2] + x);
          }
    }
  }

 private:
  Size3 kernel_, stride_, pad_, dilation_, in_, out_;
};

// [positions, channels] of an image; a view where it is channels last.
at::Tensor rows_of(const at::Tensor& t) {
  return t.contiguous(channels_last_of(t)).movedim(1, -1).reshape({-1, t.size(1)});
}
at::Tensor image_of(const at::Tensor& rows, const std::vector<std::int64_t>& size) {
  std::vector<std::int64_t> last{size[0]};
  last.insert(last.end(), size.begin() + 2, size.end());
  last.push_back(size[1]);
  return rows.view(last).movedim(-1, 1);
}
at::Tensor matrix_of(const at::Tensor& weight) { return weight.contiguous().flatten(1); }
// a b in float32, added to an image's rows where there is one.
at::Tensor product(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b) {
  if (!added.defined()) return wide_product(a, b);
  at::Tensor sum = rows_of(added).to(at::kFloat);
  return a.scalar_type() == at::kFloat ? at::addmm(sum, a, b) : wide_product(a, b).add_(sum);
}
// The same in bfloat16, whose one rounding comes behind the sums.
at::Tensor rounded_product(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b) {
  return added.defined() ? at::addmm(rows_of(added).to(a.scalar_type()), a, b) : at::mm(a, b);
}

template <class T>
void fill_columns(const Reads& reads, const at::Tensor& rows, at::Tensor& all) {
  const std::int64_t channels = rows.size(1), taps = reads.taps();
  const T* const from = rows.const_data_ptr<T>();
  T* const to = all.data_ptr<T>();
  team_for(all.size(0), [&](std::int64_t begin, std::int64_t end) {
    reads.each(begin, end, [&](std::int64_t o, std::int64_t tap, std::int64_t i) {
      T* const column = to + o * channels * taps + tap;
      for (std::int64_t c = 0; c < channels; ++c) column[c * taps] = from[i * channels + c];
    });
  });
}

at::Tensor columns(const ConvSpec& spec, const at::Tensor& x, at::ScalarType type) {
  const at::Tensor rows = rows_of(x).to(type);
  if (of_positions(spec)) return rows;
  const auto out = conv_output_size(spec, x.sizes());
  const Reads reads(spec, x, out);
  const std::int64_t positions = c10::multiply_integers(out) / out[1];
  at::Tensor all = at::zeros({positions, x.size(1) * reads.taps()}, rows.options());
  if (type == at::kFloat)
    fill_columns<float>(reads, rows, all);
  else
    fill_columns<at::BFloat16>(reads, rows, all);
  return all;
}

}  // namespace

at::ScalarType matmul_conv_type(at::ScalarType type, Products products, std::int64_t positions) {
  constexpr std::int64_t enough = 256;
  return products == Products::tiles && positions >= enough ? type : at::kFloat;
}

// Found with tools/bench/network.cpp, layers of 64 to 512 channels, 2-D and 3-D: the more positions
// share weights in another order, the sooner that order pays. Single positions have no columns to
// be made, so that float32's never pay for it; bfloat16's would be copied as float32 first.
bool matmul_conv_pays(const ConvSpec& spec, at::ScalarType type, Products products,
                      std::int64_t positions) {
  struct Threshold {
    std::int64_t weights, a_position, positions;  // at least, at least for each, at most
  };
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  constexpr Threshold patches{1 << 16, 512, 1 << 12},
      pairs[]{{1 << 16, 512, 128}, {1 << 16, 2048, 256}, {1 << 16, 1024, 512}, patches},
      numbers[]{{1 << 12, 0, any}, {1 << 16, 2048, 1024}, {1 << 16, 512, 1024}, patches},
      tiles[]{{1 << 14, 0, any}, {1 << 16, 2048, 512}, {1 << 16, 1024, 512}, patches};
  if (spec.transposed || spec.groups != 1) return false;
  const bool as_pairs = numbers_a_word(products) == 2, copied = !as_pairs && type != at::kFloat;
  const int kind = !has_direct_conv(spec, type)          ? 3
                   : of_positions(spec) && !copied       ? 0
                   : winograd_fits(spec, type, products) ? 1
                                                         : 2;
  const Threshold& t = (products == Products::tiles ? tiles : as_pairs ? pairs : numbers)[kind];
  std::int64_t weights = spec.in * spec.out;
  for (const std::int64_t k : spec.kernel) weights *= k;
  return weights >= t.weights && positions <= t.positions && t.a_position * positions <= weights;
}

at::Tensor matmul_conv(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, const at::Tensor& residual, bool rounded) {
  const at::ScalarType type = weight.scalar_type();
  const at::Tensor c = columns(spec, x, type), w = matrix_of(weight).t();
  const bool one_sum = !bias.defined() || !residual.defined();
  at::Tensor y;
  if (rounded && one_sum && type == x.scalar_type() && type != at::kFloat) {
    y = bias.defined() ? at::addmm(bias.to(type), c, w) : rounded_product(residual, c, w);
  } else {
    y = product(residual, c, w);
    if (bias.defined()) y.add_(bias);
    if (rounded) y = y.to(x.scalar_type());
  }
  return image_of(y, conv_output_size(spec, x.sizes()));
}

at::Tensor matmul_conv_weight_grad(const ConvSpec& spec, const at::Tensor& x,
                                   const at::Tensor& grad, at::ScalarType type) {
  return wide_product(rows_of(grad).to(type).t(), columns(spec, x, type)).view(weight_shape(spec));
}

// Threads have channels of their own, since outputs share inputs.
at::Tensor matmul_conv_input_grad(const ConvSpec& spec, const at::Tensor& grad,
                                  const at::Tensor& weight, const at::Tensor& like,
                                  const at::Tensor& added) {
  const at::ScalarType type = weight.scalar_type();
  const at::Tensor dy = rows_of(grad).to(type), w = matrix_of(weight);
  const auto size = like.sizes().vec();
  if (of_positions(spec))
    return image_of(type == at::kFloat ? product(added, dy, w) : rounded_product(added, dy, w),
                    size);
  const at::Tensor by_output = wide_product(dy, w);
  const std::int64_t channels = size[1], positions = c10::multiply_integers(size) / channels;
  at::Tensor rows = added.defined() ? rows_of(added).to(at::kFloat, false, true)
                                    : at::zeros({positions, channels}, at::kFloat);
  const Reads reads(spec, like, grad.sizes().vec());
  const std::int64_t taps = reads.taps(), outputs = by_output.size(0);
  const float* const from = by_output.const_data_ptr<float>();
  float* const to = rows.data_ptr<float>();
  team_for(channels, [&](std::int64_t begin, std::int64_t end) {
    reads.each(0, outputs, [&](std::int64_t o, std::int64_t tap, std::int64_t i) {
      const float* const column = from + o * channels * taps + tap;
      for (std::int64_t c = begin; c < end; ++c) to[i * channels + c] += column[c * taps];
    });
  });
  return image_of(rows, size);
}

}  // namespace sluice
