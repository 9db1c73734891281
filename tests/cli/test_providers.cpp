// ONNX Runtime's providers, asked of a library that writes down what it is called with.
#include "tests/cli/packaged.h"
#include "tests/text.h"

namespace {

const std::string fake = "export SLUICE_ONNXRUNTIME=" SLUICE_BINARY_DIR
                         "/fake_tensorrt/libfake_onnxruntime.so "
                         "FAKE_ONNXRUNTIME_LOG=$PWD/log\nrm -f log\n";
const std::string with_tensorrt =
    fake + "export LD_LIBRARY_PATH=" SLUICE_BINARY_DIR "/fake_tensorrt:$LD_LIBRARY_PATH\n";

// The package's graph with the exported file for its network.
std::string predict(const std::string& provider) {
  return "$SLUICE run p/graph.json --quiet --overwrite --out out --set vars.package=p --set "
         "vars.images=data/images --set nodes.infer.sw_batch_size=3 --set "
         "'models.net={\"type\": \"onnx\", \"file\": \"p/model.onnx\", \"in_channels\": 1, "
         "\"out_channels\": 2, \"spatial_dims\": 3, \"engine_cache\": \"engines\", \"provider\": "
         "\"" +
         provider + "\"}'\n";
}

}  // namespace

TEST_CASE("TensorRT is told windows' size, batches and where its engine is kept") {
  const Packaged p;
  const auto first = p.sh(with_tensorrt + predict("tensorrt"));
  INFO(first.err);
  REQUIRE(first.code == 0);
  const std::string log = p.folder.read("log");
  INFO(log);
  CHECK(contains(log, "option trt_engine_cache_enable=1\n"));
  CHECK(contains(log, "option trt_timing_cache_enable=1\n"));
  CHECK(contains(log, "option trt_profile_min_shapes=image:1x1x16x16x16\n"));
  CHECK(contains(log, "option trt_profile_opt_shapes=image:3x1x16x16x16\n"));
  CHECK(contains(log, "option trt_profile_max_shapes=image:3x1x16x16x16\n"));
  CHECK(contains(log, "TensorRT\n"));
  CHECK(contains(log, "Run 3\n"));
  CHECK_FALSE(contains(log, "Run 1\n"));  // a smaller batch is filled up
  CHECK(contains(first.err, "building an engine for "));
  const auto second = p.sh(with_tensorrt + predict("tensorrt"));
  CHECK(second.code == 0);
  CHECK_FALSE(contains(second.err, "building an engine"));
  const auto damaged =
      p.sh(with_tensorrt + "for f in engines/*/fake.engine; do echo x > $f; done\n" +
           predict("tensorrt"));
  CHECK(damaged.code == 0);
  CHECK(contains(damaged.err, "building an engine for "));
}

TEST_CASE("TensorRT builds anew for images of another size") {
  const Packaged p;
  // In whatever order they come, a size that comes again finds its engine.
  for (const std::string name : {"a2", "a3", "a4", "a5"})
    nii::write_pair(p.at("data/images/" + name + ".nii"), "",
                    name < "a4" ? std::array{16, 16, 16} : std::array{16, 18, 20}, {1, 1, 1});
  std::string whole = predict("tensorrt");
  whole.insert(whole.find(" --set"), " --set 'nodes.infer.roi_size=[0, 0, 0]'");
  for (const int times : {0, 1}) {
    const auto r = p.sh(with_tensorrt + whole + "grep -c CreateSession log");
    INFO(r.err);
    CHECK(r.out == "2\n");
    CHECK(contains(r.err, "building an engine for ") == (times == 0));
  }
}

TEST_CASE("auto goes on with the next provider and says so once") {
  const Packaged p;
  const auto cuda = p.sh(with_tensorrt + "export FAKE_NO_TENSORRT=1\n" + predict("auto"));
  INFO(cuda.err);
  CHECK(cuda.code == 0);
  CHECK(contains(cuda.err, "provider \"tensorrt\" does not open: "));
  CHECK(contains(p.folder.read("log"), "CUDA\n"));
  const auto cpu = p.sh(fake + "export FAKE_NO_CUDA=1\n" + predict("auto"));
  INFO(cpu.err);
  CHECK(cpu.code == 0);
  CHECK(contains(cpu.err, "provider \"cuda\" does not open: "));
  CHECK_FALSE(contains(cpu.err, "tensorrt"));  // without its library it is not tried
}

TEST_CASE("a provider that is not there is refused with what it needs") {
  const Packaged p;
  p.refused(fake + predict("tensorrt"), 2, "provider \"tensorrt\" needs libnvinfer.so.10");
  REQUIRE(p.sh("$SLUICE calibrate p/graph.json --set vars.package=p --set vars.images=data/images "
               "-o s.json && $SLUICE export run --precision int8 --scales s.json -o p/model.onnx")
              .code == 0);
  p.refused(fake + predict("cuda"), 2, "computes with 8 bits, for which provider \"cuda\" has no");
  if (p.sh(std::string(SLUICE_PYTHON) + " -c 'import onnxruntime as o, sys; "
                                        "sys.exit(\"CUDAExecutionProvider\" in "
                                        "o.get_available_providers())'")
          .code != 0)
    return;
  REQUIRE(p.sh("$SLUICE export run -o p/model.onnx").code == 0);
  p.refused(predict("cuda"), 2, "was built without provider \"cuda\": pip install onnxruntime-gpu");
}

TEST_CASE("a file that takes so many samples at a time predicts any number of them") {
  const Packaged p;
  if (p.sh(SLUICE_PYTHON " -c 'import onnx, onnxruntime'").code != 0) {
    MESSAGE("skipped: no onnx and onnxruntime");
    return;
  }
  const auto r = p.sh(predict("cpu") + "mv out any\n" SLUICE_PYTHON R"( - <<'E'
import onnx
m = onnx.load('p/model.onnx')
for port in (m.graph.input[0], m.graph.output[0]):
    port.type.tensor_type.shape.dim[0].dim_value = 2
onnx.save(m, 'p/model.onnx')
E
)" + predict("cpu") + "diff -r any/segmentations out/segmentations");
  INFO(r.err);
  INFO(r.out);
  CHECK(r.code == 0);
}

TEST_CASE(
    "an ONNX Runtime that is too old, an operator that it lacks, two inputs and other extents are "
    "refused") {
  const Packaged p;
  p.refused(fake + "export FAKE_OLD=1\n" + predict("cpu"), 2, "1.12 or newer is needed");
  if (p.sh(SLUICE_PYTHON " -c 'import onnx, onnxruntime'").code != 0) {
    MESSAGE("skipped: no onnx and onnxruntime");
    return;
  }
  const auto changed = [&](const std::string& how) {
    const auto r = p.sh("cp -n p/model.onnx whole.onnx; " SLUICE_PYTHON R"( - <<'E'
import onnx
m = onnx.load('whole.onnx')
)" + how + R"(
onnx.save(m, 'p/model.onnx')
E)");
    INFO(r.err);
    REQUIRE(r.code == 0);
  };
  changed("m.graph.node[0].op_type = 'Konv'");
  p.refused(predict("cpu"), 2, "Konv");
  p.refused(predict("cpu"), 2, "p/model.onnx: ONNX Runtime ");
  changed("m.graph.input.append(onnx.helper.make_tensor_value_info('more', 1, [1]))");
  p.refused(predict("cpu"), 2, "takes 2 inputs; one image is given");
  // Windows of another size than the file was made for are not filled up or cut in silence.
  changed(
      "d = m.graph.input[0].type.tensor_type.shape.dim\n"
      "for a in (2, 3, 4): d[a].dim_value = 24");
  p.refused(predict("cpu"), 2, ", 1, 24, 24, 24], got [3, 1, 16, 16, 16]: `sluice export --size`");
}
