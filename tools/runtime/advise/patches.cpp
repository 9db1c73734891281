#include "tools/runtime/advise/patches.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/graph/networks_of.h"
#include "engine/state/tensor_device.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

constexpr std::int64_t step = 16, most = 2048;

std::vector<std::int64_t> extents_of(const BuiltNetwork& network, std::int64_t n) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(network.spatial_axes()), n);
}

// Not so of one that makes images of numbers, or that was made for images of one size.
bool has_patches(const BuiltNetwork& network) {
  int sizes = 0;
  for (std::int64_t n = step; n <= most; n += step)
    sizes += network.unfit(extents_of(network, n)).empty();
  return sizes > 1 && network.inputs()[0].kind == NetInput::Kind::image;
}

std::int64_t largest(BuiltNetwork& network, std::int64_t budget, MemoryPolicy::Kind kind) {
  const Net& net = network.net();
  std::int64_t fits = 0;
  for (std::int64_t n = step; n <= most; n += step) {
    const std::vector<std::int64_t> extents = extents_of(network, n);
    if (!network.unfit(extents).empty()) continue;
    Step::Size image{1, network.channels()};
    image.insert(image.end(), extents.begin(), extents.end());
    const std::vector<Step::Size> images(static_cast<std::size_t>(net.inputs), image);
    try {
      const auto sizes = net.sizes(images);
      if (memory_plan(net, net.schedule(1), sizes, {kind, 0}, FrameCount{}).peak > budget) break;
    } catch (const DataError&) {  // a step's window is larger than what it sees
      continue;
    }
    fits = n;
  }
  return fits;
}

std::string text_of(std::int64_t extent, std::int64_t axes) {
  if (extent == 0) return "none";
  return axes == 3 ? fmt::format("{0} x {0} x {0}", extent) : fmt::format("{0} x {0}", extent);
}

}  // namespace

std::vector<LargestPatch> largest_patches(const Graph& graph, std::int64_t bytes) {
  std::vector<LargestPatch> all;
  for (const GraphModel& m : graph.models) {
    const auto network = updater_of(graph, m.name)
                             ? Registry::global().make_network(m.spec->name, m.params)
                             : nullptr;
    auto* built = dynamic_cast<BuiltNetwork*>(network.get());
    if (!built || !has_patches(*built)) continue;
    LargestPatch p{m.name, built->spatial_axes(), bytes};
    if (const Json given = m.params.value("memory_budget", Json()); given.is_number())
      p.budget = given;
    try {
      p.kept = largest(*built, p.budget, MemoryPolicy::Kind::keep);
      p.light = largest(*built, p.budget, MemoryPolicy::Kind::light);
      p.recomputed = largest(*built, p.budget, MemoryPolicy::Kind::recompute);
      if (find_device())  // the host's own memory is no place to move values to
        p.offloaded = largest(*built, p.budget, MemoryPolicy::Kind::offload);
    } catch (const c10::Error&) {  // it is made for images of one size
      continue;
    } catch (const DataError&) {  // or not for any of these
      continue;
    }
    all.push_back(std::move(p));
  }
  return all;
}

void print_patches(const std::vector<LargestPatch>& all) {
  for (const LargestPatch& p : all)
    fmt::print(
        "{}: the largest patch of one sample whose activations and gradients fit in {}: {}; with "
        "\"memory\": \"light\" {}, \"recompute\" {}{}; the loss, labels and samples come on top\n",
        p.network, bytes_text(p.budget), text_of(p.kept, p.axes), text_of(p.light, p.axes),
        text_of(p.recomputed, p.axes),
        p.offloaded ? fmt::format(", \"offload\" {}", text_of(*p.offloaded, p.axes)) : "");
}

}  // namespace sluice
