// The types of tensors that files hold, by the names that each format has for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Dtype {
  at::ScalarType type;
  std::string_view name;  // NumPy's and PyTorch's
  std::string_view safetensors;
  std::string_view storage;  // PyTorch's class of a storage
};

inline constexpr std::array<Dtype, 10> dtypes{{
    {at::kDouble, "float64", "F64", "DoubleStorage"},
    {at::kFloat, "float32", "F32", "FloatStorage"},
    {at::kHalf, "float16", "F16", "HalfStorage"},
    {at::kBFloat16, "bfloat16", "BF16", "BFloat16Storage"},
    {at::kLong, "int64", "I64", "LongStorage"},
    {at::kInt, "int32", "I32", "IntStorage"},
    {at::kShort, "int16", "I16", "ShortStorage"},
    {at::kChar, "int8", "I8", "CharStorage"},
    {at::kByte, "uint8", "U8", "ByteStorage"},
    {at::kBool, "bool", "BOOL", "BoolStorage"},
}};

// Their names, as the choices of a parameter.
inline std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const Dtype& d : dtypes) names.emplace_back(d.name);
  return names;
}
// Null where no format has such a type.
inline const Dtype* find_dtype(at::ScalarType type) {
  for (const Dtype& d : dtypes)
    if (d.type == type) return &d;
  return nullptr;
}
// By one of its names: find_dtype(&Dtype::safetensors, "F32").
inline const Dtype* find_dtype(std::string_view Dtype::*kind, std::string_view name) {
  for (const Dtype& d : dtypes)
    if (d.*kind == name) return &d;
  return nullptr;
}

}  // namespace sluice
