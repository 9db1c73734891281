// plain_conv_unet and residual_encoder_unet as nnU-Net runs and begins them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "engine/base/read_file.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"

using namespace sluice;

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

const Json residual{{"spatial_dims", 3},           {"in_channels", 1},
                    {"out_channels", 2},           {"features_per_stage", {16, 32}},
                    {"kernel_sizes", {3, 3}},      {"strides", {1, 2}},
                    {"n_blocks_per_stage", {1, 2}}};

Json params_of(const Json& g) {
  const bool plain = g["class"] == "PlainConvUNet";
  return {{"spatial_dims", g["spatial"]},
          {"in_channels", g["in"]},
          {"out_channels", g["out"]},
          {"features_per_stage", g["features"]},
          {"kernel_sizes", g["kernel_sizes"]},
          {"strides", g["strides"]},
          {plain ? "n_conv_per_stage" : "n_blocks_per_stage", g["n_per_stage"]},
          {"n_conv_per_stage_decoder", g["n_conv_per_stage_decoder"]},
          {"deep_supervision", true}};
}

void fill(Network& net) {
  const at::NoGradGuard no_grad;
  for (auto& [name, p] : net.parameters()) {
    const double fan = p.dim() > 1 ? static_cast<double>(p[0].numel()) : 1;
    const at::Tensor t = at::arange(p.numel(), at::kDouble);
    p.copy_((0.4 / std::sqrt(fan) * at::sin(0.37 * t + static_cast<double>(name.size())))
                .view(p.sizes()));
    if (name.ends_with("norm.weight")) p.add_(1);
  }
}

// sin(1 + 0.7 i + 1.3 j + 0.4 k + 2 c) + 0.1 i - 0.05 j k; two axes are j and k.
at::Tensor image_of(const std::vector<std::int64_t>& size) {
  const bool flat = size.size() < 5;
  at::Tensor x =
      at::empty({size[1], flat ? 1 : size[2], size[size.size() - 2], size.back()}, at::kDouble);
  auto a = x.accessor<double, 4>();
  for (int c = 0; c < x.size(0); ++c)
    for (int i = 0; i < x.size(1); ++i)
      for (int j = 0; j < x.size(2); ++j)
        for (int k = 0; k < x.size(3); ++k)
          a[c][i][j][k] = std::sin(1 + 0.7 * i + 1.3 * j + 0.4 * k + 2 * c) + 0.1 * i -
                          0.05 * static_cast<double>(j * k);
  return x.to(at::kFloat).view(size);
}

}  // namespace

TEST_CASE("nnU-Net's networks give nnU-Net's outputs with its names and weights") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  const at::NoGradGuard no_grad;
  const Json golden = Json::parse(read_text(std::string(root) + "/nnunet_golden.json"));
  REQUIRE(golden["networks"].size() == 3);
  for (const Json& g : golden["networks"]) {
    CAPTURE(g["class"].dump());
    const auto net = Registry::global().make_network(
        g["class"] == "PlainConvUNet" ? "plain_conv_unet" : "residual_encoder_unet", params_of(g));
    Shapes shapes;
    for (const auto& [name, p] : net->parameters()) shapes[name] = p.sizes().vec();
    CHECK(shapes == g["unique"].get<Shapes>());
    fill(*net);
    net->train(false);
    const auto y = net->forward({image_of(g["input"])}, g["outputs"].size());
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(y[i].sizes() == at::IntArrayRef(g["outputs"][i].get<std::vector<std::int64_t>>()));
    const at::Tensor first = y[0].contiguous().view(-1);
    for (int i = 0; i < 8; ++i)
      CHECK(std::abs(first[i].item<double>() - g["output0_first8"][i].get<double>()) < 2e-5);
    CHECK(std::abs(first.mean().item<double>() - g["output0_mean_std"][0].get<double>()) < 2e-6);
    CHECK(std::abs(first.std().item<double>() - g["output0_mean_std"][1].get<double>()) < 2e-6);
  }
}

TEST_CASE("nnU-Net's networks begin as nnU-Net begins them") {
  const auto net = Registry::global().make_network("residual_encoder_unet", residual);
  net->initialise(3);
  for (const auto& [name, p] : net->parameters()) {
    CAPTURE(name);
    if (name.ends_with("bias")) {
      CHECK(p.count_nonzero().item<std::int64_t>() == 0);
    } else if (name.find("norm") != std::string::npos) {
      // The last of a block is 0: the block begins as its shortcut.
      const double begins = name.ends_with("conv2.norm.weight") ? 0 : 1;
      CHECK(p.eq(begins).all().item<bool>());
    } else if (p.numel() > 2000) {  // He's normal distribution for a slope of 0.01
      const double wanted = std::sqrt(2 / (1 + 1e-4) / static_cast<double>(p[0].numel()));
      CHECK(p.std().item<double>() == doctest::Approx(wanted).epsilon(0.1));
      CHECK(p.abs().max().item<double>() > 2 * wanted);
    }
  }
}
