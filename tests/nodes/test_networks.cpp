// Every network of tests/golden/nets against MONAI 1.6.1 (tests/golden/make_nets.py): names,
// shapes, outputs, gradients, running statistics. A new network is a file there, and nothing here.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "engine/base/error.h"
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

namespace {

std::shared_ptr<Network> make(const char* type, const Json& more) {
  Json params{{"spatial_dims", 2}, {"in_channels", 1}, {"out_channels", 2}};
  params.update(more);
  return Registry::global().make_network(type, params);
}

at::Tensor parameter(const Network& net, const std::string& wanted) {
  for (const auto& [name, p] : net.parameters())
    if (name == wanted) return p.detach();
  FAIL("no parameter " << wanted);
  return {};
}

std::size_t steps_of_kind(const Network& net, const std::string& kind) {
  std::size_t count = 0;
  for (const Described& d : dynamic_cast<const BuiltNetwork&>(net).net().describe())
    count += d.kind == kind;
  return count;
}

}  // namespace

// MONAI: "Sizes of tensors must match".
TEST_CASE("networks of strides refuse extents that the strides do not divide") {
  const Json unet{{"channels", {2, 2, 2}}, {"strides", {2, 2}}},
      dynunet{{"kernel_size", {3, 3, 3}},
              {"strides", {1, 2, 2}},
              {"upsample_kernel_size", {2, 2}},
              {"filters", {2, 2, 2}}},
      nnunet{{"features_per_stage", {2, 2, 2}},
             {"kernel_sizes", {3, 3, 3}},
             {"strides", {1, {2, 1}, 2}}};
  Json residual = nnunet;
  residual["n_blocks_per_stage"] = {1};
  CHECK_THROWS_WITH(make("unet", unet)->forward(at::zeros({1, 1, 64, 46})),
                    "unet takes extents that are multiples of 4 along axis 1, got [64, 46]");
  CHECK_THROWS_AS(make("unet", unet)->forward(at::zeros({1, 1, 33, 33})), DataError);
  CHECK_THROWS_WITH(make("attention_unet", unet)->forward(at::zeros({1, 1, 64, 46})),
                    "attention_unet takes extents that are multiples of 4 along axis 1, got "
                    "[64, 46]");
  CHECK_THROWS_WITH(make("dynunet", dynunet)->forward(at::zeros({1, 1, 30, 32})),
                    "dynunet takes extents that are multiples of 4 along axis 0, got [30, 32]");
  CHECK_THROWS_WITH(
      make("plain_conv_unet", nnunet)->forward(at::zeros({1, 1, 6, 7})),
      "plain_conv_unet takes extents that are multiples of 4 along axis 0, got [6, 7]");
  CHECK_THROWS_WITH(
      make("residual_encoder_unet", residual)->forward(at::zeros({1, 1, 8, 7})),
      "residual_encoder_unet takes extents that are multiples of 2 along axis 1, got [8, 7]");
  CHECK(make("plain_conv_unet", nnunet)->forward(at::zeros({1, 1, 8, 6})).size(3) == 6);
}

TEST_CASE("a pixel shuffle's filters begin equal in groups, as with MONAI's icnr_init") {
  const auto net = make("segresnet", {{"upsample_mode", "pixelshuffle"},
                                      {"blocks_down", {1, 1}},
                                      {"blocks_up", {1}},
                                      {"init_filters", 32},
                                      {"in_channels", 1}});
  net->initialise(3);
  const at::Tensor w = parameter(*net, "up_samples.0.1.pixelshuffle.conv_block.weight");
  REQUIRE(w.sizes() == at::IntArrayRef{128, 32, 3, 3});
  const at::Tensor groups = w.view({32, 4, -1});
  CHECK(at::equal(groups, groups.select(1, 0).unsqueeze(1).expand_as(groups)));
  CHECK_FALSE(at::equal(groups[0][0], groups[1][0]));
  // Normal, of variance 2 / fan.
  CHECK(w.square().mean().item<double>() == doctest::Approx(2.0 / (32 * 9)).epsilon(0.05));
}

TEST_CASE("normal_init: layers' weights of deviation 0.02, biases 0, batch norm's around 1") {
  const auto net = Registry::global().make_network("generator", {{"latent_shape", 16},
                                                                 {"start_shape", {32, 4, 4}},
                                                                 {"channels", {32, 1}},
                                                                 {"strides", {2, 1}},
                                                                 {"norm", "BATCH"},
                                                                 {"init", "normal"},
                                                                 {"last_act", "SIGMOID"}});
  net->initialise(3);
  std::size_t norms = 0, slopes = 0;
  for (const auto& [name, w] : net->parameters()) {
    CAPTURE(name);
    const double mean = w.mean().item<double>();
    if (w.dim() > 1 && w.numel() > 200) {
      CHECK(w.std().item<double>() == doctest::Approx(0.02).epsilon(0.15));
      CHECK(std::abs(mean) < 0.005);
    } else if (w.dim() > 1) {
      CHECK(w.abs().max().item<double>() < 0.1);
    } else if (name.ends_with("bias")) {
      CHECK(w.abs().max().item<double>() == 0);
    } else if (name.ends_with("N.weight")) {
      ++norms;
      CHECK(std::abs(mean - 1) < 0.1);
      CHECK((w - 1).abs().max().item<double>() > 0);
    } else {
      ++slopes;
      CHECK(mean == 0.25);  // PReLU's
    }
  }
  CHECK(norms > 0);
  CHECK(slopes > 0);
  net->train(false);
  const at::Tensor made = net->forward(at::sin(at::arange(32, at::kFloat)).view({2, 16}));
  CHECK(made.min().item<double>() > 0);
  CHECK(made.max().item<double>() < 1);
}

TEST_CASE(
    "weights begin as MONAI's: retina_net's pyramid uniform, a dynunet of signals as torch's") {
  const auto retina = make("retina_net", {{"num_anchors", 1}, {"backbone", "resnet10"}});
  retina->initialise(1);
  const double largest = parameter(*retina, "feature_extractor.fpn.layer_blocks.0.weight")
                             .abs()
                             .max()
                             .item<double>(),
               bound = std::sqrt(3.0 / (256 * 9));
  CHECK(largest <= bound);
  CHECK(largest > 0.99 * bound);
  for (const int axes : {1, 2}) {
    const auto net = make("dynunet", {{"spatial_dims", axes},
                                      {"kernel_size", {3, 3, 3}},
                                      {"strides", {1, 2, 2}},
                                      {"upsample_kernel_size", {2, 2}},
                                      {"filters", {16, 16, 16}}});
    net->initialise(1);
    const auto weight = parameter(*net, "bottleneck.conv1.conv.weight").abs().max().item<double>();
    const auto bias = parameter(*net, "output_block.conv.conv.bias").abs().max().item<double>();
    CHECK((weight <= 1 / std::sqrt(48.0)) == (axes == 1));
    CHECK((bias > 0) == (axes == 1));
  }
}

TEST_CASE("densenet drops whole channels of images, and single values of signals") {
  const Json small{{"dropout_prob", 0.5}, {"block_config", {2, 1}}};
  const auto image = make("densenet121", small);
  CHECK(steps_of_kind(*image, "dropout_channels") == 3);
  CHECK(steps_of_kind(*image, "dropout") == 0);
  Json signals = small;
  signals["spatial_dims"] = 1;
  CHECK(steps_of_kind(*make("densenet121", signals), "dropout") == 3);
}

TEST_CASE("what a network shares or adds has one shape, or it is a usage error") {
  Builder b;
  b.scope().parameter("w", {2}, {});
  CHECK_THROWS_WITH_AS(b.scope().parameter("w", {3}, {}),
                       "the parameter w has two shapes, [2] and [3]", Error);
  const Value x = b.input(2, 2), y = b.input(3, 2);
  CHECK_THROWS_WITH_AS(x + y, "the sum of 2 and 3 channels", Error);
}

TEST_CASE("arguments of norms and activations that are unknown or no numbers are refused") {
  const auto said = [](const Json& norm, const Json& act) -> std::string {
    try {
      make("basic_unet", {{"norm", norm}, {"act", act}});
    } catch (const Error& e) {
      CHECK(e.exit == Exit::usage);
      return e.what();
    }
    return "";
  };
  const Json no = Json::object(), inplace{{"inplace", true}};
  CHECK(said("batch", {"relu", inplace}).empty());
  CHECK(said({"batch"}, {"leakyrelu", {{"negative_slope", 0.1}, {"inplace", true}}}).empty());
  CHECK(said({"batch", {{"affine", false}}}, {"gelu", {{"approximate", "tanh"}}}).empty());
  CHECK(said("batch", {"gelu", inplace}) ==
        "basic_unet: no gelu argument is called inplace; there are approximate");
  CHECK(said("batch", {"leakyrelu", {{"slope", 0.1}}}) ==
        "basic_unet: no leakyrelu argument is called slope; there are negative_slope, inplace");
  CHECK(said("batch", {"tanh", inplace}) ==
        "basic_unet: no tanh argument is called inplace; there are none");
  CHECK(said("batch", {"gelu", {{"approximate", "erf"}}}) ==
        "basic_unet: gelu: approximate is none or tanh, found \"erf\"");
  CHECK(said("batch", {"elu", {{"alpha", "x"}}}) ==
        "basic_unet: elu: alpha is a number, found \"x\"");
  CHECK(said("batch", {"leakyrelu", 0.1}) ==
        "basic_unet: an activation is a name or [name, {arguments}], found [\"leakyrelu\",0.1]");
  CHECK(
      said("batch", {"prelu", {{"num_parameters", 5}}}).find("a prelu of num_parameters 5 for ") !=
      std::string::npos);
  CHECK(said({"batch", {{"momentum", nullptr}}}, "relu").find("batch: momentum is a number; ") !=
        std::string::npos);
  CHECK(said({"batch", {{"affine", 1}}}, "relu") ==
        "basic_unet: batch: affine is true or false, found 1");
  CHECK(said({"group", {{"num_groups", 0}}}, "relu") ==
        "basic_unet: group: num_groups is a whole number above 0, found 0");
  CHECK(said("group", "relu").find("a group norm needs its num_groups") != std::string::npos);
  CHECK(said({"batch", {{"num_groups", 2}}}, "relu") ==
        "basic_unet: no norm argument is called num_groups; there are affine, eps, momentum");
  for (const char* norm : {"batch", "instance"})
    CHECK(said({norm, {{"eps", -1}}}, "relu") ==
          "basic_unet: " + std::string(norm) + ": eps is a number from 0, found -1");
  CHECK(
      said({"group", {{"num_groups", 1}, {"eps", -1e-5}}}, "relu").find("eps is a number from 0") !=
      std::string::npos);
  CHECK(said({"batch", {{"momentum", 2}}}, "relu") ==
        "basic_unet: batch: momentum is a number from 0 to 1, found 2");
  CHECK(said({"batch", {{"eps", 0}, {"momentum", 1}}}, "relu").empty());
  CHECK_NOTHROW(make("segresnet_ds", {{"norm", {"batch"}}}));
}

TEST_CASE("unet takes norms and activations as MONAI does: in any case, and with arguments") {
  const auto unet = [](const Json& norm, const Json& act) {
    const auto net = make("unet", {{"channels", {4, 8}},
                                   {"strides", {2}},
                                   {"num_res_units", 1},
                                   {"norm", norm},
                                   {"act", act}});
    fill(*net);
    net->train(true);
    return net->forward(sines({2, 1, 8, 8}));
  };
  const Json slope{{"negative_slope", 0.01}, {"inplace", true}};
  const std::pair<Json, Json> as_one[][2] = {
      {{"BATCH", "PRELU"}, {"batch", "prelu"}},
      {{"BATCH", "PRELU"}, {{"Batch", {{"affine", true}}}, {"PReLU", {{"init", 0.25}}}}},
      {{"INSTANCE", "RELU"}, {"Instance", "ReLU"}},
      {{"INSTANCE", "LEAKYRELU"}, {{"instance", {{"affine", false}}}, {"leakyrelu", slope}}}};
  for (const auto& [one, other] : as_one) {
    CAPTURE(other.first.dump());
    CHECK(unet(one.first, one.second).equal(unet(other.first, other.second)));
  }
  CHECK_FALSE(
      unet("batch", {"leakyrelu", {{"negative_slope", 0.5}}}).equal(unet("batch", "leakyrelu")));
  CHECK_NOTHROW(unet({"group", {{"num_groups", 2}}}, "gelu"));
  CHECK_THROWS_WITH(unet("bach", "relu"), doctest::Contains("unet: no norm is called bach; "));
  CHECK_THROWS_WITH(unet("batch", {"prelu", {{"slope", 1}}}),
                    doctest::Contains("unet: no prelu argument is called slope"));
}

TEST_CASE("what networks refuse alike they refuse in the same words") {
  const std::tuple<const char*, Json, const char*> cases[] = {
      // Kernels without a middle.
      {"auto_encoder",
       {{"channels", {2}}, {"strides", {2}}, {"up_kernel_size", 4}},
       "kernel sizes must be odd, found 4"},
      {"generator",
       {{"latent_shape", 2},
        {"start_shape", {2, 2}},
        {"channels", {2}},
        {"strides", {2}},
        {"kernel_size", 2}},
       "kernel sizes must be odd, found 2"},
      {"resnet10", {{"conv1_t_size", {3, 4}}}, "conv1_t_size must be odd, found 4"},
      {"se_resnet50",
       {{"downsample_kernel_size", 2}},
       "downsample_kernel_size must be odd, found 2"},
      // Lists of other lengths than others.
      {"auto_encoder",
       {{"channels", {2, 2}}, {"strides", {2}}},
       "strides needs as many entries as channels (2), found 1"},
      {"regressor",
       {{"in_shape", {1, 8, 8}}, {"channels", {2, 2}}, {"strides", {2}}},
       "strides needs as many entries as channels (2), found 1"},
      {"auto_encoder",
       {{"channels", {2}}, {"strides", {2}}, {"inter_channels", {2, 2}}, {"inter_dilations", 2}},
       "inter_dilations needs as many entries as inter_channels (2), found 1"},
      {"attention_unet",
       {{"channels", {4, 8}}, {"strides", {2, 2}}},
       "strides needs one entry fewer than channels (1), found 2"},
      {"dynunet",
       {{"kernel_size", {3, 3, 3}}, {"strides", {1, 2, 2}}, {"upsample_kernel_size", {2}}},
       "upsample_kernel_size needs one entry fewer than strides (2), found 1"},
      {"segresnet",
       {{"blocks_up", {1}}},
       "blocks_up needs one entry fewer than blocks_down (3), found 1"},
      {"segresnet_ds",
       {{"blocks_up", {1}}},
       "blocks_up needs one entry fewer than blocks_down (3), found 1"},
      {"med_next",
       {{"blocks_up", {1}}},
       "blocks_up needs as many entries as blocks_down (4), found 1"},
      {"plain_conv_unet",
       {{"features_per_stage", {2, 2}}, {"kernel_sizes", {3}}, {"strides", {1, 2}}},
       "kernel_sizes needs as many entries as features_per_stage (2), found 1"},
      {"autoencoder_kl",
       {{"channels", {4, 4}},
        {"norm_num_groups", 2},
        {"num_res_blocks", 1},
        {"attention_levels", {false}}},
       "attention_levels needs as many entries as channels (2), found 1"},
      // One number, or one for each.
      {"med_next",
       {{"decoder_expansion_ratio", {2, 2}}},
       "decoder_expansion_ratio has one entry or 4, found 2"},
      {"autoencoder_kl",
       {{"channels", {4, 4}},
        {"norm_num_groups", 2},
        {"attention_levels", {false, false}},
        {"num_res_blocks", {1, 1, 1}}},
       "num_res_blocks has one entry or 2, found 3"},
      {"diffusion_model_unet",
       {{"channels", {4, 4}},
        {"norm_num_groups", 2},
        {"attention_levels", {false, false}},
        {"num_head_channels", {2, 2, 2}},
        {"num_res_blocks", 1}},
       "num_head_channels has one entry or 2, found 3"},
      {"reg_unet",
       {{"num_channel_initial", 2}, {"depth", 2}, {"encode_kernel_sizes", {3, 3}}},
       "encode_kernel_sizes has one entry or 3, found 2"},
      {"vqvae", {{"num_res_channels", {2, 2}}}, "num_res_channels has one entry or 3, found 2"},
      // One number an axis.
      {"segresnet_ds",
       {{"resolution", {1, 1, 1}}},
       "resolution needs a number for each axis, 2, found 3"},
      {"segresnet_vae",
       {{"input_image_size", {8}}},
       "input_image_size needs a number for each axis, 2, found 1"},
      {"spade_net",
       {{"label_nc", 2}, {"input_shape", {8}}, {"channels", {2}}, {"z_dim", 2}},
       "input_shape needs a number for each axis, 2, found 1"},
      // Multiples.
      {"autoencoder_kl",
       {{"channels", {4, 6}}, {"norm_num_groups", 4}, {"attention_levels", {false, false}}},
       "channels must be multiples of norm_num_groups, 4, found 6"},
      {"diffusion_model_unet",
       {{"channels", {4, 6}}, {"norm_num_groups", 4}, {"attention_levels", {false, false}}},
       "channels must be multiples of norm_num_groups, 4, found 6"},
      {"segresnet",
       {{"init_filters", 12}},
       "init_filters must be a multiple of num_groups, 8, found 12"},
      {"swin_unetr", {{"feature_size", 20}}, "feature_size must be a multiple of 12, found 20"},
      {"vit_auto_enc",
       {{"img_size", {18, 16}}, {"patch_size", 4}},
       "img_size must be a multiple of patch_size, 4, found 18"},
      {"masked_auto_encoder_vit",
       {{"img_size", 16}, {"patch_size", 4}, {"decoder_hidden_size", 30}},
       "decoder_hidden_size must be a multiple of decoder_num_heads, 12, found 30"},
      {"spade_net",
       {{"label_nc", 2}, {"input_shape", {8, 6}}, {"channels", {2, 2}}, {"z_dim", 2}},
       "input_shape must be multiples of 4, found 6"}};
  for (const auto& [type, params, why] : cases) {
    CAPTURE(type);
    CHECK_THROWS_WITH_AS(make(type, params), (type + std::string(": ") + why).c_str(), Error);
  }
  const std::tuple<const char*, Json, std::vector<std::int64_t>, const char*> extents[] = {
      {"unetr",
       {{"img_size", 16}, {"hidden_size", 12}},
       {16, 32},
       "was made for images of img_size [16, 16], got [16, 32]"},
      {"vit",
       {{"img_size", 16}, {"patch_size", 8}, {"hidden_size", 12}, {"num_layers", 1}},
       {16, 8},
       "was made for images of img_size [16, 16], got [16, 8]"},
      {"classifier",
       {{"in_shape", {1, 8, 8}}, {"classes", 2}, {"channels", {2}}, {"strides", {2}}},
       {8, 4},
       "was made for images of in_shape [8, 8], got [8, 4]"},
      {"global_net",
       {{"image_size", {8, 8}}, {"num_channel_initial", 2}, {"depth", 1}},
       {8, 4},
       "was made for images of image_size [8, 8], got [8, 4]"},
      {"basic_unet", Json::object(), {16, 15}, "takes extents of 16 or more, got [16, 15]"},
      {"se_resnet50", Json::object(), {2, 3}, "takes extents of 3 or more, got [2, 3]"}};
  for (const auto& [type, params, size, why] : extents) {
    CAPTURE(type);
    CHECK_THROWS_WITH_AS(make(type, params)->forward(at::zeros({1, 1, size[0], size[1]})),
                         (type + std::string(" ") + why).c_str(), DataError);
  }
}

TEST_CASE("vqvae refuses lists that MONAI or PyTorch refuses") {
  const auto said = [](const char* list, const Json& given) -> std::string {
    try {
      make("vqvae", {{"channels", {2, 2}}, {"num_res_channels", 2}, {list, given}});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const char *down = "downsample_parameters", *up = "upsample_parameters";
  const Json halves{2, 4, 1, 1}, doubles{2, 4, 1, 1, 0};
  const auto so = [&](const Json& d, const Json& u) {
    make("vqvae", {{"channels", {2, 2}}, {"num_res_channels", 2}, {down, d}, {up, u}});
  };
  CHECK_NOTHROW(so(halves, doubles));
  CHECK_NOTHROW(so({halves, halves}, {doubles, doubles}));
  // The defaults are of three levels.
  CHECK(said(down, halves) ==
        "vqvae: upsample_parameters needs as many entries as channels (2), found 3");
  CHECK(said(up, doubles) ==
        "vqvae: downsample_parameters needs as many entries as channels (2), found 3");
  const auto first = [&](const Json& d) { return said(down, d); };
  CHECK(first(Json::array({halves})).find("needs as many entries as channels (2), found 1") !=
        std::string::npos);
  CHECK(first({2, 4, 1}) == "vqvae: downsample_parameters has lists of 4 numbers, found [2, 4, 1]");
  CHECK(first({halves, {2, 4, 1}}) ==
        "vqvae: downsample_parameters has lists of 4 numbers, found [2, 4, 1]");
  CHECK(first({{2}, {4, 9}, {1}, {1}}).find("needs as many entries") != std::string::npos);
  CHECK(first(Json::array()).find("has lists of 4 numbers, found []") != std::string::npos);
  for (std::size_t i = 0; i < 3; ++i) {
    Json wrong = halves;
    wrong[i] = 0;
    CHECK(first(wrong).find("has strides, kernels and dilations from 1, found ") !=
          std::string::npos);
  }
  CHECK_THROWS_WITH(so(halves, {2, 4, 1, 1, 2}),
                    "vqvae: upsample_parameters has paddings of the output below the stride, found "
                    "[2, 4, 1, 1, 2]");
}

TEST_CASE("what MONAI has a default for may be left out") {
  for (const char* type : {"unetr", "swin_unetr"}) {
    const ParamSpec* axes = Registry::global().catalogue().find(type)->find_param("spatial_dims");
    CHECK_FALSE(axes->required);
    CHECK(axes->fallback == 3);
  }
}

TEST_CASE("var_auto_encoder takes signals, whose in_shape is two numbers") {
  const ParamSpec* shape =
      Registry::global().catalogue().find("var_auto_encoder")->find_param("in_shape");
  CHECK_FALSE(shape->reject({1, 16}).has_value());
  CHECK(shape->reject(1).has_value());
  CHECK(make("var_auto_encoder", {{"spatial_dims", 1},
                                  {"in_shape", {1, 16}},
                                  {"latent_size", 2},
                                  {"channels", {2, 4}},
                                  {"strides", {2, 2}}})
            ->forward(at::zeros({2, 1, 16}))
            .sizes() == at::IntArrayRef{2, 2, 16});
}

TEST_CASE("a norm and an activation may be null where MONAI's may be None: then there is none") {
  struct Case {
    const char* type;
    Json params;
    std::vector<std::int64_t> size;
    std::vector<const char*> acts{"act"};
    const char* norm = "norm";
  };
  const Json five{2, 2, 2, 2, 2}, six{2, 2, 2, 2, 2, 2};
  const Case all[] = {
      {"unet", {{"channels", {4, 8}}, {"strides", {2}}, {"bias", false}}, {2, 1, 8, 8}},
      {"unet",
       {{"channels", {4, 8}}, {"strides", {2}}, {"bias", false}, {"num_res_units", 2}},
       {2, 1, 8, 8}},
      {"basic_unet", {{"features", six}, {"bias", false}}, {2, 1, 32, 32}},
      {"basic_unet_plus_plus", {{"features", six}, {"bias", false}}, {2, 1, 32, 32}},
      {"flexible_unet", {{"backbone", "resnet10"}, {"decoder_channels", five}}, {2, 1, 64, 64}},
      {"auto_encoder", {{"channels", {4, 8}}, {"strides", {2, 2}}, {"bias", false}}, {2, 1, 8, 8}},
      {"generator",
       {{"latent_shape", 3},
        {"start_shape", {4, 4, 4}},
        {"channels", {4, 1}},
        {"strides", {2, 2}},
        {"bias", false}},
       {2, 3}},
      {"regressor",
       {{"in_shape", {1, 8, 8}}, {"channels", {4, 4}}, {"strides", {2, 2}}, {"bias", false}},
       {2, 1, 8, 8}},
      {"high_res_net",
       Json::parse(R"({ "layer_params": [{ "n_features": 4, "kernel_size": 3 },
                                         { "n_features": 4, "kernels": [3, 3], "repeat": 2 },
                                         { "n_features": 6, "kernel_size": 1 },
                                         { "kernel_size": 1 }] })"),
       {2, 1, 8, 8},
       {"acti_type"},
       "norm_type"},
      {"patch_discriminator",
       {{"channels", 4}, {"num_layers_d", 2}},
       {2, 1, 16, 16},
       {"activation"}},
      {"fully_connected_net", {{"in_channels", 8}, {"hidden_channels", {4}}}, {2, 8}, {"act"}, ""},
      {"vqvae",
       Json::parse(R"({ "channels": [4], "num_res_channels": [4], "num_res_layers": 1,
                        "downsample_parameters": [[2, 4, 1, 1]],
                        "upsample_parameters": [[2, 4, 1, 1, 0]], "num_embeddings": 64 })"),
       {2, 1, 8, 8},
       {"act"},
       ""},
      {"voxel_morph",
       {{"out_channels", 1},
        {"channels", {4, 4}},
        {"final_conv_channels", {4}},
        {"bias", false},
        {"integration_steps", 0}},
       {2, 1, 8, 8},
       {"act", "final_conv_act"}}};
  const at::NoGradGuard no_grad;
  for (const Case& c : all) {
    CAPTURE(std::string(c.type));
    const bool two = std::string(c.type) == "voxel_morph";
    // Of the voxel_morph the displacements.
    const auto output = [&](const Json& act, const Json& norm) {
      Json params = c.params;
      for (const char* name : c.acts)
        if (act != "usual") params[name] = act;
      if (*c.norm && norm != "usual") params[c.norm] = norm;
      const auto net = make(c.type, params);
      net->initialise(3);
      net->train(false);
      Network::Tensors x{sines(c.size)};
      if (two) x.push_back(sines(c.size, 2));
      return net->forward(x, two ? 2 : 1).back();
    };
    // An activation, and in prediction a norm of new statistics, that change nothing.
    const Json identity = Json::array({"leakyrelu", {{"negative_slope", 1.0}}}),
               unchanged = Json::array({"batch", {{"affine", false}, {"eps", 1e-12}}});
    const at::Tensor bare = output(nullptr, nullptr);
    const auto as_bare = [&](const at::Tensor& y) {
      return (y - bare).abs().max().item<double>() < 1e-4 * bare.abs().max().item<double>();
    };
    CHECK(as_bare(output(identity, unchanged)));
    CHECK_FALSE(as_bare(output("usual", nullptr)));
    if (*c.norm) CHECK_FALSE(as_bare(output(nullptr, "instance")));
  }
  // Where MONAI's class takes none it is refused.
  CHECK_THROWS_WITH(make("vnet", {{"act", nullptr}}),
                    doctest::Contains("vnet: an activation is a name or [name, {arguments}]"));
}

TEST_CASE("networks say in words what they cannot be and what does not fit") {
  CHECK_THROWS_WITH(
      make("dynunet",
           {{"kernel_size", {3, 3, 3}}, {"strides", {1, 2, 2}}, {"upsample_kernel_size", {2, 4}}}),
      "dynunet: upsample_kernel_size 1 is [4] and must be that level's stride, [2]");
  CHECK_NOTHROW(make("dynunet", {{"kernel_size", {3, 3, 3}},
                                 {"strides", {1, 2, {2, 1}}},
                                 {"upsample_kernel_size", {{2, 2}, {2, 1}}},
                                 {"filters", {2, 2, 2}}}));
  CHECK_THROWS_WITH(make("unetr", {{"img_size", {32, 40}}}),
                    "unetr: img_size must be multiples of a patch's extent, 16, found 40");
  CHECK_THROWS_WITH(
      make("segresnet_ds", {{"resolution", {1, 5}}, {"upsample_mode", "pixelshuffle"}}),
      doctest::Contains("pixelshuffle has one factor for all axes, found [2, 1]"));
  CHECK_THROWS_WITH(
      make("fully_connected_net", {{"hidden_channels", {4}}, {"adn_ordering", "NXA"}}),
      "fully_connected_net: adn_ordering is made of A, D and N, found \"NXA\"");
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
                    "plain_conv_unet: n_conv_per_stage has one entry or 2, found 3");
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
