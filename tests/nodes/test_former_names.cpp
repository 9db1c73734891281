// Weights whose parameters have the names of MONAI Generative 0.2, as bundles ship them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <map>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// load_old_state_dict's rules, the other way round.
std::string then(std::string name) {
  for (const char* letter : {"q", "k", "v"})
    name = replaced(name, std::string(".attn.to_") + letter, std::string(".to_") + letter);
  name = replaced(name, ".attn.out_proj.", ".proj_attn.");
  if (name.find("transformer_blocks") != std::string::npos)
    name = replaced(name, ".out_proj.", ".to_out.0.");
  return replaced(name, "postconv", "conv");
}

struct Two final : Network {
  at::Tensor first = at::zeros({2}), second = at::zeros({2});
  const char *a, *b;
  Two(const char* a_name, const char* b_name) : a(a_name), b(b_name) {}
  Tensors forward(const Tensors& x, std::size_t) override { return x; }
  Named parameters() const override { return {{a, first}, {b, second}}; }
  void initialise(std::uint64_t) override {}
};

}  // namespace

TEST_CASE("networks of MONAI Generative are loaded by the names that they had there") {
  const Json unet = {{"spatial_dims", 2},
                     {"in_channels", 2},
                     {"out_channels", 2},
                     {"channels", {4, 8}},
                     {"num_res_blocks", 1},
                     {"norm_num_groups", 2},
                     {"attention_levels", {false, true}},
                     {"num_head_channels", {0, 4}}};
  Json asks = unet;
  asks.update({{"with_conditioning", true}, {"cross_attention_dim", 3}});
  const Json vae = {{"spatial_dims", 2},   {"in_channels", 1},
                    {"out_channels", 1},   {"channels", {4, 8}},
                    {"num_res_blocks", 1}, {"attention_levels", {false, true}},
                    {"norm_num_groups", 2}};
  for (const auto& [type, params] : {std::pair<const char*, Json>{"diffusion_model_unet", unet},
                                     {"diffusion_model_unet", asks},
                                     {"autoencoder_kl", vae}}) {
    CAPTURE(type);
    CAPTURE(params.dump());
    const auto of = Registry::global().make_network(type, params),
               to = Registry::global().make_network(type, params);
    of->initialise(1);
    to->initialise(2);
    std::map<std::string, at::Tensor> file;
    std::size_t renamed = 0;
    for (const auto& [name, t] : of->parameters()) {
      renamed += then(name) != name;
      REQUIRE(file.emplace(then(name), t.detach().clone()).second);
    }
    CHECK(renamed > 4);
    fill(*to, "net", file, "old.pt");
    const auto expected = of->parameters(), found = to->parameters();
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK_MESSAGE(at::equal(expected[i].second, found[i].second), expected[i].first);
    file.erase(file.begin());
    CHECK_THROWS_AS(fill(*to, "net", file, "old.pt"), Error);
  }
}

TEST_CASE("a tensor of a file fills one parameter alone") {
  const at::Tensor some = at::ones({2});
  // The second's name was the first one's in MONAI Generative.
  Two convolutions("up.postconv.weight", "up.conv.weight");
  CHECK_THROWS_WITH_AS(fill(convolutions, "net", {{"up.conv.weight", some}}, "half.pt"),
                       "half.pt: no tensor \"up.postconv.weight\" for network \"net\"", Error);
  Two nested("weight", "net.weight");
  CHECK_THROWS_WITH_AS(fill(nested, "net", {{"net.weight", some}}, "half.pt"),
                       "half.pt: no tensor \"net.weight\" for network \"net\"", Error);
  CHECK(at::equal(convolutions.first, at::zeros({2})));
}

TEST_CASE("weights of other shapes are refused, and a part of them only where one is asked for") {
  const TemporaryFolder folder;
  const std::string file = (folder / "w.safetensors").string();
  Two net("first", "second");
  const auto said = [&](bool partial) {
    return message_of([&] { begin_with(net, "net", {.file = file, .partial = partial}, true); });
  };
  write_safetensors(file, {{"first", at::ones({3})}, {"second", at::ones({4})}});
  const std::string shapes =
      file +
      ": other shapes than network \"net\": \"first\" is [3] there and [2] here, \"second\" is "
      "[4] there and [2] here; ";
  CHECK(said(false) == shapes + "\"partial\": true leaves these as they are drawn");
  CHECK(said(true) == shapes + "none fits");
  write_safetensors(file, {{"first", at::ones({3})}, {"second", at::ones({2})}});
  CHECK(contains(said(false), "\"partial\": true"));
  CHECK(at::equal(net.second, at::zeros({2})));
  CHECK(said(true).empty());
  CHECK(at::equal(net.second, at::ones({2})));
  CHECK(at::equal(net.first, at::zeros({2})));
}

TEST_CASE("a level without attention needs no heads, and one with it does") {
  Json params = {{"spatial_dims", 2},
                 {"in_channels", 1},
                 {"out_channels", 1},
                 {"channels", {4, 8}},
                 {"num_res_blocks", 1},
                 {"norm_num_groups", 2},
                 {"attention_levels", {false, true}},
                 {"num_head_channels", {0, 4}}};
  CHECK_NOTHROW(Registry::global().make_network("diffusion_model_unet", params));
  params["num_head_channels"] = {4, 0};
  CHECK_THROWS_WITH_AS(Registry::global().make_network("diffusion_model_unet", params),
                       doctest::Contains("level 1 has attention"), Error);
  params["attention_levels"] = {false, false};
  CHECK_THROWS_WITH_AS(Registry::global().make_network("diffusion_model_unet", params),
                       doctest::Contains("is the middle's too"), Error);
}
