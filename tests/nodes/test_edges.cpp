// Arrays as small as they can be: MONAI 1.6.1's values (tests/golden/edges.json).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "golden.h"
#include "kernels/augment/pending.h"
#include "kernels/image/affine.h"
#include "tests/nodes/drive.h"

using namespace sluice;

static at::Tensor tensor_of(const Json& j) {
  const auto values = j["values"].get<std::vector<double>>();
  return at::tensor(values, at::kDouble)
      .to(at::kFloat)
      .view(j["shape"].get<std::vector<std::int64_t>>());
}

TEST_CASE("axes of one voxel, arrays without spatial axes, signals and no component are MONAI's") {
  std::size_t axes_of_one = 0;
  const Json all = golden("edges.json");
  for (const Json& c : all["cases"]) {
    Json params = c["params"];
    params["keys"] = "image";
    const Affine affine = c.contains("affine") ? c["in"]["affine"].get<Affine>() : identity_affine;
    INFO(c.dump().substr(0, 200));
    const auto out = drive(c["type"], params, {sample_of("image", tensor_of(c["in"]), affine)});
    REQUIRE(out.size() == 1);
    const at::Tensor want = tensor_of(c["want"]), got = out[0].tensor("image");
    REQUIRE(got.sizes().vec() == want.sizes().vec());
    CHECK((got.to(at::kFloat) - want).abs().max().item<double>() < 1e-5);
    if (c.contains("affine"))
      CHECK(near(out[0].at("image").geometry().affine, c["affine"].get<Affine>(), 1e-6));
    for (const std::int64_t n : want.sizes()) axes_of_one += n == 1;
  }
  CHECK(axes_of_one == 33);
}

TEST_CASE("jobs of a device do to signals what the host does") {
  int done = 0;
  const Json all = golden("edges.json");
  for (const Json& c : all["cases"]) {
    const Spec& spec = *Registry::global().catalogue().find(c["type"].get<std::string>());
    if (c["in"]["shape"].size() != 2 || spec.fusing == Fuses::no || spec.off_device(c["params"]))
      continue;
    Json params = c["params"];
    params["keys"] = "image";
    INFO(c.dump().substr(0, 200));
    host_plays_device(true);
    const auto out = drive(c["type"], params, {sample_of("image", tensor_of(c["in"]))});
    host_plays_device(false);
    const at::Tensor want = tensor_of(c["want"]), got = out.at(0).tensor("image");
    REQUIRE(got.sizes().vec() == want.sizes().vec());
    CHECK((got - want).abs().max().item<double>() < 1e-5);
    ++done;
  }
  CHECK(done > 40);
}

TEST_CASE("signals have no cubic mode, no second axis and no quarter turns") {
  const Sample signal = sample_of("image", at::ones({2, 11}));
  for (const char* type : {"zoom", "resize"}) {
    Json params = {{"keys", "image"}, {"mode", "bicubic"}};
    params[type == std::string("zoom") ? "zoom" : "spatial_size"] = 2;
    CHECK_THROWS_WITH_AS(drive(type, params, {signal}), "bicubic is for images of two axes",
                         DataError);
  }
  CHECK_THROWS_AS(drive("flip", {{"keys", "image"}, {"spatial_axis", 1}}, {signal}), DataError);
  CHECK_THROWS_WITH_AS(drive("rotate90", {{"keys", "image"}}, {signal}),
                       "field \"image\" has shape [2, 11]; needed is [C, X, Y] or [C, X, Y, Z] "
                       "without an empty axis",
                       DataError);
  CHECK_THROWS_WITH_AS(
      drive("flip", {{"keys", "image"}}, {sample_of("image", at::ones({2}))}),
      "field \"image\" has shape [2]; needed is [C, X], [C, X, Y] or [C, X, Y, Z] without an empty "
      "axis",
      DataError);
}
