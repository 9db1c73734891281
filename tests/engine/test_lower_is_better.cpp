// Which way metrics are better.
#include <doctest/doctest.h>

#include "engine/base/lower_is_better.h"

using namespace sluice;

TEST_CASE("of losses and errors less is better, whatever the node is called") {
  for (const char* name : {"step.loss", "val_loss", "hd95.mean", "surface_distance_metric",
                           "mse_metric", "val.rmse", "step.grad_norm", "tre2.mean", "loss"})
    CHECK_MESSAGE(lower_is_better(name), name);
  for (const char* name : {"val_dice.mean", "pretrain.accuracy", "stretch.mean", "maestro",
                           "surface_dice_metric", "psnr_metric", ""})
    CHECK_MESSAGE(!lower_is_better(name), name);
}
