// ONNX files: what is written, what a head says, files that are none. What networks become is held
// against ONNX Runtime in tests/nodes/test_onnx.cpp.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/net/builder.h"
#include "kernels/net/ops.h"
#include "kernels/onnx/export.h"
#include "kernels/onnx/runtime.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using doctest::Contains;

namespace {

// conv ─ batch norm ─ relu ─ and what `more` puts behind it.
Net small(const std::function<Value(const Value&)>& more = {}) {
  Builder b;
  const Value x = b.input(2, 2);
  Value y = conv(b.scope() / "conv", x, 3, {.normed = true});
  y = relu(norm(b.scope() / "norm", y));
  Net net = b.finish({more ? more(y) : y}, {});
  net.initialise(1);
  for (auto& buffer : net.buffers)
    if (buffer.name.ends_with("running_mean")) buffer.tensor.fill_(0.25);
  return net;
}

onnx::ExportOptions options(std::vector<std::int64_t> extents = {8, 6}) {
  onnx::ExportOptions o;
  o.channels = 2;
  o.extents = std::move(extents);
  return o;
}

std::vector<std::string> operators(const onnx::Exported& e) {
  std::vector<std::string> all;
  for (const auto& node : e.model.nodes) all.push_back(node.op);
  return all;
}

// How far the file's answer is from the network's.
double apart(const Net& net, const onnx::Exported& e, const at::Tensor& x) {
  const TemporaryFolder folder;
  onnx::write_model(folder / "m.onnx", e.model);
  const auto y = onnx::Engine(folder / "m.onnx").run({"image"}, {x}, {e.model.outputs[0].name});
  const at::NoGradGuard no_grad;
  return (y[0] - const_cast<Net&>(net).forward({x}, 1, false, 0)[0]).abs().max().item<double>();
}

}  // namespace

TEST_CASE("batch norm stands in the convolution upstream, where nothing else reads that") {
  const Net net = small();
  CHECK(operators(onnx::exported(net, options())) ==
        std::vector<std::string>{"Conv", "Relu", "Identity"});
  auto o = options();
  o.fold = false;
  CHECK(operators(onnx::exported(net, o)) ==
        std::vector<std::string>{"Conv", "BatchNormalization", "Relu", "Identity"});
}

TEST_CASE("a head says what the file takes and gives") {
  const TemporaryFolder folder;
  auto e = onnx::exported(small(), options());
  e.model.metadata["spacing"] = "1 x 1";
  onnx::write_model(folder / "m.onnx", e.model);
  const onnx::Head head = onnx::read_head(folder / "m.onnx");
  CHECK(head.opset == onnx::opset);
  CHECK(head.operators == std::vector<std::string>{"Conv", "Identity", "Relu"});
  CHECK(head.metadata.at("spacing") == "1 x 1");
  REQUIRE(head.inputs.size() == 1);
  REQUIRE(head.inputs[0].extents.size() == 4);
  CHECK(head.inputs[0].extents[0].symbol == "N");
  CHECK(head.inputs[0].extents[1].number == 2);
  CHECK(head.inputs[0].extents[2].symbol == "image_X");
  CHECK(head.outputs[0].extents[1].number == 3);
}

TEST_CASE("a file that is cut off anywhere is no ONNX file") {
  const TemporaryFolder folder;
  onnx::write_model(folder / "m.onnx", onnx::exported(small(), options()).model);
  const std::string whole = [&] {
    std::ifstream in(folder / "m.onnx", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    std::ofstream(folder / "cut.onnx", std::ios::binary) << whole.substr(0, n);
    try {
      const onnx::Head head = onnx::read_head(folder / "cut.onnx");
      // The fields behind the graph may be missing whole: opset and metadata.
      CHECK(head.outputs.size() == 1);
      CHECK(head.opset == 0);
    } catch (const DataError& e) {
      CHECK(std::string(e.what()).find("is no ONNX file") != std::string::npos);
    }
  }
}

TEST_CASE("tensors too large for one message stand in a file beside it") {
  if (onnx::runtime_library().empty()) return;
  const Net net = small();
  const auto e = onnx::exported(net, options());
  const TemporaryFolder folder;
  onnx::write_model(folder / "m.onnx", e.model, /*limit=*/16);
  CHECK(std::filesystem::file_size(folder / "m.onnx.data") == (3 * 2 * 9 + 3) * sizeof(float));
  const at::Tensor x = at::randn({1, 2, 8, 6});
  const at::NoGradGuard no_grad;
  const auto y = onnx::Engine(folder / "m.onnx").run({"image"}, {x}, {"logits"});
  CHECK(at::allclose(y[0], const_cast<Net&>(net).forward({x}, 1, false, 0)[0], 1e-4, 1e-5));
}

TEST_CASE("numbers that follow from an image's size follow it in the file") {
  if (onnx::runtime_library().empty()) return;
  const Net net = small([](const Value& x) {
    return x.op("windows", [](In t) {
      const auto n = t[0].size(0), c = t[0].size(1), h = t[0].size(2), w = t[0].size(3);
      const at::Tensor parts = t[0].reshape({n, c, h / 2, 2, w / 2, 2}).permute({0, 2, 4, 3, 5, 1});
      const at::Tensor joined = parts.reshape({n, h / 2, w / 2, 4 * c}).softmax(-1);
      return joined.permute({0, 3, 1, 2}).narrow(1, 0, c);
    });
  });
  const auto e = onnx::exported(net, options());
  CHECK(e.any_batch);
  CHECK(e.any_extents);
  CHECK(apart(net, e, at::randn({1, 2, 8, 6})) < 1e-5);
  CHECK(apart(net, e, at::randn({3, 2, 12, 20})) < 1e-5);
}

TEST_CASE("a network that does other things with other sizes is bound to one") {
  if (onnx::runtime_library().empty()) return;
  const Net net = small([](const Value& x) {
    return x.op("odd", [](In t) { return t[0].size(2) > 8 ? t[0].relu() * 2 : t[0] + 1; });
  });
  const auto e = onnx::exported(net, options());
  CHECK(e.any_batch);
  CHECK_FALSE(e.any_extents);
  CHECK(e.bound_by == "it does other things with other sizes");
  CHECK(apart(net, e, at::randn({2, 2, 8, 6})) < 1e-5);
}

TEST_CASE("what ONNX has no words for is refused by step and operation") {
  const Net unknown = small([](const Value& x) {
    return x.op("sorted", [](In t) { return std::get<0>(t[0].sort(1)); });
  });
  CHECK_THROWS_WITH_AS(onnx::exported(unknown, options()),
                       Contains("(sorted): LibTorch's operation sort has no form here"), Error);
  // Numbers that LibTorch does not see made would be written as constants.
  const Net own = small([](const Value& x) {
    return x.op("own", [](In t) {
      if (t[0].is_meta()) return at::empty_like(t[0]);
      const at::Tensor x = t[0].contiguous();
      return at::from_blob(x.data_ptr<float>(), x.sizes()).clone();
    });
  });
  CHECK_THROWS_WITH_AS(onnx::exported(own, options()),
                       Contains("(own): is more than operations of LibTorch"), Error);
}

TEST_CASE("numbers beyond float16 are refused by name") {
  Net net = small();
  net.parameters[0].tensor.data().fill_(1e6);
  auto o = options();
  o.real = onnx::Type::float16;
  CHECK_THROWS_WITH_AS(onnx::exported(net, o),
                       Contains("conv.weight has numbers beyond float16's range"), Error);
}
