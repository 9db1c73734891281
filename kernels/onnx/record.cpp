#include "kernels/onnx/record.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/onnx/call.h"

namespace sluice::onnx {
namespace {

namespace jit = torch::jit;
using Graph = std::shared_ptr<jit::Graph>;
using Tensors = std::vector<at::Tensor>;

Tensors drawn(const std::vector<Step::Size>& sizes, const Tensors& weights, at::Device device) {
  Tensors all;
  for (const auto& size : sizes) all.push_back(at::rand(size).to(device));
  for (const auto& w : weights) all.push_back(w.detach().to(at::kFloat).to(device));
  return all;
}

Graph record(const TorchStep& step, const Tensors& arguments) {
  jit::Stack stack(arguments.begin(), arguments.end());
  const auto watched = [&](jit::Stack given) {
    Tensors t;
    for (const auto& one : given) t.push_back(one.toTensor());
    return jit::Stack{step.function(t)};
  };
  const auto unnamed = [](const at::Tensor&) { return std::string(); };
  Graph graph = jit::tracer::trace(stack, watched, unnamed, /*strict=*/true,
                                   /*force_outplace=*/true)
                    .first->graph;
  jit::ConstantPropagation(graph);
  jit::EliminateDeadCode(graph);
  return graph;
}

// Where a function takes numbers from elsewhere than LibTorch's operations, they would stand in the
// record as constants.
void require_whole(const TorchStep& step, const Graph& graph, const Tensors& others) {
  jit::Stack stack(others.begin(), others.end());
  const jit::Code code(graph, step.function_name);
  jit::InterpreterState(code).run(stack);
  const at::Tensor want = step.function(others), got = stack.at(0).toTensor();
  if (got.sizes() != want.sizes() || !at::allclose(got, want, 1e-4, 1e-5))
    throw Error(Exit::usage, "is more than operations of LibTorch");
}

// The operations in order; constants and lists of constants are their arguments.
std::vector<const jit::Node*> operations(const Graph& graph) {
  std::vector<const jit::Node*> all;
  for (const jit::Node* node : graph->nodes())
    if (node->kind() != c10::prim::Constant) all.push_back(node);
  return all;
}

// One operation in all records: lists are put together and taken apart, all else becomes nodes.
void write_operation(Written& written, const std::vector<const jit::Node*>& records) {
  const jit::Node& node = *records[0];
  if (node.kind() == c10::prim::ListConstruct) {
    Lines::Names names;
    for (const jit::Value* v : node.inputs()) {
      const auto known = written.values.find(v);
      names.push_back(known != written.values.end()
                          ? known->second.at(0)
                          : written.lines.constant(jit::toIValue(v)->toTensor()));
    }
    written.values[node.output()] = names;
    return;
  }
  Lines::Names names;
  if (node.kind() == c10::prim::ListUnpack) {
    names = written.values.at(node.input());
  } else {
    Call call(written, records);
    names = write_call(call);
    if (node.outputs().size() == 1) {  // one value, or a list
      written.values[node.output()] = names;
      return;
    }
  }
  for (std::size_t i = 0; i < std::min(names.size(), node.outputs().size()); ++i)
    written.values[node.outputs()[i]] = {names[i]};
}

}  // namespace

std::string write_function(Lines& lines, const TorchStep& step, const Lines::Names& inputs,
                           const Lines::Names& weights, const Tensors& values, const Sizes& sizes) {
  const at::NoGradGuard no_grad;
  std::vector<Graph> graphs{record(step, drawn(sizes[0], values, at::kCPU))};
  require_whole(step, graphs[0], drawn(sizes[0], values, at::kCPU));
  for (std::size_t r = 1; r < sizes.size(); ++r) try {
      graphs.push_back(record(step, drawn(sizes[r], values, at::kMeta)));
    } catch (const c10::Error&) {  // not every operation knows its size without numbers
      graphs.push_back(record(step, drawn(sizes[r], values, at::kCPU)));
    }

  Written written{lines, inputs, sizes};
  for (std::size_t i = 0; i < inputs.size() + weights.size(); ++i)
    written.values[graphs[0]->inputs()[i]] = {i < inputs.size() ? inputs[i]
                                                                : weights[i - inputs.size()]};
  std::vector<std::vector<const jit::Node*>> calls;
  for (const Graph& graph : graphs) calls.push_back(operations(graph));
  for (std::size_t n = 0; n < calls[0].size(); ++n) {
    std::vector<const jit::Node*> one;
    for (const auto& all : calls) {
      if (all.size() != calls[0].size() || all[n]->kind() != calls[0][n]->kind())
        throw SizeBound("it does other things with other sizes");
      one.push_back(all[n]);
    }
    write_operation(written, one);
  }
  const jit::Value* result = graphs[0]->outputs()[0];
  const auto known = written.values.find(result);
  if (known == written.values.end()) return lines.constant(jit::toIValue(result)->toTensor());
  return known->second.at(0);
}

}  // namespace sluice::onnx
