// layers: networks written in JSON against the built-in ones, and what is refused.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <map>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "kernels/image/filters.h"
#include "kernels/image/lattice.h"
#include "kernels/net/lltm.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

std::shared_ptr<Network> written(const std::string& file, Json more = Json::object()) {
  std::ifstream in(SLUICE_SOURCE_DIR "/graphs/networks/" + file);
  Json net = Json::parse(in)["models"]["net"];
  const std::string type = net["type"];
  net.erase("type");
  net.update(more);
  return Registry::global().make_network(type, net);
}

struct Pass {
  at::Tensor output, input_gradient;
  std::map<std::string, at::Tensor> gradients, buffers;
};

Pass pass(Network& net, const at::Tensor& x, bool training) {
  const at::Tensor image = x.clone().requires_grad_();
  net.train(training);
  Pass p;
  p.output = net.forward(image);
  (p.output * sines(p.output.sizes(), 3)).sum().backward();
  p.input_gradient = image.grad();
  for (auto& [name, w] : net.parameters()) {
    p.gradients[name] = w.grad().clone();
    w.mutable_grad() = at::Tensor();
  }
  for (auto& [name, b] : net.buffers()) p.buffers[name] = b.clone();
  return p;
}

void check_equal(const Pass& a, const Pass& b) {
  CHECK(a.output.equal(b.output));
  CHECK(a.input_gradient.equal(b.input_gradient));
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (const auto& [name, grad] : a.gradients) {
    CAPTURE(name);
    REQUIRE(b.gradients.count(name) == 1);
    CHECK(grad.equal(b.gradients.at(name)));
  }
  for (const auto& [name, buffer] : a.buffers) CHECK(buffer.equal(b.buffers.at(name)));
}

// The same weights by name.
void copy(const Network& from, Network& to) {
  at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> by_name;
  for (auto& [name, w] : from.parameters()) by_name[name] = w;
  for (auto& [name, w] : to.parameters()) {
    CAPTURE(name);
    REQUIRE(by_name.count(name) == 1);
    REQUIRE(w.sizes() == by_name[name].sizes());
    w.copy_(by_name[name]);
  }
}

std::string refusal(const Json& layers, Json more = Json::object()) {
  Json params = {{"spatial_dims", 2}, {"in_channels", 1}, {"out_channels", 2}, {"layers", layers}};
  params.update(more);
  try {
    Registry::global().make_network("layers", params);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("MONAI's U-Net written as layers is the built-in one, first weights and all") {
  for (const char* precision : {"float32", "bfloat16"}) {
    CAPTURE(precision);
    const auto own = written("unet.json", {{"precision", precision}});
    const auto built = Registry::global().make_network("unet", {{"spatial_dims", 3},
                                                                {"in_channels", 1},
                                                                {"out_channels", 2},
                                                                {"channels", {8, 16, 32}},
                                                                {"strides", {2, 2}},
                                                                {"num_res_units", 2},
                                                                {"precision", precision}});
    own->initialise(5);
    built->initialise(5);
    const auto a = own->parameters(), b = built->parameters();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].first == b[i].first);
      CHECK(a[i].second.equal(b[i].second));
    }
    const at::Tensor x = sines({3, 1, 16, 16, 16}, 1);
    for (const bool training : {true, false})
      check_equal(pass(*own, x, training), pass(*built, x, training));
  }
}

TEST_CASE("MONAI's ResNet-10 written as layers is the built-in one") {
  const auto own = written("resnet10.json");
  const auto built = Registry::global().make_network(
      "resnet10", {{"spatial_dims", 2}, {"in_channels", 3}, {"out_channels", 10}});
  own->initialise(5);
  built->initialise(6);
  copy(*built, *own);
  const at::Tensor x = sines({4, 3, 32, 32}, 1);
  for (const bool training : {true, false})
    check_equal(pass(*own, x, training), pass(*built, x, training));
}

TEST_CASE("layers may read what stands further down, and several outputs are in their order") {
  const Json layers = {
      {"late", {{"type", "add"}, {"in", {"a", "b"}}}},
      {"a", {{"type", "conv"}, {"in", "image"}, {"out_channels", 2}}},
      {"b", {{"type", "conv"}, {"in", "a"}, {"out_channels", 2}, {"groups", 2}, {"dilation", 2}}}};
  const auto net = Registry::global().make_network("layers", {{"spatial_dims", 2},
                                                              {"in_channels", 1},
                                                              {"out_channels", 2},
                                                              {"layers", layers},
                                                              {"outputs", {"late", "a"}}});
  net->initialise(1);
  net->train(false);
  CHECK(net->output_count() == 2);
  const auto y = net->forward({sines({1, 1, 8, 6}, 1)}, 2);
  CHECK(y[0].sizes() == at::IntArrayRef{1, 2, 8, 6});
  CHECK_FALSE(y[0].equal(y[1]));
}

TEST_CASE("a network of layers takes signals, by PyTorch's operations") {
  const auto net = Registry::global().make_network(
      "layers", {{"spatial_dims", 1},
                 {"in_channels", 2},
                 {"out_channels", 3},
                 {"layers",
                  {{"conv",
                    {{"type", "conv"},
                     {"in", "image"},
                     {"out_channels", 4},
                     {"kernel_size", 5},
                     {"strides", 2}}},
                   {"unit", {{"type", "act"}, {"in", "conv"}, {"act", "relu"}}},
                   {"pool", {{"type", "max_pool"}, {"in", "unit"}}},
                   {"mean", {{"type", "global_avg_pool"}, {"in", "pool"}}},
                   {"out", {{"type", "linear"}, {"in", "mean"}, {"out_channels", 3}}}}}});
  net->initialise(1);
  net->train(false);
  CHECK(net->spatial_axes() == 1);
  std::map<std::string, at::Tensor> w;
  for (const auto& [name, t] : net->parameters()) w[name] = t.detach();
  const at::Tensor x = sines({2, 2, 16}, 1);
  const at::Tensor conv =
      at::conv1d(x, w.at("conv.weight"), w.at("conv.bias"), at::IntArrayRef{2}, at::IntArrayRef{2});
  const at::Tensor mean = at::max_pool1d(conv.relu(), {2}).mean(-1);
  CHECK(at::allclose(net->forward(x), at::linear(mean, w.at("out.weight"), w.at("out.bias"))));
}

TEST_CASE("up_sample is PyTorch's operations, or says which channels do not fit") {
  const at::Tensor x = sines({2, 4, 3, 5}, 1);
  const auto made = [](const Json& given) {
    Json up{{"type", "up_sample"}, {"in", "image"}, {"out_channels", 1}};
    up.update(given);
    auto net = Registry::global().make_network("layers", {{"spatial_dims", 2},
                                                          {"in_channels", 4},
                                                          {"out_channels", up["out_channels"]},
                                                          {"layers", {{"up", up}}}});
    net->initialise(1);
    net->train(false);
    return net;
  };
  const auto check = [&](const Json& given, const auto& of) {
    CAPTURE(given.dump());
    const auto net = made(given);
    std::vector<at::Tensor> w;
    for (const auto& [name, t] : net->parameters()) w.push_back(t.detach());
    CHECK(at::allclose(net->forward(x), of(w), 1e-5, 1e-6));
  };
  const std::vector<std::int64_t> one{1, 1}, two{2, 2};
  check({{"mode", "deconv"}},
        [&](const auto& w) { return at::conv_transpose2d(x, w[0], w[1], two); });
  check({{"mode", "pixelshuffle"}, {"apply_pad_pool", false}},
        [&](const auto& w) { return at::pixel_shuffle(at::conv2d(x, w[0], w[1], one, one), 2); });
  check({{"mode", "pixelshuffle"}, {"pre_conv", false}, {"apply_pad_pool", false}},
        [&](const auto&) { return at::pixel_shuffle(x, 2); });
  check({{"mode", "nontrainable"}, {"interp_mode", "nearest"}, {"out_channels", 4}},
        [&](const auto&) { return x.repeat_interleave(2, 2).repeat_interleave(2, 3); });
  CHECK_THROWS_WITH_AS(made({{"mode", "nontrainable"}, {"pre_conv", false}}),
                       doctest::Contains("without pre_conv it makes 4 channels"), Error);
}

TEST_CASE("filters and the recurrent cell as layers are the functions, with their gradients") {
  const auto made = [](const Json& layers, int out, int axes,
                       const std::vector<std::string>& outputs) {
    auto net = Registry::global().make_network("layers", {{"spatial_dims", axes},
                                                          {"in_channels", 2},
                                                          {"out_channels", out},
                                                          {"layers", layers},
                                                          {"outputs", outputs}});
    net->initialise(1);
    net->train(true);
    return net;
  };
  // What the network makes of x, and its gradient, beside those of a function.
  const auto check = [](Network& net, const at::Tensor& x,
                        const std::function<at::Tensor(const at::Tensor&)>& function) {
    const Pass got = pass(net, x, true);
    const at::Tensor leaf = x.clone().requires_grad_(), wanted = function(leaf);
    (wanted * sines(wanted.sizes(), 3)).sum().backward();
    REQUIRE(got.output.sizes() == wanted.sizes());
    CHECK(at::allclose(got.output, wanted, 1e-5, 1e-6));
    CHECK(at::allclose(got.input_gradient, leaf.grad(), 1e-5, 1e-6));
  };
  const at::Tensor x = sines({2, 2, 9, 8}, 1);

  const auto smooth = made(
      {{"out",
        {{"type", "savitzky_golay_filter"}, {"in", "image"}, {"axis", 3}, {"mode", "reflect"}}}},
      2, 2, {"out"});
  check(*smooth, x, [](const at::Tensor& t) {
    return filter_along(t, 3, savitzky_golay_kernel(5, 2), "reflect");
  });

  const auto analytic =
      made({{"out", {{"type", "hilbert_transform"}, {"in", "image"}, {"n", 8}}}}, 4, 2, {"out"});
  check(*analytic, x, [](const at::Tensor& t) {
    const at::Tensor h = hilbert_transform(t, 2, 8);
    return at::cat({h.select(-1, 0), h.select(-1, 1)}, 1);
  });

  const auto lattice =
      made({{"out", {{"type", "phl_filter"}, {"in", {"image", "image"}}, {"sigmas", {0.5, 1}}}}}, 2,
           2, {"out"});
  check(*lattice, x, [](const at::Tensor& t) { return Lattices(t.detach(), {0.5, 1}).filter(t); });

  const auto cell =
      made({{"flat", {{"type", "flatten"}, {"in", "image"}, {"voxels", 4}}},
            {"first", {{"type", "lltm"}, {"in", "flat"}, {"state_size", 3}}},
            {"second", {{"type", "lltm"}, {"in", {"flat", "first"}}, {"state_size", 3}}}},
           6, 2, {"second"});
  std::map<std::string, at::Tensor> w;
  for (const auto& [name, t] : cell->parameters()) w[name] = t.detach();
  REQUIRE(w.size() == 4);
  CHECK(w.at("first.weights").sizes() == at::IntArrayRef{9, 11});
  CHECK(w.at("first.bias").sizes() == at::IntArrayRef{1, 9});
  check(*cell, sines({3, 2, 2, 2}, 1), [&](const at::Tensor& t) {
    const at::Tensor flat = t.flatten(1), none = at::zeros({3, 3});
    const LltmState one = lltm(flat, {none, none}, w.at("first.weights"), w.at("first.bias")),
                    two = lltm(flat, one, w.at("second.weights"), w.at("second.bias"));
    return at::cat({two.h, two.cell}, 1);
  });
}

namespace {

// Of the last layer's pass; "": none.
std::string failure(const Json& layers, int channels, const at::Tensor& x, bool training = true) {
  Json params{{"spatial_dims", 2}, {"layers", layers}};
  params["in_channels"] = x.size(1);
  params["out_channels"] = channels;
  const auto net = Registry::global().make_network("layers", params);
  net->initialise(1);
  net->train(training);
  try {
    net->forward(x);
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

// Of the smaller one more would be read than there is.
TEST_CASE("layers that are put beside each other or added have one size, or the step is named") {
  const at::Tensor x = sines({2, 1, 16, 16});
  const Json half{{"type", "max_pool"}, {"in", "image"}},
      conv{{"type", "conv"}, {"in", "image"}, {"out_channels", 1}},
      normed{{"type", "norm"}, {"in", "conv"}, {"norm", "batch"}};
  const auto sum = [](const char* of) { return Json{{"type", "add"}, {"in", {of, "half"}}}; };
  const std::string sizes = "sizes [2, 1, 16, 16] and [2, 1, 8, 8] ";
  const std::string beside =
      failure({{"half", half}, {"out", {{"type", "concat"}, {"in", {"image", "half"}}}}}, 2, x);
  CHECK(beside ==
        "layers: concat of input 0 and max_pool: " + sizes + "differ in more than their channels");
  // Alone, of one step with the convolution, and with the norm.
  CHECK(failure({{"half", half}, {"out", sum("image")}}, 1, x) ==
        "layers: add of input 0 and max_pool: " + sizes + "cannot be added");
  CHECK(failure({{"half", half}, {"conv", conv}, {"out", sum("conv")}}, 1, x) ==
        "layers: conv conv of input 0 and max_pool: " + sizes + "cannot be added");
  CHECK(failure({{"half", half}, {"conv", conv}, {"norm", normed}, {"out", sum("norm")}}, 1, x) ==
        "layers: batch_norm norm of conv and max_pool: " + sizes + "cannot be added");
}

TEST_CASE("a norm of single values is refused where torch refuses it") {
  const auto of = [](const Json& norm, std::int64_t samples, std::int64_t extent, bool training) {
    return failure({{"a", {{"type", "norm"}, {"in", "image"}, {"norm", norm}}}}, 3,
                   sines({samples, 3, extent, 1}), training);
  };
  const Json group{"group", {{"num_groups", 3}}};
  CHECK(of("batch", 1, 1, true) ==
        "layers: batch_norm a needs more than one value a channel when training, got [1, 3, 1, 1]");
  CHECK(of("batch", 1, 1, false).empty());
  CHECK(of("batch", 2, 1, true).empty());
  for (const bool training : {true, false}) {
    CHECK(of("instance", 2, 1, training)
              .find("layers: instance_norm a needs more than one voxel a sample, got [") == 0);
    CHECK(of("instance", 2, 2, training).empty());
    CHECK(of(group, 1, 1, training) ==
          "layers: group_norm a needs more than one value a group, got [1, 3, 1, 1]");
    CHECK(of(group, 2, 1, training).empty());
    CHECK(of(group, 1, 2, training).empty());
  }
}

TEST_CASE("filters, whose kernels are made on the host, are not recorded") {
  const auto recordable = [](const char* type) {
    const Json params{{"spatial_dims", 2},
                      {"in_channels", 1},
                      {"out_channels", 1},
                      {"layers", {{"a", {{"type", type}, {"in", "image"}}}}}};
    return Registry::global().make_network("layers", params)->recordable();
  };
  CHECK(recordable("max_pool"));
  for (const char* type : {"gaussian_filter", "mean_filter", "median_filter", "bilateral_filter"})
    CHECK_FALSE(recordable(type));
}

TEST_CASE("sizes of pools, convolutions and filters are refused with the layer's name") {
  const auto of = [](const char* type, Json more) {
    more["type"] = type;
    more["in"] = "image";
    return refusal({{"a", more}}, {{"out_channels", more.value("out_channels", 1)}});
  };
  const auto conv = [&](Json more, const char* type = "conv") {
    more["out_channels"] = 2;
    return of(type, more);
  };
  for (const char* pool : {"max_pool", "avg_pool"}) {
    CAPTURE(pool);
    CHECK(of(pool, {{"pool_size", {3, 2}}, {"strides", 1}, {"padding", {1, 0}}}).empty());
    for (const char* list : {"pool_size", "strides", "padding"}) {
      CHECK(of(pool, {{list, {1, 1, 1}}}) ==
            "layers: layers.a: " + std::string(list) + " has one entry or 2, found 3");
      CHECK(of(pool, {{list, -1}}).find("layers.a." + std::string(list) + ": ") !=
            std::string::npos);
    }
    CHECK(of(pool, {{"pool_size", 0}}).find("layers.a.pool_size: ") != std::string::npos);
    CHECK(of(pool, {{"strides", {1, 0}}}).find("layers.a.strides: ") != std::string::npos);
    CHECK(of(pool, {{"pool_size", {4, 3}}, {"padding", 2}}) ==
          "layers: layers.a: padding is at most half of pool_size, 3, found 2");
  }
  for (const char* type : {"conv", "convolution", "residual_unit", "unet_block"}) {
    CAPTURE(type);
    for (const char* list : {"kernel_size", "strides"}) {
      CHECK(conv({{list, {1, 1, 1}}}, type) ==
            "layers: layers.a: " + std::string(list) + " has one entry or 2, found 3");
      CHECK(conv({{list, {1, 0}}}, type).find("layers.a." + std::string(list) + ": ") !=
            std::string::npos);
    }
  }
  CHECK(conv({{"dilation", {1, 1, 1}}}).find("dilation has one entry or 2, found 3") !=
        std::string::npos);
  for (const char* type : {"conv", "convolution"}) {
    CHECK(conv({{"padding", -1}}, type).find("layers.a.padding: ") != std::string::npos);
    const Json up{{"is_transposed", true}, {"strides", 2}, {"output_padding", {1, 0}}};
    CHECK(conv(up, type).empty());
    Json wrong = up;
    wrong["output_padding"] = 2;
    CHECK(conv(wrong, type)
              .find("layers.a: output_padding is of a transposed convolution and "
                    "below its stride, found 2") != std::string::npos);
    wrong = up;
    wrong["is_transposed"] = false;
    CHECK(conv(wrong, type).find("output_padding is of a transposed") != std::string::npos);
  }
  const Json three{1, 1, 1};
  const std::pair<const char*, const char*> filters[] = {
      {"bilateral_filter", "spatial_sigma"},
      {"trainable_bilateral_filter", "spatial_sigma"},
      {"gaussian_filter", "sigma"},
      {"median_filter", "radius"}};
  for (const auto& [filter, list] : filters)
    CHECK(of(filter, {{list, three}}) ==
          "layers: layers.a: " + std::string(list) + " has one entry or 2, found 3");
  CHECK(of("mean_filter", {{"size", 4}}) == "layers: layers.a: size must be odd, found 4");
  CHECK(of("savitzky_golay_filter", {{"window_length", 4}}) ==
        "layers: layers.a: window_length must be odd, found 4");
}

TEST_CASE("a network of layers that is wrong is refused with the layer's name") {
  const Json conv = {{"type", "conv"}, {"in", "image"}, {"out_channels", 2}};
  const auto with = [&](Json more) {
    Json c = conv;
    c.update(more);
    return c;
  };
  const std::pair<std::string, const char*> cases[] = {
      {refusal({{"a", with({{"type", "cnov"}})}}),
       "layers.a: no layer type is called \"cnov\"; did you mean \"conv\"?"},
      {refusal({{"a", with({{"in", "imgae"}})}}),
       "layers.a.in: no layer is called \"imgae\"; did you mean \"image\"?"},
      {refusal({{"a", with({{"kernel", 3}})}}), "layers.a: conv has no argument \"kernel\""},
      {refusal({{"a", with({{"kernel_size", "3"}})}}),
       "layers.a.kernel_size: expected int or a list of them"},
      {refusal({{"a", {{"type", "conv"}, {"in", "image"}}}}),
       "layers.a: conv needs \"out_channels\""},
      {refusal({{"a", with({{"in", "b"}})}, {"b", with({{"in", "a"}})}}),
       "it reads itself, by way of layers."},
      {refusal({{"a", conv}, {"b", conv}}), "layers.a: nobody reads it"},
      {refusal({{"a", with({{"out_channels", 3}})}}),
       "layers.a makes 3 channels, and out_channels is 2"},
      {refusal({{"a", {{"type", "add"}, {"in", "image"}}}}),
       "layers.a.in: add reads 2 or more, found 1"},
      {refusal({{"a", with({{"act", "relu"}})}}), "conv has no argument \"act\""},
      {refusal({{"a", {{"type", "act"}, {"in", "image"}, {"act", "rleu"}}}}),
       "layers.a.act: expected one of \"relu\", "},
      {refusal({{"a", {{"type", "act"}, {"in", "image"}, {"act", "RLEU"}}}}),
       "found \"RLEU\"; did you mean \"RELU\"?"},
      {refusal({{"a", with({{"type", "lltm"}, {"state_size", 1}, {"out_channels", nullptr}})}}),
       "lltm has no argument \"out_channels\""},
      {refusal({{"a", {{"type", "lltm"}, {"in", "image"}, {"state_size", 1}}}}),
       "lltm takes vectors, not an image"},
      {refusal({{"a", {{"type", "phl_filter"}, {"in", {"image", "image"}}, {"sigmas", {1, 2}}}}}),
       "sigmas: 2 for 1 features"},
      {refusal({{"a", {{"type", "hilbert_transform"}, {"in", "image"}, {"axis", 4}}}}),
       "axis: expected 2 to 3, found 4"},
      {refusal({{"a", {{"type", "savitzky_golay_filter"}, {"in", "image"}, {"order", 5}}}}),
       "order: expected less than window_length"},
      {refusal({{"a",
                 {{"type", "convolution"},
                  {"in", "image"},
                  {"out_channels", 2},
                  {"adn_ordering", "NB"}}}}),
       "layers.a: adn_ordering is made of A, D and N, found \"NB\""},
      {refusal(Json::object()), "\"layers\" is an object"},
      {refusal({{"a", conv}}, {{"outputs", {"z"}}}), "outputs: no layer is called \"z\""}};
  for (const auto& [said, text] : cases) {
    INFO(said);
    CHECK(said.find(text) != std::string::npos);
  }
  // Keys that nobody reads, as anywhere in a graph.
  CHECK(refusal({{"a", with({{"x-why", "first"}, {"ui", {{"at", {1, 2}}}}})}}) == "");
}
