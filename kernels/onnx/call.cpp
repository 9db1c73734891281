#include "kernels/onnx/call.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "engine/base/error.h"

namespace sluice::onnx {

using torch::jit::Value;

bool is_constant(const Varying& v) {
  return std::all_of(v.begin(), v.end(), [&](std::int64_t n) { return n == v[0]; });
}

namespace {

std::vector<Varying> by_axis(const std::vector<const Value*>& records) {
  std::vector<Varying> all;
  for (const Value* v : records) {
    const auto sizes = v->type()->expect<c10::TensorType>()->sizes().concrete_sizes();
    if (!sizes) throw SizeBound("a value's size is not known");
    if (!all.empty() && all.size() != sizes->size()) throw SizeBound("axes differ");
    all.resize(sizes->size());
    for (std::size_t a = 0; a < sizes->size(); ++a) all[a].push_back((*sizes)[a]);
  }
  return all;
}

Type number_type(const Value* v, Type real) {
  const auto type = v->type()->cast<c10::TensorType>();
  const auto scalar = type ? type->scalarType() : std::nullopt;
  if (!scalar || at::isFloatingType(*scalar)) return real;
  return *scalar == at::kBool ? Type::boolean : Type::int64;
}

}  // namespace

std::string Call::kind() const { return records_[0]->kind().toUnqualString(); }

const Value* Call::argument(std::size_t i, std::size_t record) const {
  return records_[record]->inputs()[i];
}

c10::IValue Call::constant(std::size_t i, std::size_t record) const {
  if (i >= records_[record]->inputs().size()) return {};
  auto value = torch::jit::toIValue(argument(i, record));
  if (!value)
    throw Error(Exit::usage, "argument " + std::to_string(i) + " of " + kind() +
                                 " is computed, which has no form here");
  return *value;
}

bool Call::given(std::size_t i) const {
  if (i >= records_[0]->inputs().size()) return false;
  const auto value = torch::jit::toIValue(argument(i));
  return !value || !value->isNone();
}

bool Call::is_tensor(std::size_t i) const {
  return argument(i)->type()->isSubtypeOf(*c10::TensorType::get());
}

std::string Call::x(std::size_t i) const {
  const auto known = in_.values.find(argument(i));
  if (known != in_.values.end()) return known->second.at(0);
  for (std::size_t r = 1; r < records_.size(); ++r)
    if (!constant(i, r).toTensor().sizes().equals(constant(i).toTensor().sizes()))
      throw SizeBound("a table's size follows the image's");
  return lines.constant(constant(i).toTensor());
}

std::string Call::operand(std::size_t i) const {
  return is_tensor(i) ? x(i) : lines.number(real(i));
}

Lines::Names Call::list(std::size_t i) const {
  const auto known = in_.values.find(argument(i));
  if (known != in_.values.end()) return known->second;
  throw Error(Exit::usage, "a list of " + kind() + " is computed, which has no form here");
}

bool Call::flag(std::size_t i) const { return given(i) && constant(i).toBool(); }
std::string Call::text(std::size_t i) const { return given(i) ? constant(i).toStringRef() : ""; }

double Call::real(std::size_t i) const {
  const c10::IValue v = constant(i);
  if (v.isTensor()) return v.toTensor().item<double>();
  return v.toScalar().toDouble();
}

std::vector<std::int64_t> Call::integers(std::size_t i) const {
  const auto read = [&](std::size_t r) {
    const c10::IValue v = constant(i, r);
    return v.isInt() ? std::vector<std::int64_t>{v.toInt()} : v.toIntVector();
  };
  for (std::size_t r = 1; r < records_.size(); ++r)
    if (read(r) != read(0))
      throw SizeBound("the numbers of " + kind() + " follow the image's size");
  return read(0);
}

std::int64_t Call::integer(std::size_t i) const { return integers(i).at(0); }

std::string Call::numbers(std::size_t i) const {
  std::vector<Varying> all;
  for (std::size_t r = 0; r < records_.size(); ++r) {
    const c10::IValue v = constant(i, r);
    const auto list = v.isInt() ? std::vector<std::int64_t>{v.toInt()} : v.toIntVector();
    all.resize(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) all[k].push_back(list[k]);
  }
  return extents(all);
}

std::vector<Varying> Call::size_of(std::size_t i) const {
  std::vector<const Value*> all;
  for (std::size_t r = 0; r < records_.size(); ++r) all.push_back(argument(i, r));
  return by_axis(all);
}

std::vector<Varying> Call::size_of_result(std::size_t i) const {
  std::vector<const Value*> all;
  for (const auto* node : records_) all.push_back(node->outputs()[i]);
  return by_axis(all);
}

std::size_t Call::axes(std::size_t i) const { return size_of(i).size(); }

std::int64_t Call::axis(std::size_t i, std::size_t tensor) const {
  const std::int64_t given = integer(i);
  return given < 0 ? given + static_cast<std::int64_t>(axes(tensor)) : given;
}

Type Call::type_of(std::size_t i) const { return number_type(argument(i), lines.real); }
Type Call::type_of_result() const { return number_type(records_[0]->outputs()[0], lines.real); }

std::size_t Call::results() const {
  for (const auto& use : records_[0]->output()->uses())
    if (use.user->kind() == c10::prim::ListUnpack) return use.user->outputs().size();
  throw Error(Exit::usage, kind() + " makes a list that is not taken apart");
}

std::string Call::extent(const Varying& v) const {
  if (is_constant(v)) return lines.ints({v[0]});
  const auto made = [&](std::size_t input, std::size_t axis) {
    const auto at = static_cast<std::int64_t>(axis);
    return lines.add("Shape", {in_.inputs[input]}, {{"start", at}, {"end", at + 1}});
  };
  const auto holds = [&](std::size_t input, std::size_t axis, auto is) {
    for (std::size_t r = 0; r < v.size(); ++r)
      if (!is(v[r], in_.sizes[r][input][axis])) return false;
    return true;
  };
  for (std::size_t input = 0; input < in_.inputs.size(); ++input)
    for (std::size_t axis = 0; axis < in_.sizes[0][input].size(); ++axis) {
      const std::int64_t e = in_.sizes[0][input][axis];
      if (const auto by = v[0] / e; by * e == v[0] && by > 0 &&
                                    holds(input, axis, [&](auto n, auto m) { return n == by * m; }))
        return by == 1 ? made(input, axis)
                       : lines.add("Mul", {made(input, axis), lines.ints({by})});
      if (const auto by = v[0] > 0 ? e / v[0] : 0;
          by > 0 && holds(input, axis, [&](auto n, auto m) { return n * by == m; }))
        return lines.add("Div", {made(input, axis), lines.ints({by})});
      if (const auto more = v[0] - e;
          holds(input, axis, [&](auto n, auto m) { return n == m + more; }))
        return lines.add("Add", {made(input, axis), lines.ints({more})});
    }
  throw SizeBound("a number of " + kind() + " follows the image's size");
}

std::string Call::extents(const std::vector<Varying>& all) const {
  std::vector<std::int64_t> first;
  for (const Varying& v : all) first.push_back(v[0]);
  if (std::all_of(all.begin(), all.end(), is_constant)) return lines.ints(first);
  Lines::Names parts;
  for (const Varying& v : all) parts.push_back(extent(v));
  return parts.size() == 1 ? parts[0] : lines.add("Concat", parts, {{"axis", std::int64_t{0}}});
}

}  // namespace sluice::onnx
