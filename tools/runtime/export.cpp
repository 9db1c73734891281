#include "tools/runtime/export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>

#include "engine/base/error.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "kernels/onnx/runtime.h"
#include "tools/runtime/calibrate.h"
#include "tools/runtime/write_onnx.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int64_t>;

std::string text_of(const Numbers& size) { return fmt::format("{}", fmt::join(size, "x")); }

at::Tensor headed(const at::Tensor& logits, const std::string& head) {
  if (head == "softmax") return logits.softmax(1);
  if (head == "sigmoid") return logits.sigmoid();
  return head == "argmax" ? logits.argmax(1, true).to(at::kFloat) : logits;
}

// How far the file's outputs lie from this build's own, over images of these extents; of labels the
// share of voxels that differ.
double difference(const fs::path& file, BuiltNetwork& network, const onnx::Exported& e,
                  const onnx::ExportOptions& o, const Numbers& extents, std::int64_t samples) {
  const at::NoGradGuard no_grad;
  Step::Size size{samples, o.channels};
  size.insert(size.end(), extents.begin(), extents.end());
  at::manual_seed(0);
  std::vector<at::Tensor> x;
  std::vector<std::string> inputs, outputs;
  for (const auto& port : e.model.inputs) {
    x.push_back(at::randn(size));
    inputs.push_back(port.name);
  }
  for (const auto& port : e.model.outputs) outputs.push_back(port.name);
  network.train(false);
  const auto own = network.forward(x, o.outputs);
  const auto got = onnx::Engine(file, 0).run(inputs, x, outputs);
  double worst = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (const at::Tensor& y : {own[i], got[i]})
      if (!y.isfinite().all().item<bool>())
        throw Error(Exit::non_finite, file.string() + ": output \"" + outputs[i] +
                                          "\" is of numbers that are NaN or infinite");
    const at::Tensor want = i == 0 ? headed(own[i], o.head) : own[i];
    const at::Tensor apart = (got[i].to(at::kFloat) - want).abs();
    worst = std::max(worst, i == 0 && o.head == "argmax"
                                ? apart.gt(0).to(at::kDouble).mean().item<double>()
                                : apart.max().item<double>());
  }
  return worst;
}

// Of the file: how far it is from this build, and over images of which extents.
struct Checked {
  double apart = -1;  // nothing was compared
  std::string text;
};

Checked check(const fs::path& file, const GraphNetwork& made, const onnx::Exported& e,
              const onnx::ExportOptions& o) {
  if (onnx::runtime_library().empty())
    return {-1, "; no ONNX Runtime is here (pip install onnxruntime): nothing was compared"};
  Checked c{difference(file, *made.built, e, o, o.extents, 1), ""};
  std::string sizes = text_of(o.extents);
  if (e.any_extents) {  // callers choose them: others than those it was written with
    auto larger = o.extents;
    larger.back() *= 2;
    c.apart = std::max(c.apart, difference(file, *made.built, e, o, larger, e.any_batch ? 2 : 1));
    sizes += " and " + text_of(larger);
  }
  c.text =
      o.head == "argmax"
          ? fmt::format("; {:.4f} of the labels differ from this build's own ({})", c.apart, sizes)
          : fmt::format("; differs from this build's own float32 forward by {:.1e} ({})", c.apart,
                        sizes);
  return c;
}

}  // namespace

int export_command(const Json& request) {
  const std::string run = request.at("run"), out = request.at("out"), given = request.at("weights");
  const GraphNetwork made =
      build_network(run, request.at("net"), request.at("size").get<Numbers>());
  WeightsFile from = made.model->weights;
  if (fs::is_directory(run)) from = {.file = run};
  if (!given.empty()) from = {.file = given};
  if (from.file.empty() || !from.more.empty())
    throw Error(Exit::usage, run + ": which weights? name a run's folder, or --weights FILE");
  begin_with(*made.network, made.model->name, from, true);

  onnx::ExportOptions o = export_options(made);
  o.real = request.at("precision") == "float16" ? onnx::Type::float16 : onnx::Type::float32;
  o.head = request.at("head");
  o.outputs = request.at("outputs");
  const std::string scales = request.at("scales");
  const bool int8 = request.at("precision") == "int8";
  if (int8 != !scales.empty())
    throw Error(Exit::usage,
                "--precision int8 and --scales FILE, which `sluice calibrate` writes, go "
                "together");
  if (int8) o.scales = read_scales(scales, weights_sha256(made.tensors()));
  if (const std::size_t there = made.built->output_count(); o.outputs > there)
    throw Error(Exit::usage, "the network has " + std::to_string(there) + " outputs");
  const onnx::Exported e = write_onnx(made, run, out, o);
  Checked checked;
  if (request.at("check")) checked = check(out, made, e, o);

  if (request.at("json")) {
    Json all = {
        {"file", out},          {"nodes", e.model.nodes.size()}, {"parameters", e.parameters},
        {"opset", onnx::opset}, {"any_batch", e.any_batch},      {"any_extents", e.any_extents},
        {"extents", o.extents}, {"metadata", e.model.metadata}};
    if (checked.apart >= 0) all["difference"] = checked.apart;
    std::cout << all.dump(2) << '\n';
    return static_cast<int>(Exit::done);
  }
  std::cout << fmt::format("{}: {} nodes, {} parameters, opset {}{}\n", out, e.model.nodes.size(),
                           with_commas(e.parameters), onnx::opset, checked.text);
  if (!e.any_extents)
    std::cout << fmt::format("images of {} alone{}: {}\n", text_of(o.extents),
                             e.any_batch ? "" : ", one at a time", e.bound_by);
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
