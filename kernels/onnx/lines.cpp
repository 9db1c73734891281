#include "kernels/onnx/lines.h"

#include <ATen/ATen.h>

#include "engine/base/error.h"

namespace sluice::onnx {
namespace {

at::ScalarType scalar_type(Type type) {
  switch (type) {
    case Type::float32:
      return at::kFloat;
    case Type::float16:
      return at::kHalf;
    case Type::uint8:
      return at::kByte;
    case Type::int8:
      return at::kChar;
    case Type::int64:
      return at::kLong;
    case Type::boolean:
      return at::kBool;
  }
  return at::kFloat;
}

std::string bytes_of(const at::Tensor& t) {
  const at::Tensor dense = t.contiguous();
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

}  // namespace

Type type_of(const at::Tensor& t, Type real) {
  if (t.is_floating_point()) return real;
  if (t.scalar_type() == at::kBool) return Type::boolean;
  if (t.scalar_type() == at::kChar) return Type::int8;
  return t.scalar_type() == at::kByte ? Type::uint8 : Type::int64;
}

std::vector<std::int64_t> both_ends(const std::vector<std::int64_t>& pads) {
  std::vector<std::int64_t> all = pads;
  all.insert(all.end(), pads.begin(), pads.end());
  return all;
}

Lines::Names Lines::add(const std::string& op, const Names& inputs, Attributes attributes,
                        std::size_t outputs) {
  Names made;
  for (std::size_t i = 0; i < outputs; ++i) made.push_back("v" + std::to_string(++values_));
  const std::string number = std::to_string(model.nodes.size());
  model.nodes.push_back({op, (scope_.empty() ? "" : scope_ + "/") + op + "_" + number, inputs, made,
                         std::move(attributes)});
  return made;
}

std::string Lines::add(const std::string& op, const Names& inputs, Attributes attributes) {
  return add(op, inputs, std::move(attributes), 1).front();
}

std::string Lines::tensor(const std::string& name, const at::Tensor& t, Type as) {
  for (const Tensor& there : model.tensors)
    if (there.name == name) return name;
  const at::Tensor host = t.detach().to(at::kCPU).to(scalar_type(as));
  if (host.is_floating_point() && at::isinf(host).any().item<bool>() &&
      !at::isinf(t).any().item<bool>())
    throw Error(Exit::usage, name + " has numbers beyond float16's range (65504)");
  model.tensors.push_back({name, as, t.sizes().vec(), bytes_of(host)});
  return name;
}

std::string Lines::tensor(const std::string& name, const at::Tensor& t) {
  return tensor(name, t, type_of(t, real));
}

std::string Lines::constant(const at::Tensor& t) {
  const at::Tensor as_written = t.detach().to(at::kCPU).to(scalar_type(type_of(t, real)));
  const std::string key =
      c10::str(as_written.scalar_type(), as_written.sizes()) + bytes_of(as_written);
  std::string& name = constants_[key];
  if (name.empty()) name = tensor("c" + std::to_string(constants_.size()), as_written);
  return name;
}

std::string Lines::ints(const std::vector<std::int64_t>& numbers) {
  return constant(at::tensor(numbers, at::kLong));
}

std::string Lines::number(double value) { return constant(at::full({}, value)); }

std::string Lines::cast(const std::string& x, Type to) {
  return add("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}});
}

std::string Lines::instance_norm(const std::string& x, const at::Tensor& scale,
                                 const at::Tensor& bias, double eps) {
  const bool half = real == Type::float16;
  const auto kept = [&](const at::Tensor& t) {
    if (!half) return constant(t);
    return tensor("f" + std::to_string(model.tensors.size()), t, Type::float32);
  };
  const std::string s = kept(scale), b = kept(bias);
  const std::string y = add("InstanceNormalization", {half ? cast(x, Type::float32) : x, s, b},
                            {{"epsilon", static_cast<float>(eps)}});
  return half ? cast(y, real) : y;
}

}  // namespace sluice::onnx
