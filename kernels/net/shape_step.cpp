#include "kernels/net/shape_step.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/net/channels.h"
#include "kernels/net/up.h"

namespace sluice {

// ---- concatenation ------------------------------------------------------------------------------

namespace {

// [N, C, ...], channels last, as [rows, C]; and back, of as many rows as `like` has.
at::Tensor as_rows(const at::Tensor& t) { return t.movedim(1, -1).reshape({-1, t.size(1)}); }
at::Tensor as_image(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.movedim(1, -1).sizes().vec();
  shape.back() = rows.size(1);
  return rows.view(shape).movedim(-1, 1);
}

// Columns as whole words where all numbers of columns allow it.
at::Tensor in_words(const at::Tensor& rows, bool words) {
  return words ? rows.view(at::kLong) : rows;
}
bool is_words(const at::Tensor& rows, std::int64_t columns) {
  return columns * rows.element_size() % 8 == 0;
}

bool last_on_device(const at::Tensor& t) {
  return !t.is_cpu() && t.dim() > 3 && t.is_contiguous(channels_last_of(t));
}

}  // namespace

at::Tensor concatenated(const std::vector<at::Tensor>& all) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& t : all) rows.push_back(as_rows(t));
  const bool words =
      std::ranges::all_of(rows, [](const at::Tensor& r) { return is_words(r, r.size(1)); });
  for (at::Tensor& r : rows) r = in_words(r, words);
  const at::Tensor whole = at::cat(rows, 1);
  return as_image(words ? whole.view(all[0].scalar_type()) : whole, all[0]);
}

at::Tensor channels_of(const at::Tensor& t, std::int64_t first, std::int64_t count) {
  const at::Tensor rows = as_rows(t);
  const bool words = is_words(rows, rows.size(1)) && is_words(rows, first) && is_words(rows, count);
  const std::int64_t each = words ? 8 / rows.element_size() : 1;
  const at::Tensor part = in_words(rows, words).narrow(1, first / each, count / each).contiguous();
  return as_image(words ? part.view(t.scalar_type()) : part, t);
}

Step::Size ConcatStep::output_size(const std::vector<Size>& in) const {
  Size whole = in[0];
  for (std::size_t i = 1; i < in.size(); ++i) {
    Size alike = in[i];
    alike[1] = in[0][1];
    if (alike != in[0])
      throw DataError("sizes " + c10::str(at::IntArrayRef(in[0])) + " and " +
                      c10::str(at::IntArrayRef(in[i])) + " differ in more than their channels");
    whole[1] += in[i][1];
  }
  return whole;
}

// The copies below trust the sizes, which output_size() has compared for this pass.
at::Tensor ConcatStep::forward(Frame& f) const {
  std::vector<at::Tensor> all;
  for (const int i : inputs) all.push_back(f.values[i]);
  if (std::ranges::all_of(all, last_on_device)) return concatenated(all);
  if (!std::ranges::all_of(all, norm_act_is_fused)) return f.net->laid_out(at::cat(all, 1));
  std::int64_t width = 0, first = 0;
  for (const at::Tensor& t : all) width += t.size(1);
  const at::Tensor y = image_with(width, all[0]);
  for (const at::Tensor& t : all) {
    copy_channels({t, 0}, {y, first}, t.numel() / t.size(1));
    first += t.size(1);
  }
  return y;
}

void ConcatStep::backward(Frame& f, const at::Tensor& grad) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < inputs.size(); first += channels[i++]) {
    const std::int64_t n = channels[i];
    f.add_grad(inputs[i], last_on_device(grad)      ? channels_of(grad, first, n)
                          : norm_act_is_fused(grad) ? copied_channels(grad, first, n)
                                                    : f.net->laid_out(grad.narrow(1, first, n)));
  }
}

// ---- flattening ---------------------------------------------------------------------------------

Step::Size FlattenStep::output_size(const std::vector<Size>& in) const {
  std::int64_t all = 1;
  for (std::size_t i = 1; i < in[0].size(); ++i) all *= in[0][i];
  return {in[0][0], all};
}

at::Tensor FlattenStep::forward(Frame& f) const { return f.values[inputs[0]].flatten(1); }

void FlattenStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], f.net->laid_out(grad.view(f.values[inputs[0]].sizes())));
}

// ---- doubling -----------------------------------------------------------------------------------

Step::Size DoubleStep::output_size(const std::vector<Size>& in) const {
  Size size = in[0];
  for (std::size_t d = 2; d < size.size(); ++d) size[d] *= 2;
  return size;
}

at::Tensor DoubleStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const Size size = output_size({x.sizes().vec()});
  return f.net->laid_out(linear_to(x, at::IntArrayRef(size).slice(2), false));
}

// Along an axis 2i is 3/4 of i and 1/4 of i - 1, 2i + 1 is 3/4 of i and 1/4 of i + 1; beyond the
// ends stands the last one.
at::Tensor doubling_backward(at::Tensor grad) {
  for (std::int64_t d = 2; d < grad.dim(); ++d) {
    const at::Tensor even = grad.slice(d, 0, std::nullopt, 2),
                     odd = grad.slice(d, 1, std::nullopt, 2);
    at::Tensor sum = even.add(odd).mul_(0.75);
    const std::int64_t n = sum.size(d) - 1;
    sum.narrow(d, 0, n).add_(even.narrow(d, 1, n), 0.25);
    sum.narrow(d, 1, n).add_(odd.narrow(d, 0, n), 0.25);
    sum.select(d, 0).add_(even.select(d, 0), 0.25);
    sum.select(d, n).add_(odd.select(d, n), 0.25);
    grad = std::move(sum);
  }
  return grad;
}

void DoubleStep::backward(Frame& f, const at::Tensor& grad) const {
  if (grad.is_cuda()) return f.add_grad(inputs[0], f.net->laid_out(doubling_backward(grad)));
  const at::IntArrayRef extents = grad.sizes().slice(2);
  Size size = grad.sizes().vec();
  for (std::size_t d = 2; d < size.size(); ++d) size[d] /= 2;
  f.add_grad(inputs[0],
             f.net->laid_out(grad.dim() == 5
                                 ? at::upsample_trilinear3d_backward(grad, extents, size, false)
                                 : at::upsample_bilinear2d_backward(grad, extents, size, false)));
}

}  // namespace sluice
