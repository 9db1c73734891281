// Saliency: MONAI's maps of small networks, and what one image's map does not depend on.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/state/resource.h"
#include "golden.h"
#include "tests/nodes/filled.h"

using namespace sluice;

namespace {

struct Shown {
  OpenContext context;
  std::shared_ptr<Network> net;
  Shown(const std::string& type, const Json& params)
      : net(Registry::global().make_network(type, params)) {
    fill(*net);
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", net);
  }
  at::Tensor map(const at::Tensor& image, Json params = Json::object()) {
    params["net"] = "net";
    return Driver("saliency", params, context)
        .fire({sample_of("image", image)})
        .samples()
        .at(0)
        .tensor("saliency");
  }
};

void check_map(const at::Tensor& map, const Json& expected) {
  CHECK(map.sum().item<double>() == doctest::Approx(expected["sum"].get<double>()).epsilon(1e-4));
  CHECK(map.abs().sum().item<double>() ==
        doctest::Approx(expected["abs"].get<double>()).epsilon(1e-4));
  CHECK(difference(map.flatten().slice(0, 0, map.numel(), 37), expected["some"]) < 2e-4);
}

const Json small_resnet{
    {"spatial_dims", 2}, {"in_channels", 1}, {"out_channels", 4}, {"widen_factor", 0.125}};

}  // namespace

TEST_CASE("Maps of what an answer comes from are MONAI's") {
  for (const Json& net : golden("inferers.json")["saliency"]) {
    CAPTURE(net["type"]);
    Shown shown(net["type"], net["params"]);
    const at::Tensor x = sines(net["size"].get<std::vector<std::int64_t>>());
    Json first;
    for (Json c : net["cases"]) {
      CAPTURE(c.dump().substr(0, 100));
      const Json expected = c["map"];
      c.erase("map");
      // A norm and its activation are one step, and what is pooled needs no name.
      if (c["target_layers"] == "class_layers.relu") c["target_layers"] = nullptr;
      if (first.is_null() && c["cam_name"] == "CAM") first = c;
      c["postprocessing"] = "none";
      check_map(shown.map(x, c), expected);
    }
    check_map(shown.map(x, {{"target_layers", first["target_layers"]}}), net["turned"]);
  }
}

TEST_CASE("An image's map is its own, whatever stands beside it in the batch or was done before") {
  Shown shown("resnet18", small_resnet);
  const at::Tensor x = sines({5, 1, 64, 64});
  const at::Tensor all = shown.map(x, {{"postprocessing", "none"}});
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(at::allclose(shown.map(x.narrow(0, i, 1), {{"postprocessing", "none"}}),
                       all.narrow(0, i, 1), 1e-4, 1e-6));
  CHECK(at::equal(shown.map(x, {{"postprocessing", "none"}}), all));
  const at::Tensor turned = shown.map(x);
  CHECK(at::equal(turned.flatten(1).amin(1), at::zeros(5)));
  CHECK(at::equal(turned.flatten(1).amax(1), at::ones(5)));
  // The weights that are trained have no gradient of it.
  for (const auto& [name, p] : shown.net->parameters()) CHECK_FALSE(p.grad().defined());
}

TEST_CASE("A segmentation shows what one of its classes comes from") {
  Shown shown("unet", {{"spatial_dims", 2},
                       {"in_channels", 1},
                       {"out_channels", 3},
                       {"channels", {4, 8, 8}},
                       {"strides", {2, 2}}});
  const at::Tensor map = shown.map(sines({2, 1, 16, 24}),
                                   {{"class_idx", 2}, {"target_layers", "model.1.submodule.0"}});
  CHECK(map.sizes() == at::IntArrayRef{2, 1, 16, 24});
  CHECK(map.isfinite().all().item<bool>());
}

TEST_CASE("Saliency refuses what it cannot show") {
  const at::Tensor x = sines({1, 1, 64, 64});
  Shown resnet("resnet18", small_resnet);
  const auto refuses = [&](Shown& shown, const Json& params, const char* why) {
    CHECK_THROWS_WITH_AS(shown.map(x, params), doctest::Contains(why), Error);
  };
  refuses(resnet, {{"class_idx", 4}}, "has 4 classes");
  refuses(resnet, {{"target_layers", "layer5"}},
          "target_layers: no layer is called \"layer5\"; did you mean \"layer");
  refuses(resnet, {{"target_layers", "fc"}}, "gives 0 spatial axes");
  refuses(resnet, {{"cam_name", "CAM"}, {"target_layers", "layer3"}},
          "no linear layer \"fc\" of 32 inputs");
  Shown unet("unet", {{"spatial_dims", 2},
                      {"in_channels", 1},
                      {"out_channels", 2},
                      {"channels", {4, 8}},
                      {"strides", {2}}});
  refuses(unet, {{"class_idx", 0}}, "no layer of this network makes an image one vector");
  refuses(unet, {{"target_layers", "model.0"}}, "answers voxel by voxel");
  struct Bare final : Network {
    Tensors forward(const Tensors& all, std::size_t) override { return all; }
    Named parameters() const override { return {}; }
    void initialise(std::uint64_t) override {}
  };
  resnet.context.resources->add("net", std::make_shared<Bare>());
  refuses(resnet, Json::object(), "layers of network \"net\" cannot be seen");
}
