// One operation that LibTorch's tracer saw, in all records of a step (record.h): its arguments by
// their place in the operator's schema, as names of values or as numbers.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/onnx/lines.h"
#include "kernels/onnx/record.h"

namespace sluice::onnx {

// A number by record.
using Varying = std::vector<std::int64_t>;
bool is_constant(const Varying& v);

// What all operations of a step have in common.
struct Written {
  Lines& lines;
  const Lines::Names& inputs;                                 // of the step
  const Sizes& sizes;                                         // of the same
  std::map<const torch::jit::Value*, Lines::Names> values{};  // of the first record; lists: several
};

class Call {
 public:
  Call(Written& in, std::vector<const torch::jit::Node*> records)
      : lines(in.lines), in_(in), records_(std::move(records)) {}
  Lines& lines;

  std::string kind() const;  // "view" of "aten::view"
  bool given(std::size_t i) const;
  bool is_tensor(std::size_t i) const;
  std::string x(std::size_t i = 0) const;      // a tensor
  std::string operand(std::size_t i) const;    // a tensor, or a number as one
  Lines::Names list(std::size_t i = 0) const;  // of tensors
  bool flag(std::size_t i) const;
  double real(std::size_t i) const;
  std::string text(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;  // SizeBound where records differ
  std::vector<std::int64_t> integers(std::size_t i) const;
  std::string numbers(std::size_t i) const;  // one or more integers, as a tensor [n]

  std::size_t axes(std::size_t i = 0) const;                       // of a tensor
  std::int64_t axis(std::size_t i, std::size_t tensor = 0) const;  // argument i, from 0
  std::vector<Varying> size_of(std::size_t i) const;               // by axis
  std::vector<Varying> size_of_result(std::size_t i = 0) const;
  // Of the first record: floating, whole or truth numbers.
  Type type_of(std::size_t i) const;
  Type type_of_result() const;
  std::size_t results() const;  // of a list: in how many it is unpacked

  // An integer as a tensor [1]: a constant, or made of an extent of the step's inputs.
  std::string extent(const Varying& v) const;
  std::string extents(const std::vector<Varying>& all) const;  // [n]

 private:
  const torch::jit::Value* argument(std::size_t i, std::size_t record = 0) const;
  c10::IValue constant(std::size_t i, std::size_t record = 0) const;
  Written& in_;
  std::vector<const torch::jit::Node*> records_;
};

// The call as nodes: the names of its results.
Lines::Names write_call(Call& call);

}  // namespace sluice::onnx
