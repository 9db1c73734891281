#include "kernels/onnx/export.h"

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "kernels/onnx/steps.h"

namespace sluice::onnx {
namespace {

// By record: by value of the network. The first is an image of one sample as asked for; the others
// have more samples, or an extent that is doubled.
using NetSizes = std::vector<std::vector<Step::Size>>;

Step::Size image(const ExportOptions& o, std::int64_t samples,
                 const std::vector<std::int64_t>& extents) {
  Step::Size size{samples, o.channels};
  size.insert(size.end(), extents.begin(), extents.end());
  return size;
}

NetSizes sizes_of(const Net& net, const ExportOptions& o, bool any_batch, bool any_extents) {
  NetSizes all;
  const auto add = [&](const Step::Size& size) {
    all.push_back(net.sizes(std::vector<Step::Size>(static_cast<std::size_t>(net.inputs), size)));
  };
  add(image(o, 1, o.extents));
  if (any_batch) add(image(o, 3, o.extents));
  for (std::size_t a = 0; any_extents && a < o.extents.size(); ++a) {
    auto doubled = o.extents;
    doubled[a] *= 2;
    if (o.fits && !o.fits(doubled)) throw SizeBound("it is made for images of one size");
    try {
      add(image(o, 1, doubled));
    } catch (const c10::Error&) {
      throw SizeBound("it is made for images of one size");
    }
  }
  return all;
}

Port port(const std::string& name, Type type, const Step::Size& size, const Exported& e) {
  static const char* const axes[] = {"X", "Y", "Z"};
  Port p{name, type, {}};
  for (std::size_t a = 0; a < size.size(); ++a) {
    Extent extent{size[a], ""};
    if (a == 0 && e.any_batch) extent.symbol = "N";
    if (a > 1 && e.any_extents) extent.symbol = name + "_" + axes[a - 2];
    p.extents.push_back(extent);
  }
  return p;
}

std::string head(Lines& lines, const std::string& x, const std::string& kind) {
  const Attributes channels{{"axis", std::int64_t{1}}};
  if (kind == "softmax") return lines.add("Softmax", {x}, channels);
  if (kind == "sigmoid") return lines.add("Sigmoid", {x});
  if (kind == "argmax")
    return lines.cast(
        lines.add("ArgMax", {x}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}}),
        Type::uint8);
  return x;
}

Exported written(const Net& net, const ExportOptions& o, Exported e) {
  const auto sizes = sizes_of(net, o, e.any_batch, e.any_extents);
  Lines lines(o.real);
  const auto& steps = net.schedule(o.outputs).steps;
  StepWriter writer(net, lines, sizes, steps, o.fold, o.scales ? &*o.scales : nullptr);
  std::vector<Port> inputs, outputs;
  for (int i = 0; i < net.inputs; ++i) {
    inputs.push_back(
        port(i == 0 ? "image" : "image_" + std::to_string(i + 1), Type::float32, sizes[0][i], e));
    writer.names[i] = inputs.back().name;
    if (o.real != Type::float32) writer.names[i] = lines.cast(inputs.back().name, o.real);
  }
  for (const int n : steps) writer.write(*net.steps[n]);
  lines.enter("output");
  for (std::size_t i = 0; i < o.outputs; ++i) {
    const int v = net.outputs[i];
    const std::string kind = i == 0 ? o.head : "logits";
    const std::string name = i > 0              ? "output_" + std::to_string(i + 1)
                             : kind == "argmax" ? "labels"
                             : kind == "logits" ? "logits"
                                                : "probabilities";
    std::string x = head(lines, writer.names[v], kind);
    if (kind != "argmax" && o.real != Type::float32) x = lines.cast(x, Type::float32);
    lines.model.nodes.push_back({"Identity", name, {x}, {name}, {}});
    Step::Size size = sizes[0][v];
    if (kind == "argmax") size[1] = 1;
    outputs.push_back(port(name, kind == "argmax" ? Type::uint8 : Type::float32, size, e));
  }
  std::set<int> used;
  for (const int n : steps)
    for (const int p : net.steps[n]->parameters()) used.insert(p);
  for (const int p : used) e.parameters += net.parameters[p].tensor.numel();
  e.model = std::move(lines.model);
  e.model.inputs = std::move(inputs);
  e.model.outputs = std::move(outputs);
  return e;
}

}  // namespace

// First as free as may be; a step that does other things with other sizes binds them.
Exported exported(const Net& net, const ExportOptions& o) {
  Exported e;
  while (true) try {
      return written(net, o, e);
    } catch (const SizeBound& bound) {
      if (!e.any_batch) throw Error(Exit::usage, bound.why);
      (e.any_extents ? e.any_extents : e.any_batch) = false;
      if (e.bound_by.empty()) e.bound_by = bound.why;
    }
}

}  // namespace sluice::onnx
