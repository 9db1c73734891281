// LibTorch's operations in ONNX's words (https://onnx.ai/onnx/operators, opset 17). Arguments stand
// where LibTorch's schemas have them (native_functions.yaml). One line an operation where the two
// agree, a function where they do not.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "engine/base/error.h"
#include "kernels/onnx/call.h"

namespace sluice::onnx {
namespace {

using Names = Lines::Names;
using Write = std::function<Names(Call&)>;
using Numbers = std::vector<std::int64_t>;

// ---- shapes
// --------------------------------------------------------------------------------------

Names same(Call& c) { return {c.x()}; }

// To the result's size: an axis that stays is 0, one that follows from the rest -1.
Names reshaped(Call& c) {
  const auto from = c.size_of(0), to = c.size_of_result();
  Numbers shape;
  std::size_t unknown = 0;
  for (std::size_t a = 0; a < to.size(); ++a) {
    const bool stays = a < from.size() && to[a] == from[a];
    const std::int64_t n = is_constant(to[a]) ? to[a][0] : stays ? 0 : -1;
    shape.push_back(n);
    if (n == -1) ++unknown;
  }
  const std::string as = unknown > 1 ? c.extents(to) : c.lines.ints(shape);
  return {c.lines.add("Reshape", {c.x(), as})};
}

std::string permuted(Call& c, const std::string& x, const Numbers& order) {
  return c.lines.add("Transpose", {x}, {{"perm", order}});
}

Numbers in_order(std::size_t n) {
  Numbers all;
  for (std::size_t a = 0; a < n; ++a) all.push_back(static_cast<std::int64_t>(a));
  return all;
}

Numbers from_zero(Call& c, Numbers axes) {
  for (auto& a : axes)
    if (a < 0) a += static_cast<std::int64_t>(c.axes());
  return axes;
}

Names transposed(Call& c) {
  Numbers order = in_order(c.axes());
  std::swap(order[static_cast<std::size_t>(c.axis(1))], order[static_cast<std::size_t>(c.axis(2))]);
  return {permuted(c, c.x(), order)};
}

Names moved(Call& c) {  // movedim: argument 1's axes to argument 2's places
  const Numbers from = from_zero(c, c.integers(1)), to = from_zero(c, c.integers(2));
  Numbers order(c.axes(), -1), rest;
  for (const auto a : in_order(c.axes()))
    if (std::find(from.begin(), from.end(), a) == from.end()) rest.push_back(a);
  for (std::size_t i = 0; i < from.size(); ++i) order[static_cast<std::size_t>(to[i])] = from[i];
  auto next = rest.begin();
  for (auto& a : order)
    if (a < 0) a = *next++;
  return {permuted(c, c.x(), order)};
}

Names expanded(Call& c) {
  const auto from = c.size_of(0);
  auto to = c.size_of_result();
  const std::size_t more = to.size() - from.size();
  for (std::size_t a = 0; a < from.size(); ++a)
    if (to[a + more] == from[a]) to[a + more].assign(from[a].size(), 1);
  return {c.lines.add("Expand", {c.x(), c.extents(to)})};
}

Names selected(Call& c) {
  const auto index = c.lines.constant(at::scalar_tensor(c.integer(2), at::kLong));
  return {c.lines.add("Gather", {c.x(), index}, {{"axis", c.axis(1)}})};
}

std::string sliced(Lines& lines, const std::string& x, std::int64_t axis, std::int64_t begin,
                   std::int64_t end) {
  return lines.add("Slice", {x, lines.ints({begin}), lines.ints({end}), lines.ints({axis})});
}

Names slice(Call& c) {  // x, axis, start, end, step
  const std::string end = c.given(3) ? c.numbers(3) : c.lines.ints({INT64_MAX});
  return {c.lines.add("Slice", {c.x(), c.given(2) ? c.numbers(2) : c.lines.ints({0}), end,
                                c.lines.ints({c.axis(1)}), c.numbers(4)})};
}

Names narrow(Call& c) {  // x, axis, start, length
  const auto end = c.integer(2) + c.integer(3);
  return {sliced(c.lines, c.x(), c.axis(1), c.integer(2), end)};
}

Names rolled(Call& c) {  // x, shifts, axes
  const Numbers shifts = c.integers(1), axes = from_zero(c, c.integers(2));
  std::string x = c.x();
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (shifts[i] != 0)
      x = c.lines.add("Concat",
                      {sliced(c.lines, x, axes[i], -shifts[i], INT64_MAX),
                       sliced(c.lines, x, axes[i], 0, -shifts[i])},
                      {{"axis", axes[i]}});
  return {x};
}

Names concatenated(Call& c) { return {c.lines.add("Concat", c.list(), {{"axis", c.integer(1)}})}; }

Names stacked(Call& c) {
  Names each;
  for (const auto& x : c.list())
    each.push_back(c.lines.add("Unsqueeze", {x, c.lines.ints({c.integer(1)})}));
  return {c.lines.add("Concat", each, {{"axis", c.integer(1)}})};
}

Names chunks(Call& c) {  // x, how many, axis
  return c.lines.add("Split", {c.x()}, {{"axis", c.axis(2)}}, c.results());
}

// "Pad" wants all axes from the first, those before and then those after; LibTorch says the last
// ones, pair by pair from the last.
Names padded(Call& c, const std::string& mode, bool with_value) {
  const Numbers given = c.integers(1);
  const std::size_t axes = c.axes();
  Numbers pads(2 * axes, 0);
  for (std::size_t i = 0; i < given.size() / 2; ++i) {
    pads[axes - 1 - i] = given[2 * i];
    pads[2 * axes - 1 - i] = given[2 * i + 1];
  }
  Names inputs{c.x(), c.lines.ints(pads)};
  if (with_value) inputs.push_back(c.lines.number(c.real(2)));
  return {c.lines.add("Pad", inputs, {{"mode", mode}})};
}

// The first two axes stay, the others have the sizes that argument i says.
std::string full_size(Call& c, std::size_t i, std::size_t tensor = 0) {
  const auto front = c.lines.add("Shape", {c.x(tensor)}, {{"end", std::int64_t{2}}});
  return c.lines.add("Concat", {front, c.numbers(i)}, {{"axis", std::int64_t{0}}});
}

Names resized(Call& c, bool linear) {
  const std::string places = !linear ? "asymmetric" : c.flag(2) ? "align_corners" : "half_pixel";
  Attributes how{{"coordinate_transformation_mode", places},
                 {"mode", std::string(linear ? "linear" : "nearest")}};
  if (!linear) how.emplace_back("nearest_mode", std::string("floor"));
  return {c.lines.add("Resize", {c.x(), "", "", full_size(c, 1)}, how)};
}

// ---- numbers
// -------------------------------------------------------------------------------------

Write unary(const std::string& op) {
  return [op](Call& c) { return Names{c.lines.add(op, {c.x()})}; };
}

Write binary(const std::string& op) {
  return [op](Call& c) { return Names{c.lines.add(op, {c.operand(0), c.operand(1)})}; };
}

std::string scaled(Call& c, const std::string& x, double by) {
  return by == 1 ? x : c.lines.add("Mul", {x, c.lines.number(by)});
}

Names sum(Call& c, const std::string& op) {  // x, y, what y is multiplied by
  return {c.lines.add(op, {c.operand(0), scaled(c, c.operand(1), c.real(2))})};
}

Names gelu(Call& c) {
  Lines& l = c.lines;
  const std::string x = c.x();
  std::string share;
  if (c.text(1) == "tanh") {
    const auto cube = l.add("Mul", {l.add("Mul", {x, x}), x});
    const auto inner = l.add("Add", {x, scaled(c, cube, 0.044715)});
    share = l.add("Tanh", {scaled(c, inner, std::sqrt(2 / std::numbers::pi))});
  } else {
    share = l.add("Erf", {scaled(c, x, 1 / std::numbers::sqrt2)});
  }
  const auto both = l.add("Add", {share, l.number(1)});
  return {scaled(c, l.add("Mul", {x, both}), 0.5)};
}

Names mish(Call& c) {
  const auto share = c.lines.add("Tanh", {c.lines.add("Softplus", {c.x()})});
  return {c.lines.add("Mul", {c.x(), share})};
}

Names silu(Call& c) { return {c.lines.add("Mul", {c.x(), c.lines.add("Sigmoid", {c.x()})})}; }

Names clipped(Call& c) {  // x, least, most
  return {
      c.lines.add("Clip", {c.x(), c.given(1) ? c.operand(1) : "", c.given(2) ? c.operand(2) : ""})};
}

Names softplus(Call& c) {  // x, beta, threshold
  const double beta = c.real(1);
  return {scaled(c, c.lines.add("Softplus", {scaled(c, c.x(), beta)}), 1 / beta)};
}

Names prelu(Call& c) {
  Numbers shape(c.axes() - 1, 1);
  shape[0] = -1;
  const auto slope = c.lines.add("Reshape", {c.x(1), c.lines.ints(shape)});
  return {c.lines.add("PRelu", {c.x(), slope})};
}

// Between real, whole and truth numbers; all real ones are alike here.
Names converted(Call& c) {
  const Type from = c.type_of(0), to = c.type_of_result();
  return {from == to ? c.x() : c.lines.cast(c.x(), to)};
}

// ---- products, sums, norms
// -----------------------------------------------------------------------

Names softmax(Call& c) { return {c.lines.add("Softmax", {c.x()}, {{"axis", c.axis(1)}})}; }

Names linear(Call& c) {  // x, weight, bias
  std::string y = c.lines.add("MatMul", {c.x(), permuted(c, c.x(1), {1, 0})});
  if (c.given(2)) y = c.lines.add("Add", {y, c.x(2)});
  return {y};
}

Names reduced(Call& c, const std::string& op, std::size_t axes, std::size_t kept) {
  Attributes how{{"keepdims", std::int64_t{c.flag(kept) ? 1 : 0}}};
  if (c.given(axes)) how.emplace_back("axes", from_zero(c, c.integers(axes)));
  return {c.lines.add(op, {c.x()}, how)};
}

Names summed(Call& c) {  // "ReduceSum" alone takes its axes as a value in opset 17
  if (!c.given(1)) return {c.lines.add("ReduceSum", {c.x()}, {{"keepdims", std::int64_t{0}}})};
  return {c.lines.add("ReduceSum", {c.x(), c.lines.ints(from_zero(c, c.integers(1)))},
                      {{"keepdims", std::int64_t{c.flag(2) ? 1 : 0}}})};
}

Names layer_norm(Call& c) {  // x, size, weight, bias, eps
  const Numbers size = c.integers(1);
  Names inputs{c.x(), c.given(2) ? c.x(2) : c.lines.constant(at::ones(size))};
  if (c.given(3)) inputs.push_back(c.x(3));
  return {c.lines.add("LayerNormalization", inputs,
                      {{"axis", -static_cast<std::int64_t>(size.size())},
                       {"epsilon", static_cast<float>(c.real(4))}})};
}

Names euclidean(Call& c, std::size_t order, std::size_t axes, std::size_t kept) {
  if (c.real(order) != 2) throw Error(Exit::usage, "a norm other than the second has no form here");
  return reduced(c, "ReduceL2", axes, kept);
}

Names attention(Call& c) {  // q, k, v, mask, dropout, causal, scale
  if (c.flag(5)) throw Error(Exit::usage, "causal attention has no form here");
  Numbers order = in_order(c.axes(1));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  const auto width = static_cast<double>(c.size_of(0).back()[0]);
  const double scale = c.given(6) ? c.real(6) : 1 / std::sqrt(width);
  std::string y = c.lines.add("MatMul", {scaled(c, c.x(), scale), permuted(c, c.x(1), order)});
  if (c.given(3)) y = c.lines.add("Add", {y, c.x(3)});
  y = c.lines.add("Softmax", {y}, {{"axis", std::int64_t{-1}}});
  return {c.lines.add("MatMul", {y, c.x(2)})};
}

// One number for all axes, or one each; `otherwise` where there is none.
Numbers per_axis(Call& c, std::size_t i, const Numbers& otherwise = {}) {
  const Numbers given = c.integers(i);
  if (given.empty()) return otherwise;
  return given.size() == 1 ? Numbers(c.axes() - 2, given[0]) : given;
}

Names convolution(
    Call& c) {  // x, weight, bias, stride, padding, dilation, transposed, more, groups
  const bool transposed = c.flag(6);
  Attributes how{{"strides", per_axis(c, 3)},
                 {"pads", both_ends(per_axis(c, 4))},
                 {"dilations", per_axis(c, 5)},
                 {"group", c.integer(8)}};
  if (transposed) how.emplace_back("output_padding", per_axis(c, 7));
  Names inputs{c.x(), c.x(1)};
  if (c.given(2)) inputs.push_back(c.x(2));
  return {c.lines.add(transposed ? "ConvTranspose" : "Conv", inputs, how)};
}

Names max_pool(Call& c, std::size_t outputs) {  // x, kernel, stride, padding, dilation, ceil
  const Numbers kernel = per_axis(c, 1);
  return c.lines.add("MaxPool", {c.x()},
                     {{"kernel_shape", kernel},
                      {"strides", per_axis(c, 2, kernel)},
                      {"pads", both_ends(per_axis(c, 3))},
                      {"ceil_mode", std::int64_t{c.flag(5) ? 1 : 0}}},
                     outputs);
}

Names avg_pool(Call& c) {  // x, kernel, stride, padding, ceil, whether padding counts
  const Numbers kernel = per_axis(c, 1);
  return {c.lines.add("AveragePool", {c.x()},
                      {{"kernel_shape", kernel},
                       {"strides", per_axis(c, 2, kernel)},
                       {"pads", both_ends(per_axis(c, 3))},
                       {"ceil_mode", std::int64_t{c.flag(4) ? 1 : 0}},
                       {"count_include_pad", std::int64_t{c.flag(5) ? 1 : 0}}})};
}

// x, where its numbers were, the size: ONNX counts places in the whole tensor, as its "MaxPool".
Names unpooled(Call& c) {
  const Numbers two(c.axes() - 2, 2);  // the size is given; these are asked for all the same
  return {c.lines.add("MaxUnpool", {c.x(), c.x(1), full_size(c, 2)},
                      {{"kernel_shape", two}, {"strides", two}})};
}

const std::map<std::string, Write>& table() {
  static const std::map<std::string, Write> all{
      {"view", reshaped},
      {"reshape", reshaped},
      {"_reshape_alias", reshaped},
      {"flatten", reshaped},
      {"unflatten", reshaped},
      {"squeeze", reshaped},
      {"unsqueeze", reshaped},
      {"contiguous", same},
      {"clone", same},
      {"alias", same},
      {"detach", same},
      {"to", converted},
      {"type_as", converted},
      {"permute", [](Call& c) { return Names{permuted(c, c.x(), from_zero(c, c.integers(1)))}; }},
      {"transpose", transposed},
      {"movedim", moved},
      {"expand", expanded},
      {"select", selected},
      {"slice", slice},
      {"narrow", narrow},
      {"index_select",
       [](Call& c) {
         return Names{c.lines.add("Gather", {c.x(), c.x(2)}, {{"axis", c.axis(1)}})};
       }},
      {"roll", rolled},
      {"cat", concatenated},
      {"stack", stacked},
      {"chunk", chunks},
      {"constant_pad_nd", [](Call& c) { return padded(c, "constant", true); }},
      {"replication_pad1d", [](Call& c) { return padded(c, "edge", false); }},
      {"replication_pad2d", [](Call& c) { return padded(c, "edge", false); }},
      {"replication_pad3d", [](Call& c) { return padded(c, "edge", false); }},
      {"upsample_nearest1d", [](Call& c) { return resized(c, false); }},
      {"upsample_nearest2d", [](Call& c) { return resized(c, false); }},
      {"upsample_nearest3d", [](Call& c) { return resized(c, false); }},
      {"upsample_linear1d", [](Call& c) { return resized(c, true); }},
      {"upsample_bilinear2d", [](Call& c) { return resized(c, true); }},
      {"upsample_trilinear3d", [](Call& c) { return resized(c, true); }},
      {"add", [](Call& c) { return sum(c, "Add"); }},
      {"sub", [](Call& c) { return sum(c, "Sub"); }},
      {"mul", binary("Mul")},
      {"div", binary("Div")},
      {"pow", binary("Pow")},
      {"neg", unary("Neg")},
      {"abs", unary("Abs")},
      {"exp", unary("Exp")},
      {"log", unary("Log")},
      {"sqrt", unary("Sqrt")},
      {"reciprocal", unary("Reciprocal")},
      {"relu", unary("Relu")},
      {"sigmoid", unary("Sigmoid")},
      {"tanh", unary("Tanh")},
      {"selu", unary("Selu")},
      {"elu",
       [](Call& c) {
         return Names{c.lines.add("Elu", {c.x()}, {{"alpha", static_cast<float>(c.real(1))}})};
       }},
      {"leaky_relu",
       [](Call& c) {
         const auto slope = static_cast<float>(c.real(1));
         return Names{c.lines.add("LeakyRelu", {c.x()}, {{"alpha", slope}})};
       }},
      {"prelu", prelu},
      {"gelu", gelu},
      {"silu", silu},
      {"mish", mish},
      {"softplus", softplus},
      {"hardtanh", clipped},
      {"clamp", clipped},
      {"celu",
       [](Call& c) {
         return Names{c.lines.add("Celu", {c.x()}, {{"alpha", static_cast<float>(c.real(1))}})};
       }},
      {"softmax", softmax},
      {"log_softmax",
       [](Call& c) {
         return Names{c.lines.add("LogSoftmax", {c.x()}, {{"axis", c.axis(1)}})};
       }},
      {"matmul", binary("MatMul")},
      {"bmm", binary("MatMul")},
      {"linear", linear},
      {"mean", [](Call& c) { return reduced(c, "ReduceMean", 1, 2); }},
      {"amax", [](Call& c) { return reduced(c, "ReduceMax", 1, 2); }},
      {"sum", summed},
      {"linalg_vector_norm", [](Call& c) { return euclidean(c, 1, 2, 3); }},
      {"norm", [](Call& c) { return euclidean(c, 1, 2, 3); }},
      {"layer_norm", layer_norm},
      {"scaled_dot_product_attention", attention},
      {"convolution", convolution},
      {"_convolution", convolution},
      {"avg_pool1d", avg_pool},
      {"max_pool1d", [](Call& c) { return max_pool(c, 1); }},
      {"max_pool2d", [](Call& c) { return max_pool(c, 1); }},
      {"max_pool2d_with_indices", [](Call& c) { return max_pool(c, 2); }},
      {"max_unpool2d", unpooled},
  };
  return all;
}

}  // namespace

Lines::Names write_call(Call& call) {
  const auto known = table().find(call.kind());
  if (known == table().end())
    throw Error(Exit::usage, "LibTorch's operation " + call.kind() + " has no form here");
  return known->second(call);
}

}  // namespace sluice::onnx
