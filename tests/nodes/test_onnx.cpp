// Every network of tests/golden/nets as an ONNX file, which ONNX Runtime and OpenVINO compute,
// against this build's own forward pass.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/base/error.h"
#include "engine/base/read_file.h"
#include "kernels/net/ops.h"
#include "kernels/onnx/export.h"
#include "kernels/onnx/runtime.h"
#include "nodes/network/built_network.h"
#include "tests/campaign.h"
#include "tests/nodes/filled.h"
#include "tests/temporary_folder.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

struct Case {
  std::shared_ptr<Network> network;
  BuiltNetwork& built;
  onnx::ExportOptions options;
  std::int64_t samples;

  Case(const std::string& type, const Json& c)
      : network(Registry::global().make_network(type, c["params"])),
        built(dynamic_cast<BuiltNetwork&>(*network)) {
    fill(*network);
    network->train(false);
    const auto size = c["size"].get<std::vector<std::int64_t>>();
    samples = size[0];
    options.channels = built.channels();
    options.extents.assign(size.end() - built.spatial_axes(), size.end());  // slices are samples
    options.fits = [this](const auto& extents) { return built.unfit(extents).empty(); };
  }
  std::vector<at::Tensor> images(const onnx::Exported& e, std::int64_t batch,
                                 const std::vector<std::int64_t>& extents) const {
    std::vector<std::int64_t> size{batch, options.channels};
    size.insert(size.end(), extents.begin(), extents.end());
    std::vector<at::Tensor> x;
    for (std::size_t i = 0; i < e.model.inputs.size(); ++i)
      x.push_back(sines(size, 3 * static_cast<double>(i)));
    return x;
  }
  // How far the file is from the network, in the output's largest number; over so many samples.
  double apart(const fs::path& file, const onnx::Exported& e, std::int64_t batch,
               const std::vector<std::int64_t>& extents) const {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> x = images(e, batch, extents);
    std::vector<std::string> names;
    for (const auto& port : e.model.inputs) names.push_back(port.name);
    const at::Tensor want = network->forward(x, 1).front();
    const at::Tensor got = onnx::Engine(file).run(names, x, {e.model.outputs[0].name}).front();
    REQUIRE(got.sizes() == want.sizes());
    return ((got - want).abs().max() / want.abs().max()).item<double>();
  }
};

// Networks whose steps have loops of their own that ONNX has no operators for, or draws.
const std::set<std::string> not_in_onnx{"masked_auto_encoder_vit", "reg_resnet", "voxel_morph",
                                        "vqvae"};
// OpenVINO has no MaxUnpool.
const std::set<std::string> not_in_openvino{"quicknat"};
// Networks that take other things than images of as many channels, such as times, classes,
// segmentations, vectors and bags of images: a file's inputs are images of one size.
const std::set<std::string> of_other_inputs{"controlnet",
                                            "controlnet_maisi",
                                            "diffusion_model_unet",
                                            "diffusion_model_unet_maisi",
                                            "fully_connected_net",
                                            "generator",
                                            "mil_model",
                                            "spade_autoencoder_kl",
                                            "spade_net",
                                            "spade_diffusion_model_unet",
                                            "var_fully_connected_net",
                                            "vista3d"};

void check(const std::string& type, const Json& one, bool first, const fs::path& folder) {
  CAPTURE(type);
  CAPTURE(one["params"].dump());
  Case c(type, one);
  const fs::path file = folder / "m.onnx";
  if (not_in_onnx.contains(type)) {
    CHECK_THROWS_AS(onnx::exported(c.built.net(), c.options), Error);
    return;
  }
  const onnx::Exported e = onnx::exported(c.built.net(), c.options);
  onnx::write_model(file, e.model);
  CHECK(c.apart(file, e, e.any_batch ? c.samples + 1 : 1, c.options.extents) <= 1e-4);
  if (e.any_extents) {
    auto larger = c.options.extents;
    larger[0] *= 2;
    CHECK(c.apart(file, e, 1, larger) <= 1e-4);
  }
  if (!first) return;
  onnx::write_model(folder / "again.onnx", onnx::exported(c.built.net(), c.options).model);
  CHECK(read_text(file) == read_text(folder / "again.onnx"));

  c.options.real = onnx::Type::float16;
  const onnx::Exported half = onnx::exported(c.built.net(), c.options);
  onnx::write_model(file, half.model);
  CHECK(c.apart(file, half, 1, c.options.extents) <= 2e-2);
}

// The file, its inputs and its output, for openvino_referee.py.
Json written_down(const std::string& name, const Case& c, const fs::path& folder) {
  const at::NoGradGuard no_grad;
  const auto put = [&](const std::string& what, const at::Tensor& t) {
    const at::Tensor whole = t.contiguous();
    std::ofstream(folder / (name + what), std::ios::binary)
        .write(static_cast<const char*>(whole.data_ptr()),
               static_cast<std::streamsize>(whole.nbytes()));
    return name + what;
  };
  const onnx::Exported e = onnx::exported(c.built.net(), c.options);
  onnx::write_model(folder / (name + ".onnx"), e.model);
  const auto x = c.images(e, 1, c.options.extents);
  Json inputs = Json::array();
  for (std::size_t i = 0; i < x.size(); ++i)
    inputs.push_back({{"name", e.model.inputs[i].name},
                      {"file", put("." + std::to_string(i), x[i])},
                      {"shape", x[i].sizes().vec()}});
  return {{"name", name},
          {"file", name + ".onnx"},
          {"inputs", inputs},
          {"output", e.model.outputs[0].name},
          {"want", put(".want", c.network->forward(x, 1).front())}};
}

}  // namespace

TEST_CASE("every network is the same in OpenVINO") {
  const std::string python = SLUICE_PYTHON;
  if (std::system((python + " -c 'import openvino' 2>/dev/null").c_str()) != 0) {
    MESSAGE("skipped: no OpenVINO here");
    return;
  }
  const TemporaryFolder folder;
  Json list = Json::array();
  for (const auto& file : fs::directory_iterator(SLUICE_SOURCE_DIR "/tests/golden/nets")) {
    const Json nets = golden("nets/" + file.path().filename().string());
    const std::string type = nets["type"];
    if (of_other_inputs.contains(type) || not_in_onnx.contains(type) ||
        not_in_openvino.contains(type))
      continue;
    const auto has_size = [](const Json& c) { return c.contains("size"); };
    const auto one = std::find_if(nets["cases"].begin(), nets["cases"].end(), has_size);
    if (one != nets["cases"].end())
      list.push_back(written_down(file.path().stem().string(), Case(type, *one), folder.path));
  }
  std::ofstream(folder.path / "list.json") << list;
  const fs::path said = folder.path / "said";
  REQUIRE(std::system((python + " " SLUICE_SOURCE_DIR "/tests/nodes/openvino_referee.py " +
                       folder.path.string() + " > " + said.string())
                          .c_str()) == 0);
  std::ifstream lines(said);
  std::size_t tried = 0;
  for (std::string line; std::getline(lines, line); ++tried) {
    CAPTURE(line);
    CHECK(Json::parse(line).value("apart", 1.0) <= 1e-4);
  }
  CHECK(tried == list.size());
  CHECK(tried > 40);
}

TEST_CASE("a file that takes signals is a network of signals") {
  if (onnx::runtime_library().empty()) {
    MESSAGE("skipped: no ONNX Runtime here");
    return;
  }
  const TemporaryFolder folder;
  const Json conv{{"type", "conv"}, {"in", "image"}, {"out_channels", 3}, {"strides", 2}};
  const Case c("layers", {{"params",
                           {{"spatial_dims", 1},
                            {"in_channels", 2},
                            {"out_channels", 3},
                            {"layers", {{"conv", conv}}}}},
                          {"size", {2, 2, 16}}});
  const std::string file = (folder / "signals.onnx").string();
  onnx::write_model(file, onnx::exported(c.built.net(), c.options).model);
  const auto net = Registry::global().make_network(
      "onnx", {{"file", file}, {"spatial_dims", 1}, {"in_channels", 2}, {"out_channels", 3}});
  const at::NoGradGuard no_grad;
  const at::Tensor x = sines({2, 2, 16});
  CHECK(at::allclose(net->forward(x), c.network->forward(x), 1e-4, 1e-5));
}

TEST_CASE("every network is the same in ONNX Runtime, in float32 and float16") {
  if (onnx::runtime_library().empty()) {
    MESSAGE("skipped: no ONNX Runtime here");
    return;
  }
  const TemporaryFolder folder;
  const bool all = campaign::at_length();
  int tried = 0;
  for (const auto& file : fs::directory_iterator(SLUICE_SOURCE_DIR "/tests/golden/nets")) {
    const Json nets = golden("nets/" + file.path().filename().string());
    if (of_other_inputs.contains(nets["type"].get<std::string>())) continue;
    std::set<std::size_t> seen;  // numbers of axes; in short, one network of each
    for (const Json& c : nets["cases"]) {
      if (!c.contains("size")) continue;  // names alone
      if (seen.insert(c["size"].size()).second || all) {
        CAPTURE(nets["type"].get<std::string>());
        CHECK_NOTHROW(check(nets["type"], c, seen.size() == 1, folder.path));
        ++tried;
      }
    }
  }
  CHECK(tried > 50);
}
