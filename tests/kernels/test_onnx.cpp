// ONNX files: what is written, what a head says, files that are none. What networks become is held
// against ONNX Runtime in tests/nodes/test_onnx.cpp.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/net/builder.h"
#include "kernels/net/ops.h"
#include "kernels/onnx/export.h"
#include "kernels/onnx/provider.h"
#include "kernels/onnx/quantize.h"
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

TEST_CASE("convolutions of 8 bits stand between QuantizeLinear and DequantizeLinear") {
  const Net net = small();
  auto o = options();
  CHECK(contains(message_of([&] {
                   o.scales.emplace();
                   onnx::exported(net, o);
                 }),
                 "the scales have none for it"));
  o.scales->values["conv.weight"] = {1.0 / 127, 0};
  const auto e = onnx::exported(net, o);
  CHECK(operators(e) == std::vector<std::string>{"QuantizeLinear", "DequantizeLinear",
                                                 "DequantizeLinear", "Conv", "Relu", "Identity"});
  if (onnx::runtime_library().empty()) return;
  const at::Tensor x = at::rand({2, 2, 8, 6});
  CHECK(apart(net, e, x) < 0.02);
  CHECK(apart(net, e, x) > 1e-6);
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

TEST_CASE(
    "an engine's name tells files, GPUs, versions and sizes apart, and one that was touched is "
    "none") {
  using Size = std::vector<std::int64_t>;
  const std::string gpu = "NVIDIA H200, 9.0, driver 12080";
  const auto name = onnx::engine_name("abc", gpu, "10.13.3", "1.31.1", {});
  CHECK(name == "abc-NVIDIA_H200__9.0__driver_12080-tensorrt_10.13.3-onnxruntime_1.31.1");
  CHECK(onnx::engine_name("abc", gpu, "10.13.3", "1.31.1", Size{3, 1, 16, 8}) ==
        name + "-3-1-16-8");
  CHECK(name != onnx::engine_name("abd", gpu, "10.13.3", "1.31.1", {}));
  CHECK(name !=
        onnx::engine_name("abc", "NVIDIA H200, 9.0, driver 12090", "10.13.3", "1.31.1", {}));
  CHECK(name != onnx::engine_name("abc", gpu, "10.13.4", "1.31.1", {}));
  const TemporaryFolder folder;
  CHECK_FALSE(onnx::is_sealed(folder / "e"));
  folder.write_text("e/a.engine", "an engine");
  onnx::seal(folder / "e");
  CHECK(onnx::is_sealed(folder / "e"));
  folder.write_text("e/a.engine", "another");
  CHECK_FALSE(onnx::is_sealed(folder / "e"));
  CHECK_FALSE(std::filesystem::exists(folder / "e"));
  folder.write_text("e/a.engine", "never sealed");
  CHECK_FALSE(onnx::is_sealed(folder / "e"));
}

TEST_CASE("the range of a value is the same in any order, and cut as it is asked to be") {
  const at::Tensor x = at::cat({at::randn({3000}), at::full({1}, 40.0), at::zeros({20})});
  const auto range = [](const std::vector<at::Tensor>& parts) {
    onnx::Range r;
    for (const auto& part : parts) r.add(part);
    return r;
  };
  const onnx::Range a = range({x}),
                    b = range({x.flip(0).slice(0, 0, 500), x.flip(0).slice(0, 500)});
  using Method = onnx::Range::Method;
  for (const auto method : {Method::minmax, Method::percentile, Method::mse})
    for (const bool symmetric : {true, false})
      CHECK(a.bound(method, symmetric) == b.bound(method, symmetric));
  CHECK(a.bound(Method::minmax, true) == 40);
  CHECK(a.bound(Method::percentile, true) == 40);  // 1 of 3021 is more than 0.01 %
  CHECK(range({at::randn({100000}), at::full({1}, 40.0)}).bound(Method::percentile, true) < 6);
  CHECK(a.bound(Method::mse, true) < 40);
  const onnx::Scale s = scale_of(a, Method::minmax, true);
  CHECK(s.zero_point == 0);
  CHECK(s.scale == doctest::Approx(40.0 / 127));
  const onnx::Scale t = scale_of(range({at::tensor({-1.f, 3.f})}), Method::minmax, false);
  CHECK(t.scale == doctest::Approx(4.0 / 255));
  CHECK(t.zero_point == 64);
  CHECK(range({at::zeros({3})}).only_zeros());
  CHECK(range({at::full({2}, NAN)}).saw_nan());
}

TEST_CASE("the least squared error is that of the steps which numbers are rounded with") {
  using Method = onnx::Range::Method;
  const auto error = [](const at::Tensor& x, const onnx::Scale& s, bool symmetric) {
    const auto zero = static_cast<double>(s.zero_point);
    const at::Tensor q = x.to(at::kDouble)
                             .div(s.scale)
                             .round()
                             .add(zero)
                             .clamp(symmetric ? -127 : 0, symmetric ? 127 : 255);
    return q.sub(zero).mul(s.scale).sub(x).square().mean().item<double>();
  };
  const at::Tensor tail = -at::rand({20000}).clamp_min(1e-6).log();  // from 0 on, up to about 10
  for (const at::Tensor& x : {at::cat({tail, at::full({1}, 40.0f)}),
                              at::cat({tail, tail.neg().mul(0.05), at::full({1}, 40.0f)}),
                              at::cat({tail.neg(), at::full({1}, -40.0f)})})
    for (const bool symmetric : {true, false}) {
      CAPTURE(symmetric);
      onnx::Range range;
      range.add(x);
      const double found = error(x, scale_of(range, Method::mse, symmetric), symmetric);
      double least = 1e9;
      for (double bound = 2; bound <= 40; bound += 0.25)
        least = std::min(least, error(x, range.scale(bound, symmetric), symmetric));
      CHECK(found <= error(x, scale_of(range, Method::minmax, symmetric), symmetric));
      CHECK(found < 1.05 * least);
    }
}
