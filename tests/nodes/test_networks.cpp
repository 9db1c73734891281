// Every network of tests/golden/nets against MONAI 1.6.1 (tests/golden/make_nets.py): names,
// shapes, outputs, gradients, running statistics. A new network is a file there, and nothing here.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "kernels/net/builder.h"
#include "nodes/network/built_network.h"
#include "tests/nodes/filled.h"
#include "tests/nodes/on_device.h"

using namespace sluice;

namespace {

// Of deep networks: names and shapes as one number.
void check_names_in_brief(const Network& net, const Json& c) {
  std::vector<std::string> rows;
  for (const auto& [name, p] : net.parameters()) rows.push_back(name + " " + c10::str(p.sizes()));
  for (const auto& [name, b] : net.buffers()) rows.push_back(name);
  CHECK(rows.size() == c["tensors"]);
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : "\n") + row;
  CHECK(crc32(text) == c["names"]);
}

void check_names(const Network& net, const Json& c) {
  if (c.contains("names")) return check_names_in_brief(net, c);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, p] : net.parameters()) shapes[name] = p.sizes().vec();
  CHECK(shapes == c["shapes"].get<decltype(shapes)>());
  std::vector<std::string> buffers, expected;
  for (const auto& [name, b] : net.buffers()) buffers.push_back(name);
  for (const auto& [name, sum] : c["buffers"].items()) expected.push_back(name);
  std::sort(buffers.begin(), buffers.end());
  std::sort(expected.begin(), expected.end());
  CHECK(buffers == expected);
}

void check_output(const at::Tensor& y, const Json& o) {
  REQUIRE(y.sizes() == at::IntArrayRef(o["size"].get<std::vector<std::int64_t>>()));
  const double abs = o["abs"], size = abs / static_cast<double>(y.numel());
  const at::Tensor first = y.detach().cpu().contiguous().flatten();
  for (std::size_t i = 0; i < o["first"].size(); ++i)
    CHECK(first[static_cast<std::int64_t>(i)].item<double>() ==
          doctest::Approx(o["first"][i].get<double>()).epsilon(1e-4).scale(size));
  CHECK(y.to(at::kDouble).sum().item<double>() ==
        doctest::Approx(o["sum"].get<double>()).epsilon(1e-4).scale(abs));
}

void check_gradients(const Network& net, const at::Tensor& x, const Json& c) {
  double largest = 0;
  for (const auto& [name, g] : c["grads"].items())
    if (!g.is_null()) largest = std::max(largest, g.get<double>());
  double sum = 0;
  for (const auto& [name, p] : net.parameters()) {
    CAPTURE(name);
    const double norm = p.grad().defined() ? p.grad().to(at::kDouble).norm().item<double>() : 0;
    sum += norm;
    if (c.contains("all_grads") && !c["grads"].contains(name)) continue;
    const Json& wanted = c["grads"].at(name);
    CHECK(p.grad().defined() == !wanted.is_null());
    if (!p.grad().defined() || wanted.is_null()) continue;
    // What a norm takes away again has a gradient of rounding alone.
    CHECK(std::abs(norm - wanted.get<double>()) <= 1e-3 * wanted.get<double>() + 2e-6 * largest);
  }
  if (c.contains("all_grads"))
    CHECK(sum == doctest::Approx(c["all_grads"].get<double>()).epsilon(1e-3));
  CHECK(x.grad().to(at::kDouble).norm().item<double>() ==
        doctest::Approx(c["input_grad"].get<double>()).epsilon(1e-3));
}

void check_case(const std::string& type, const Json& c) {
  const auto net = Registry::global().make_network(type, c["params"]);
  check_names(*net, c);
  if (!c.contains("outputs")) return;
  fill(*net);
  net->train(c["train"]);
  if (c.value("double", false)) dynamic_cast<BuiltNetwork&>(*net).net().compute = at::kDouble;
  at::Tensor x = on_device(sines(c["size"].get<std::vector<std::int64_t>>())).requires_grad_();
  Network::Tensors inputs{x};
  for (const auto& size : further_sizes(c))
    inputs.push_back(further_numbers(c, inputs.size() - 1, size)
                         .value_or(sines(size, 1.0 + static_cast<double>(inputs.size()))));
  for (at::Tensor& input : inputs) input = on_device(input);
  const auto y = net->forward(inputs, c["outputs"].size());
  at::Tensor loss = on_device(at::zeros({}));
  for (std::size_t k = 0; k < y.size(); ++k) {
    CAPTURE(k);
    check_output(y[k], c["outputs"][k]);
    loss = loss + (y[k] * on_device(sines(y[k].sizes(), 5 + static_cast<double>(k)))).sum();
  }
  loss.backward();
  check_gradients(*net, x, c);
  for (const auto& [name, b] : net->buffers()) {
    CAPTURE(name);
    if (c["buffers"].contains(name))
      CHECK(b.to(at::kDouble).sum().item<double>() ==
            doctest::Approx(c["buffers"].at(name).get<double>()).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("networks have MONAI's names, outputs and gradients") {
  int tried = 0;
  for (const auto& file : std::filesystem::directory_iterator(golden_folder() + "/nets")) {
    const Json all = golden("nets/" + file.path().filename().string());
    for (const Json& c : all["cases"]) {
      CAPTURE(all["type"].dump());
      CAPTURE(c["params"].dump());
      try {
        check_case(all["type"], c);
      } catch (const std::exception& e) {
        FAIL_CHECK(e.what());
      }
      ++tried;
    }
  }
  CHECK(tried >= 5);
}

TEST_CASE("an output that nobody asks for is not computed, and its parameters have no gradient") {
  const Json params{{"spatial_dims", 2},    {"in_channels", 1},
                    {"out_channels", 2},    {"kernel_size", {3, 3, 3}},
                    {"strides", {1, 2, 2}}, {"upsample_kernel_size", {2, 2}},
                    {"filters", {4, 4, 4}}, {"deep_supervision", true}};
  const auto net = Registry::global().make_network("dynunet", params);
  net->initialise(1);
  CHECK(net->output_count() == 2);
  const at::Tensor x = sines({2, 1, 8, 8});
  const auto both = net->forward({x}, 2), one = net->forward({x}, 1);
  CHECK(one.size() == 1);
  CHECK(both[1].sizes() == one[0].sizes());
  CHECK(at::equal(both[0], one[0]));
  one[0].sum().backward();
  for (const auto& [name, p] : net->parameters())
    CHECK(p.grad().defined() == !name.starts_with("deep_supervision_heads"));
  both[1].sum().backward();  // of two outputs the second alone
  for (const auto& [name, p] : net->parameters())
    if (name.starts_with("deep_supervision_heads")) CHECK(p.grad().defined());
}

TEST_CASE("a network's list says what it computes, with names and attributes") {
  const auto net = Registry::global().make_network("unet", {{"spatial_dims", 2},
                                                            {"in_channels", 1},
                                                            {"out_channels", 2},
                                                            {"channels", {4, 8}},
                                                            {"strides", {2}},
                                                            {"num_res_units", 1},
                                                            {"norm", "BATCH"}});
  std::string text;
  for (const Described& d : dynamic_cast<const BuiltNetwork&>(*net).net().describe())
    text += d.text() + "\n";
  const std::string norm = ": eps 1e-05, momentum 0.1, act prelu";
  CHECK(text ==
        "1 = conv(0) model.0.conv.unit0.conv: out 4, kernel 3x3, stride 2x2, padding 1x1, bias no\n"
        "4 = conv(0) model.0.residual: out 4, kernel 3x3, stride 2x2, padding 1x1, bias yes\n"
        "5 = batch_norm(1, 4) model.0.conv.unit0.adn.N" +
            norm +
            ", residual yes\n"
            "6 = conv(5) model.1.submodule.conv.unit0.conv: out 8, kernel 3x3, stride 1x1, "
            "padding 1x1, bias no\n"
            "9 = conv(5) model.1.submodule.residual: out 8, kernel 1x1, stride 1x1, padding 0x0, "
            "bias yes\n"
            "10 = batch_norm(6, 9) model.1.submodule.conv.unit0.adn.N" +
            norm +
            ", residual yes\n"
            "11 = concat(5, 10)\n"
            "12 = conv_transposed(11) model.2.0.conv: out 2, kernel 3x3, stride 2x2, padding 1x1, "
            "output_padding 1x1, bias no\n"
            "14 = batch_norm(12) model.2.0.adn.N" +
            norm +
            "\n"
            "16 = conv(14, 14) model.2.1.conv.unit0.conv: out 2, kernel 3x3, stride 1x1, "
            "padding 1x1, bias yes, residual yes\n");
}

TEST_CASE("segresnet_vae draws its noise by the pass's key, and none outside training") {
  const Json params{{"spatial_dims", 2}, {"in_channels", 1},       {"out_channels", 2},
                    {"vae_nz", 4},       {"blocks_down", {1, 1}},  {"blocks_up", {1}},
                    {"init_filters", 8}, {"vae_default_std", 1.0}, {"input_image_size", {8, 8}}};
  const auto net = Registry::global().make_network("segresnet_vae", params);
  net->initialise(1);
  const at::NoGradGuard no_grad;
  const at::Tensor x = sines({3, 1, 8, 8});
  const auto loss = [&](bool train, std::uint64_t key) {
    net->train(train);
    net->key_draws(key);
    return net->forward({x}, 2)[1];
  };
  CHECK(loss(true, 1).sizes() == at::IntArrayRef({3}));
  CHECK(at::equal(loss(true, 1), loss(true, 1)));
  CHECK_FALSE(at::equal(loss(true, 1), loss(true, 2)));
  CHECK(at::equal(loss(false, 1), loss(false, 2)));
  // Of three equal samples each has numbers of its own.
  net->train(true);
  const at::Tensor same = net->forward({sines({1, 1, 8, 8}).repeat({3, 1, 1, 1})}, 2)[1];
  CHECK(same[0].item<float>() != same[1].item<float>());
  CHECK(same[1].item<float>() != same[2].item<float>());
}

TEST_CASE("global_net begins with the identity and moves nothing") {
  for (const int axes : {2, 3}) {
    Json size = Json::array({8, 12});
    if (axes == 3) size.push_back(4);
    const auto net = Registry::global().make_network("global_net", {{"spatial_dims", axes},
                                                                    {"in_channels", 2},
                                                                    {"out_channels", axes},
                                                                    {"num_channel_initial", 2},
                                                                    {"depth", 1},
                                                                    {"image_size", size}});
    net->initialise(1);
    std::vector<std::int64_t> shape{2, 2};
    for (const auto& n : size) shape.push_back(n);
    const at::Tensor y = net->forward({sines(shape)}, 1)[0];
    CHECK(y.size(1) == axes);
    CHECK(y.abs().max().item<double>() < 1e-5);
  }
}

TEST_CASE("several dropouts of channels in one network drop different ones") {
  Builder b;
  const Value x = b.input(64, 2);
  Net net = b.finish({dropout_channels(x, 0.5, 1), dropout_channels(x, 0.5, 2)}, {});
  const auto y = net.forward({at::ones({2, 64, 2, 2})}, 2, /*training=*/true, /*key=*/7);
  const at::Tensor first = y[0].select(3, 0).select(2, 0), second = y[1].select(3, 0).select(2, 0);
  CHECK_FALSE(at::equal(first, second));
  CHECK(at::equal(y[0], first.unsqueeze(-1).unsqueeze(-1).expand_as(y[0])));
}

TEST_CASE("networks say in words what they cannot be and what does not fit") {
  const auto make = [](const char* type, Json more) {
    Json params{{"spatial_dims", 2}, {"in_channels", 1}, {"out_channels", 2}};
    params.update(more);
    return Registry::global().make_network(type, params);
  };
  CHECK_THROWS_WITH(
      make("attention_unet", {{"channels", {4, 8}}, {"strides", {2}}, {"kernel_size", {4}}}),
      "attention_unet: kernel sizes must be odd, found 4");
  CHECK_THROWS_WITH(make("med_next", {{"kernel_size", 4}}),
                    "med_next: kernel sizes must be odd, found 4");
  CHECK_THROWS_WITH(make("vnet", {{"in_channels", 3}}),
                    "vnet: in_channels must divide 16, found 3");
  CHECK_THROWS_WITH(make("ahnet", {{"upsample_mode", "trilinear"}}),
                    "ahnet: upsample_mode trilinear is not for 2 axes");
  CHECK_THROWS_WITH(
      make("reg_unet", {{"num_channel_initial", 2}, {"depth", 2}, {"extract_levels", {0, 1}}}),
      "reg_unet: the deepest of extract_levels must be depth, 2");
  CHECK_THROWS_WITH(make("plain_conv_unet", {{"features_per_stage", {4, 8}},
                                             {"kernel_sizes", {3, 3}},
                                             {"strides", {1, 2}},
                                             {"n_conv_per_stage", {1, 2, 3}}}),
                    "plain_conv_unet: n_conv_per_stage has one number or 2, found 3");
  CHECK_THROWS_WITH(make("basic_unet", {{"act", "rely"}}),
                    doctest::Contains("basic_unet: no activation is called rely; did you mean "
                                      "\"relu\"? there are relu, leakyrelu"));
  CHECK_THROWS_WITH(make("vnet", {{"act", "linear"}}),
                    doctest::Contains("vnet: no activation is called linear; there are relu"));
  CHECK_THROWS_WITH(make("high_res_net", {{"norm_type", {"batch", {{"epsilon", 1}}}}}),
                    doctest::Contains("high_res_net: no norm argument is called epsilon; "));
  CHECK_THROWS_WITH(make("vnet", Json::object())->forward(at::zeros({1, 1, 16, 20})),
                    "vnet takes extents that are multiples of 16, got [16, 20]");
  const auto two = make("voxel_morph", {{"out_channels", 1}, {"channels", {2, 2}}});
  CHECK_THROWS_WITH(two->forward({at::zeros({1, 1, 8, 8})}, 1),
                    "voxel_morph takes 2 inputs, got 1");
  CHECK_THROWS_WITH(two->forward({at::zeros({1, 1, 8, 8}), at::zeros({1, 1, 8, 4})}, 1),
                    "voxel_morph takes \"fixed\" as [1, 1, 8, 8], got [1, 1, 8, 4]");
}
