// Arrays as small as they can be: MONAI 1.6.1's values (tests/golden/edges.json).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/run/registry.h"
#include "golden.h"
#include "kernels/image/affine.h"
#include "tests/nodes/drive.h"

using namespace sluice;

static at::Tensor tensor_of(const Json& j) {
  const auto values = j["values"].get<std::vector<double>>();
  return at::tensor(values, at::kDouble)
      .to(at::kFloat)
      .view(j["shape"].get<std::vector<std::int64_t>>());
}

TEST_CASE("axes of one voxel, arrays without spatial axes and no component to keep are MONAI's") {
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
  CHECK(axes_of_one == 32);
}
