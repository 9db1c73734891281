// tools/gpu_check.py where there is no GPU, and with a GPU, PyTorch and programs that are played.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <vector>

#include "tests/cli/shell.h"

using nlohmann::json;

namespace {

// `torch` sees a GPU, and gpu_peers.py, which is known by its arguments, has measured already.
const char* const played_torch = R"(import json, os, sys
if "gpu_peers.py" in sys.argv[0]:
    what, more = sys.argv[1], sys.argv[2:]
    how = " ".join(more)
    ms = {"eager": 700, "channels-last": 350, "compile, channels-last": 280}
    for arm in {"ceilings": [{"name": "h2d_gb_s_64mib", "value": 20.0},
                             {"name": "d2d_gb_s_read_and_written", "value": 2000.0}],
                "peers": [{"name": "Adam, fused", "error": "no compiler"},
                          {"name": "Adam, foreach", "ms": 3}],
                "cores": [{"name": how, "ms": 500}], "fast": [], "predict": [],
                "small": [{"name": "small " + how, "samples_s": 14 if how == "graph" else 7}],
                "unet": [{"name": "3-D U-Net step, " + how, "samples_s": 1, "ms": ms.get(how),
                          "peak_gib": 5}]}[what]:
        print(json.dumps(arm), flush=True)
    if what == "peers":
        print("{ cut off", file=sys.stdout, flush=True)
        print("out of memory", file=sys.stderr, flush=True)
    os._exit(what == "peers")
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
__version__ = "2.11.0"
)";

// A run takes 9 s and, an epoch of 28 samples, 1 s with volumes on the device, 1.25 s without; 0.5
// s with CUDA graphs; 102 epochs of 4 volumes of 64 MiB take 0.02684 s each: 10 GB/s.
const char* const played_run = R"(#!/bin/sh
[ "$1" = run ] || { echo '{}'; exit 0; }
each=1.25 samples=28 out= epochs= loss=1.01 devices=0
for word; do
  case $word in
    *resident*) each=1 ;;
    */g.json) each=0.0268435456 samples=4 ;;
    run.epochs=*) epochs=${word#*=} ;;
    run.cuda_graphs=true) each=0.5 loss=${LOSS:-1.0} ;;
    run.devices=*) devices=${word#*=} ;;
  esac
  out=$word
done
last=$out/checkpoints/last
mkdir -p "$last"
awk -v n=$epochs -v s=$samples -v t=$each -v l=$loss -v d=$((devices ? devices : 2)) 'BEGIN {
  printf "{\"wall_s\": %.9f, \"samples\": {\"emitted\": %d}, \"metrics\": {\"step.loss\": {\"last\": %g}}, ",
    9 + n * t, n * s, l
  printf "\"weights_sha256\": \"\", \"devices\": %d}", d }' >"$out/summary.json"
# No header, and the floats 1 and 1, or 1 and 1 + 2^-8.
printf '\0\0\0\0\0\0\0\0\0\0\200\77\0\0\200\77' >"$last/model.safetensors"
[ $devices = 1 ] || printf '\0\0\0\0\0\0\0\0\0\0\200\77\0\200\200\77' >"$last/model.safetensors"
awk -v n=$epochs -v t=$each 'BEGIN {
  for (i = 1; i <= n; ++i) ends = ends (i > 1 ? ", " : "") sprintf("%.9f", 9 + i * t)
  print "{\"gpus\": [{\"memory_mb\": 4294.967296}], \"epoch_ends_s\": [" ends "]}" }' >"$out/profile.json"
)";

// A folder of programs as a bundle has it; `run.sh` is what stands for the binary.
struct Bundle {
  shell::Folder folder;
  explicit Bundle(const std::string& run) {
    const std::string ran = "#!/bin/sh\necho 'test cases: 5 | 5 passed | 0 failed'\n";
    program("cuda_tests", ran);
    program("emulated_cuda_tests", ran);
    program("nodes_tests", ran);
    program("bench_cuda",
            "#!/bin/sh\necho '[{\"name\": \"Adam, 100 tensors\", \"ms\": 2, \"gb_s\": 500}]'\n");
    program("bench_image_filters",
            "#!/bin/sh\necho '{\"name\": \"median 48\", \"ms\": '$([ $1 = gpu ] && echo 2 || "
            "echo 50)'}'\n");
    program("run.sh", run);
  }
  void program(const std::string& name, const std::string& text) const {
    folder.write(name, text);
    shell::fs::permissions(folder.path / name, shell::fs::perms::owner_all);
  }
  shell::Result check(const std::string& before, const std::string& behind = "") const {
    const std::string out = (folder.path / "found.json").string();
    return shell::run(before +
                      " " SLUICE_PYTHON " " SLUICE_SOURCE_DIR "/tools/gpu_check.py --bin " +
                      folder.path.string() + " --out " + out + " " + behind);
  }
  // The same where `torch` sees a GPU.
  shell::Result check_gpu(const std::string& before = "", const std::string& behind = "") const {
    folder.write("played/torch/__init__.py", played_torch);
    return check(
        "PYTHONPATH=" + (folder.path / "played").string() + " PATH=/usr/bin:/bin " + before,
        behind);
  }
  json found() const { return json::parse(folder.read("found.json")); }
};

}  // namespace

TEST_CASE("gpu_check compares the U-Net step's arms, the way there and the ceiling") {
  const Bundle bundle(played_run);
  const auto r = bundle.check_gpu();
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  const json found = bundle.found();
  INFO(found.dump(1));
  const json& alone = found.at("unet").at(0);
  CHECK(alone.at("samples_s").get<double>() == doctest::Approx(28));
  CHECK(alone.at("ms").get<double>() == doctest::Approx(250));
  CHECK(alone.at("device_gib").get<double>() == doctest::Approx(4));
  CHECK(found.at("end_to_end").get<double>() == doctest::Approx(0.8));
  CHECK(found.at("to_device").at("gb_s").get<double>() == doctest::Approx(10));
  CHECK(found.at("to_device").at("of_h2d").get<double>() == doctest::Approx(0.5));
  const json& ratio = found.at("ratios").at(0);
  CHECK(ratio.at("peer") == "3-D U-Net step, compile, channels-last");
  CHECK(ratio.at("ratio").get<double>() == doctest::Approx(280. / 250));
  CHECK(r.out.find("end to end / the step alone: 0.800") != std::string::npos);
  CHECK(r.out.find("device 4.0 GiB") != std::string::npos);
  CHECK(r.out.find("to_device: 10.0 GB/s, 0.50 of the ceiling") != std::string::npos);
  CHECK(found.at("tests").at("passed") == 5);
  for (const json& one : found.at("golden")) CHECK(one.at("passed") == 5);
  for (const json& one : found.at("both")) CHECK(one.at("cpu") == one.at("gpu"));
  CHECK(found.at("cores").at(0).at("peer_ms") == 500);
  CHECK(found.at("shared").at("places") == 2);
  CHECK(found.at("shared").at("distance").get<double>() ==
        doctest::Approx(std::sqrt(0.5) / 256).epsilon(1e-6));
  CHECK(r.out.find("multi_gpu_test: 2 GPUs: weights 2.8e-03 from one place's") !=
        std::string::npos);
  // 28 samples/s queued, 56 recorded; PyTorch 7 and 14.
  CHECK(found.at("recorded").at("of_queued").get<double>() == doctest::Approx(2));
  CHECK(found.at("recorded").at("of_best_peer").get<double>() == doctest::Approx(4));
  CHECK(r.out.find("a small step as a CUDA graph, of queued: 2.00") != std::string::npos);
  // An arm failed, and the process after another.
  CHECK(found.at("peers").at(0).at("error") == "no compiler");
  CHECK(found.at("peers").at(2).at("error") == "1: out of memory");
  CHECK(found.at("ratios").at(1).at("ratio").get<double>() == doctest::Approx(1.5));
  CHECK(found.at("ours").at(0).at("of_copy").get<double>() == doctest::Approx(0.25));
  CHECK(found.at("ratios").back().at("name") == "median 48");
  CHECK(found.at("ratios").back().at("ratio").get<double>() == doctest::Approx(25));
}

TEST_CASE("gpu_check refuses a part that there is not before it begins") {
  const Bundle bundle(played_run);
  const auto r = bundle.check_gpu("", "--only doctor kernal");
  CHECK(r.code == 2);
  CHECK(r.err.find("no part kernal; there are ceilings tests both ") != std::string::npos);
  CHECK_FALSE(shell::fs::exists(bundle.folder.path / "found.json"));
  REQUIRE(bundle.check_gpu("", "--only to_device").code == 0);
  const json found = bundle.found();
  CHECK(found.contains("to_device"));
  CHECK_FALSE(found.contains("doctor"));
}

TEST_CASE("gpu_check fails where its tests launch nothing on a GPU, or are not there") {
  const Bundle bundle(played_run);
  bundle.program("cuda_tests",
                 "#!/bin/sh\necho 'no GPU here: nothing was launched'\n"
                 "echo 'test cases: 5 | 5 passed | 0 failed'\n");
  bundle.program("nodes_tests", "#!/bin/sh\necho 'test cases: 0 | 0 passed | 0 failed'\n");
  CHECK(bundle.check_gpu("", "--only tests").code == 1);
  const std::string failed = bundle.found().at("failed").dump();
  CHECK(failed.find("cuda_tests launched nothing") != std::string::npos);
  CHECK(failed.find("a device's kernels*: there is no such test") != std::string::npos);
}

TEST_CASE("gpu_peers goes on behind an arm that fails") {
  const auto r = shell::run("cd " SLUICE_SOURCE_DIR "/tools && CUDA_VISIBLE_DEVICES= " SLUICE_PYTHON
                            " -Bc 'import gpu_peers as p; p.torch.optim.Adam = None; "
                            "p.optimizers(8); p.arm(\"group\", p.losses, \"no size\")'");
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  std::istringstream lines(r.out);
  std::vector<json> arms;
  for (std::string line; std::getline(lines, line);) arms.push_back(json::parse(line));
  REQUIRE(arms.size() == 5);
  for (const std::size_t i : {0, 2, 4}) CHECK(arms[i].contains("error"));
  for (const std::size_t i : {1, 3}) CHECK(arms[i].at("ms").get<double>() > 0);
}

TEST_CASE("gpu_check writes what it has where a step raises") {
  const Bundle bundle(played_run);
  bundle.program("bench_cuda", "#!/bin/sh\necho no JSON\n");
  const auto r = bundle.check_gpu();
  CHECK(r.code == 1);
  const json found = bundle.found();
  CHECK(found.at("failed") == json{"our kernels"});
  CHECK(found.at("ours").at(0).at("error").get<std::string>().find("JSONDecodeError") == 0);
  CHECK(found.at("to_device").contains("of_h2d"));
  CHECK(found.contains("ratios"));
}

TEST_CASE("gpu_check's limit ends what a step has started, and leaves what that printed") {
  const Bundle bundle(played_run);
  bundle.program("cuda_tests", R"(#!/bin/sh
sleep 600 & echo $! >"$0.child"
echo 'test cases: 5 | 4 passed | 1 failed'
wait
)");
  const auto gone = [&] {
    std::ifstream file(
        "/proc/" + std::to_string(std::stol(bundle.folder.read("cuda_tests.child"))) + "/status");
    const std::string status{std::istreambuf_iterator<char>(file), {}};
    return status.empty() || status.find("State:\tZ") != std::string::npos;
  };
  SUBCASE("its own") {
    const auto r = bundle.check_gpu("", "--seconds 8");
    CHECK(r.code == 0);
    const json found = bundle.found();
    CHECK(found.at("tests").at("status") == "timeout");
    CHECK(found.at("tests").at("passed") == 4);
    CHECK(found.at("unet").at(0).at("error").get<std::string>().find("no time left") !=
          std::string::npos);
  }
  SUBCASE("or another's") {
    CHECK(bundle.check_gpu("timeout 4").code == 124);
    CHECK(bundle.found().at("ceilings").contains("h2d_gb_s_64mib"));
  }
  CHECK(gone());
}

TEST_CASE("gpu_check fails where a recorded step comes to another loss") {
  const Bundle bundle(played_run);
  const auto r = bundle.check_gpu("LOSS=2");
  CHECK(r.code == 1);
  CHECK(bundle.found().at("failed").dump().find("CUDA graphs: loss 2") != std::string::npos);
}

TEST_CASE("gpu_check names the run that failed, and measures nothing by it") {
  const Bundle bundle(
      "#!/bin/sh\n[ \"$1\" != run ] || { echo no memory >&2; exit 5; }\necho '{}'\n");
  const auto r = bundle.check_gpu();
  CHECK(r.code == 1);
  const json found = bundle.found();
  CHECK(found.at("unet").at(0).at("error") == "RuntimeError: 5: no memory");
  CHECK(found.at("failed").at(0) == "fast_integration.json");
  CHECK_FALSE(found.contains("end_to_end"));
}

TEST_CASE("gpu_check runs the U-Net step's graphs where there is no GPU") {
  // The real binary, but for what takes long and is tested elsewhere.
  const Bundle bundle(
      "#!/bin/sh\n[ \"$1\" = run ] || { echo '{}'; exit 0; }\nexec " SLUICE_BINARY_DIR
      "/sluice \"$@\"\n");
  const auto r = bundle.check("CUDA_VISIBLE_DEVICES= SLUICE_DEVICE=none");
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  const json found = bundle.found();
  CHECK(found.at("gpu").is_null());
  CHECK(found.at("emulated").at("passed") == 5);
  CHECK(found.at("recorded_loss").at("same_weights") == true);
  for (const json& arm : found.at("unet")) {
    INFO(arm.dump());
    CHECK(arm.contains("samples_s"));
  }
  for (const json& arm : found.at("small")) {  // PyTorch's, here on the CPU, where others work too
    INFO(arm.dump());
    CHECK((arm.contains("samples_s") || arm.at("error") == "timeout: "));
  }
}

TEST_CASE("what a bundle carries looks for its libraries beside itself, wherever it was built") {
  // bundle.sh shortens these entries and cannot lengthen them.
  for (const char* file : {"libsluice_runtime.so", "libsluice_cuda_graph.so", "cuda_tests"}) {
    const auto r = shell::run("readelf -d " SLUICE_BINARY_DIR "/" + std::string(file));
    if (r.code != 0) continue;  // built without CUDA
    INFO(file << r.out);
    CHECK(r.out.find("$ORIGIN:$ORIGIN/lib") != std::string::npos);
  }
}
