#include "tools/runtime/net_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>

#include "engine/judge/dot_text.h"
#include "kernels/lists/data_list.h"
#include "tools/runtime/amount.h"
#include "tools/runtime/network.h"
#include "tools/runtime/write_text.h"

namespace sluice {
namespace {

// Products of weights, what is done number by number, what moves numbers, lines over LibTorch.
const char* fill_of(const Step& step) {
  const std::string kind = step.kind();
  if (kind.starts_with("conv") || kind == "linear") return "#DCE9F5";
  if (kind.ends_with("norm") || kind.ends_with("relu") || kind == "prelu") return "#E4F0E2";
  if (kind == "concat" || kind == "add" || kind.ends_with("pool")) return "#F5EBDD";
  return "#F1F1F4";
}

std::string size_text(const Step::Size& size) {  // without the samples
  return fmt::format("{}", fmt::join(std::span(size).subspan(1), " x "));
}

class NetPicture {
 public:
  // `layers`: what a run's profile says of each; null: nothing is known.
  NetPicture(const GraphNetwork& made, const Json& layers)
      : made_(made), net_(made.built->net()), layers_(layers) {
    sizes_ = net_.sizes(made.built->input_sizes(made.extents));
    if (!layers.is_null() && layers.size() != net_.steps.size())
      throw Error(Exit::usage, "the run's network has other layers than this one");
  }

  std::string draw() {
    std::string body;
    for (int v = 0; v < net_.inputs; ++v)
      body += box("v" + std::to_string(v), "<b>" + dot::html(made_.built->inputs()[v].key) + "</b>",
                  size_text(sizes_[v]), "white");
    const auto described = net_.describe();
    for (std::size_t n = 0; n < described.size(); ++n) body += step(*net_.steps[n], described[n]);
    for (const int v : net_.outputs) body += fmt::format("  v{} [peripheries=2];\n", v);
    return fmt::format(
        R"(digraph {} {{
  graph [rankdir=TB, fontname="Helvetica,Arial,sans-serif", fontsize=11, fontcolor="{}", nodesep=0.3,
    ranksep=0.22, pad=0.25, labelloc=t, labeljust=l, bgcolor=white,
    label=<{}>];
  node [shape=box, style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize=10,
    fontcolor="{}", color="{}", margin="0.12,0.05", height=0.3];
  edge [color="{}", arrowsize=0.6];
{}}}
)",
        dot::quote(made_.model->name), dot::ink, title(), dot::ink, dot::edge, dot::edge, body);
  }

 private:
  static std::string box(const std::string& id, const std::string& first, const std::string& more,
                         const char* fill) {
    return fmt::format("  {} [fillcolor=\"{}\", label=<{}<br/>{}>];\n", id, fill, first,
                       dot::small(more));
  }

  std::string step(const Step& s, const Described& d) {
    std::int64_t weights = 0;
    for (const int p : s.parameters()) weights += net_.parameters[p].tensor.numel();
    const double products = s.product(sizes_[s.inputs[0]]).multiply_adds;
    weights_ += weights;
    products_ += products;
    std::string first = "<b>" + dot::html(s.name.empty() ? d.kind : s.name) + "</b>";
    std::string text = d.text();  // "4 = conv(3, 1) model.0.conv: kernel 3x3x3, stride 2x2x2"
    const auto colon = text.find(": ");
    std::string what = s.name.empty() ? "" : d.kind;
    if (colon != std::string::npos) what += (what.empty() ? "" : ": ") + text.substr(colon + 2);
    std::string lines;
    for (const auto& line : dot::wrapped(what, 44)) lines += dot::html(line) + "<br/>";
    lines += size_text(sizes_[s.output]);
    if (weights > 0) lines += ", " + with_commas(weights) + (weights == 1 ? " weight" : " weights");
    if (products > 0) lines += ", " + amount(products) + " multiply-adds";
    if (!layers_.is_null()) lines += "<br/>" + cost(layers_.at(static_cast<std::size_t>(s.number)));
    std::string out = box("v" + std::to_string(s.output), first, lines, fill_of(s));
    const int last = *std::max_element(s.inputs.begin(), s.inputs.end());
    for (const int v : s.inputs)  // what comes from further up is dashed
      out += fmt::format("  v{} -> v{}{};\n", v, s.output,
                         v == last ? "" : " [style=dashed, weight=0]");
    return out;
  }

  // Of a sample, as the run took it.
  static std::string cost(const Json& layer) {
    return fmt::format("{:.3f} ms forward, {:.3f} ms backward, {:.2f} MB kept",
                       layer.at("forward_ms").get<double>(), layer.at("backward_ms").get<double>(),
                       layer.at("kept_mb").get<double>());
  }

  std::string title() const {
    return fmt::format(
        "<b>{}</b>, {}<br align=\"left\"/>{}<br align=\"left\"/>", dot::html(made_.model->name),
        dot::html(made_.model->spec->name),
        dot::small(fmt::format("{} steps, {} weights, {} multiply-adds forward for a sample of {}",
                               net_.steps.size(), with_commas(weights_), amount(products_),
                               size_text(sizes_[0]))));
  }

  const GraphNetwork& made_;
  const Net& net_;
  const Json& layers_;
  std::vector<Step::Size> sizes_;
  std::int64_t weights_ = 0;  // of the steps drawn so far, as a step may share another's
  double products_ = 0;
};

}  // namespace

// What the run's profile says of the network's layers; null where no run is asked for.
static Json layers_of(const std::string& run, const std::string& network) {
  if (run.empty()) return {};
  const auto file = std::filesystem::path(run) / "profile.json";
  if (!std::filesystem::exists(file))
    throw Error(Exit::usage, "--run " + run + ": no profile.json there; the run has not ended");
  const Json profile = read_json(file);
  const Json layers = profile.value("layers", Json::object()).value(network, Json());
  if (layers.is_null())
    throw Error(Exit::usage, "--run " + run + ": it measured no layers of " + network);
  return layers;
}

int net_picture_command(const Json& request) {
  const GraphNetwork made = build_network(request.at("run"), request.at("net"),
                                          request.at("size").get<std::vector<std::int64_t>>());
  const Json layers = layers_of(request.at("measured"), made.model->name);
  const std::string text = NetPicture(made, layers).draw(), out = request.at("out");
  if (out.empty())
    std::cout << text;
  else
    write_text(out, text);
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
