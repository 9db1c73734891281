// A training step that is repeated from a recording, node by node, against one that is not.
#include <doctest/doctest.h>

#include <ATen/ATen.h>

#include <deque>

#include "engine/run/registry.h"
#include "engine/state/recorded_step.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "engine/state/tensor_device.h"

using namespace sluice;

namespace {

const char* const text = R"({
  "models": { "net": { "type": "unet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2,
                       "channels": [4, 8], "strides": [2], "num_res_units": 1 } },
  "nodes": {
    "made":  { "type": "synthetic", "num_samples": 8, "spatial_size": [32, 32], "rad_max": 8 },
    "up":    { "type": "to_device", "in": "made" },
    "batch": { "type": "batch", "in": "up", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 } } })";

// The region's nodes, fired one after the other; what is read later is read when the test says so.
struct Region {
  std::shared_ptr<TensorDevice> device = simulated_tensors();
  std::unique_ptr<Stream> stream = device->stream(true);
  std::shared_ptr<Resources> resources = std::make_shared<Resources>();
  Diagnostics diagnostics;
  std::optional<Graph> graph;
  std::optional<Plan> plan;
  std::vector<std::unique_ptr<Node>> nodes;
  std::shared_ptr<const RecordedSteps> counts;
  std::deque<Firing> fired;
  std::vector<std::shared_ptr<const void>> kept;
  const std::function<bool()> stopped = [] { return false; };

  explicit Region(bool recorded) {
    const Registry& registry = Registry::global();
    graph = load_graph(parse_document("g.json", text, diagnostics), registry.catalogue(), {},
                       diagnostics);
    REQUIRE(graph);
    plan = make_plan(*graph, {.threads = 2, .device = true}, diagnostics);
    REQUIRE(plan);
    const GraphModel& m = graph->models.front();
    std::shared_ptr<Network> net = registry.make_network(m.spec->name, m.params);
    net->initialise(1);
    resources->add(m.name, net);
    nodes.resize(plan->nodes.size());
    for (const char* path : {"fwd", "loss", "step"}) {
      auto& node = at(path);
      node = registry.make_node(plan->nodes[static_cast<std::size_t>(graph->find(path))].spec->name,
                                graph->nodes[static_cast<std::size_t>(graph->find(path))].params);
      OpenContext context;
      context.training = true;
      context.resources = resources;
      context.device = device;
      node->open(context);
    }
    if (recorded) counts = record_steps(*plan, device, nodes);
  }
  ~Region() { stream->mark()->wait(); }

  std::unique_ptr<Node>& at(const char* path) {
    return nodes[static_cast<std::size_t>(graph->find(path))];
  }
  SamplePtr fire(const char* path, SamplePtr sample) {
    fired.emplace_back(Stamp::first(0, 0, 0), 0, std::vector<std::vector<SamplePtr>>{{sample}},
                       stopped);
    Firing& f = fired.back();
    f.on(stream.get());
    at(path)->process(f);
    for (auto& held : stream->take_kept()) kept.push_back(std::move(held));
    return f.outs().empty() ? nullptr : f.outs().front().sample;
  }
  SamplePtr step(std::uint64_t seed, std::int64_t size) {
    at::manual_seed(seed);
    Sample s;
    s.name = std::to_string(seed);
    s.set("image", Field(at::rand({size, 1, 32, 32}), std::make_shared<const Meta>()));
    s.set("label",
          Field(at::randint(0, 2, {size, 1, 32, 32}, at::kByte), std::make_shared<const Meta>()));
    const auto pred = fire("fwd", std::make_shared<const Sample>(std::move(s)));
    const auto loss = fire("loss", pred);
    fire("step", loss);
    return loss;
  }
  std::vector<double> read() {
    stream->mark()->wait();
    std::vector<double> losses;
    for (Firing& f : fired) {
      for (const auto& look : f.later()) look();
      for (const auto& [name, value] : f.logs()) losses.push_back(value);
    }
    return losses;
  }
};

}  // namespace

TEST_CASE("what a repeated step made is that step's, however late it is looked at") {
  Region plain(false), recorded(true);
  std::vector<SamplePtr> a, b;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::int64_t size = i == 6 ? 1 : 2;  // a small batch in between runs as usual
    a.push_back(plain.step(i, size));
    b.push_back(recorded.step(i, size));
  }
  REQUIRE(recorded.counts);
  CHECK(recorded.counts->why_not.empty());
  CHECK(recorded.counts->updater == "step");
  CHECK(recorded.counts->recorded == 1);
  CHECK(recorded.counts->repeated == 6);
  const std::vector<double> losses = plain.read();
  CHECK(losses.size() == 10);
  CHECK(recorded.read() == losses);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(b[i]->name == a[i]->name);
    for (const auto& [key, field] : a[i]->fields())
      CHECK(at::equal(b[i]->tensor(key), field.tensor));
  }
  const auto weights = plain.resources->network("net")->parameters();
  const auto others = recorded.resources->network("net")->parameters();
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(at::equal(others[i].second, weights[i].second));
}

TEST_CASE("a recording is not repeated for weights that have moved since") {
  Region plain(false), recorded(true);
  for (std::uint64_t i = 0; i < 12; ++i) {
    if (i == 7)  // as a pass over a batch that lies elsewhere does
      for (Region* region : {&plain, &recorded}) {
        region->stream->mark()->wait();
        const Network& net = *region->resources->network("net");
        for (const auto& named : {net.parameters(), net.buffers()})
          for (const auto& [name, t] : named) t.set_data(t.detach().clone());
      }
    plain.step(i, 2);
    recorded.step(i, 2);
  }
  CHECK(recorded.counts->recorded == 2);
  CHECK(recorded.read() == plain.read());
  const auto weights = plain.resources->network("net")->parameters();
  const auto others = recorded.resources->network("net")->parameters();
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(at::equal(others[i].second, weights[i].second));
}

TEST_CASE("a pass begins where the data is, and with data of the host where the weights are") {
  struct Elsewhere final : Network {  // on a device that is always there
    Tensors forward(const Tensors& x, std::size_t) override { return x; }
    Named parameters() const override { return {{"w", at::zeros({1}, at::kMeta)}}; }
    void initialise(std::uint64_t) override {}
  };
  CHECK(Elsewhere().begins_at(at::kCPU) == at::Device(at::kMeta));
  const Region here(false);
  const Network& net = *here.resources->network("net");
  CHECK(net.begins_at(at::kCPU) == at::Device(at::kCPU));
  CHECK(net.begins_at(at::kMeta) == at::Device(at::kMeta));
}
