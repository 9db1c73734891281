// Which way metrics are better: by their words, and in a graph.
#include <doctest/doctest.h>

#include "engine/base/lower_is_better.h"
#include "engine/graph/metric_mode.h"

using namespace sluice;

TEST_CASE("of losses and errors less is better, whatever the node is called") {
  for (const char* name : {"step.loss", "val_loss", "hd95.mean", "surface_distance_metric",
                           "mse_metric", "val.rmse", "step.grad_norm", "tre2.mean", "loss"})
    CHECK_MESSAGE(lower_is_better(name), name);
  for (const char* name : {"val_dice.mean", "pretrain.accuracy", "stretch.mean", "maestro",
                           "surface_dice_metric", "psnr_metric", ""})
    CHECK_MESSAGE(!lower_is_better(name), name);
}

TEST_CASE("a metric's mode is what run says of it, else its name's or its node's type's") {
  struct Params {
    std::string metric;
    std::optional<std::string> mode;
  };
  const Spec measures("mae_metric", "");
  const Spec watches = Spec("sgd", "")
                           .param("metric", &Params::metric, "")
                           .param("mode", &Params::mode, "")
                           .watches("metric");
  Graph graph;
  GraphNode& off = graph.nodes.emplace_back();
  off.path = "off";
  off.spec = &measures;
  GraphNode step;
  step.spec = &watches;
  const auto made_for = [&](Json params) {
    step.params = std::move(params);
    return made_with(graph, step);
  };
  CHECK(mode_of(graph, "off.mean") == "min");  // the type says it
  CHECK(mode_of(graph, "offside.mean") == "max");
  CHECK(mode_of(graph, "val_loss.mean") == "min");
  CHECK(made_for({{"metric", "off.mean"}})["mode"] == "min");
  CHECK(made_for({{"metric", "dice.mean"}, {"mode", nullptr}})["mode"] == "max");
  CHECK(made_for({{"metric", "dice.mean"}, {"mode", "min"}})["mode"] == "min");
  CHECK(made_for({{"metric", ""}}) == Json{{"metric", ""}});
  CHECK(made_for(Json::object()) == Json::object());
  graph.run.stop = StopRule{};
  graph.run.stop->metric = "off.mean";
  graph.run.stop->mode = "max";
  CHECK(mode_of(graph, "off.mean") == "min");  // a rule without patience has no use for it
  graph.run.stop->patience = 3;
  CHECK(made_for({{"metric", "off.mean"}})["mode"] == "max");
  graph.run.checkpoint_best = "dice.mean";
  graph.run.checkpoint_mode = "min";
  CHECK(made_for({{"metric", "dice.mean"}})["mode"] == "min");
}
