// Segmentation networks with half of their channels: with zeros in place of those that go, the
// whole network and the small one agree.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "kernels/net/prune.h"
#include "nodes/network/built_network.h"
#include "tests/nodes/filled.h"

using namespace sluice;

namespace {

void check(const std::string& type, Json params, const char* key) {
  CAPTURE(type);
  CAPTURE(params.dump());
  const auto make = [&] { return Registry::global().make_network(type, params); };
  const auto whole = make();
  for (Json& n : params[key]) n = (n.get<std::int64_t>() + 1) / 2;
  const auto small = make();
  fill(*whole);
  auto &before = dynamic_cast<BuiltNetwork&>(*whole), &after = dynamic_cast<BuiltNetwork&>(*small);
  const std::int64_t dims = params["spatial_dims"];
  std::vector<std::int64_t> size{2, params["in_channels"]};
  size.insert(size.end(), static_cast<std::size_t>(dims), 32);
  prune_into(before.net(), after.net(), sines(size));
  const at::NoGradGuard no_grad;
  const at::Tensor x = sines(size, 7);
  const at::Tensor y = whole->forward(x), z = small->forward(x);
  CHECK(((y - z).abs().max() / y.abs().max()).item<double>() < 1e-4);
}

}  // namespace

TEST_CASE("half of the channels of segmentation networks go, and the rest is as it was") {
  const Json three = {{"spatial_dims", 3}, {"in_channels", 1}, {"out_channels", 3}},
             two = {{"spatial_dims", 2}, {"in_channels", 2}, {"out_channels", 2}};
  const auto with = [](Json base, const Json& more) {
    base.update(more);
    return base;
  };
  const Json channels = {4, 8, 16}, strides = {2, 2};
  for (const char* norm : {"instance", "batch"})
    for (const int units : {0, 2}) {
      const Json unet = {
          {"channels", channels}, {"strides", strides}, {"norm", norm}, {"num_res_units", units}};
      check("unet", with(three, unet), "channels");
      check("unet", with(two, unet), "channels");
    }
  const Json dyn = {{"kernel_size", {3, 3, 3}},
                    {"strides", {1, 2, 2}},
                    {"upsample_kernel_size", {2, 2}},
                    {"filters", {6, 10, 12}}};
  check("dynunet", with(three, dyn), "filters");
  check("basic_unet", with(two, {{"features", {6, 6, 8, 12, 14, 6}}}), "features");
  check("attention_unet", with(two, {{"channels", channels}, {"strides", strides}}), "channels");
}
