// `sluice doctor`: what it finds, and that it answers where nothing else works.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

json finding(const std::string& out, const std::string& name) {
  const json document = json::parse(out);
  for (const json& f : document.at("findings"))
    if (f.at("name") == name) return f;
  FAIL("no finding " << name);
  return {};
}

}  // namespace

TEST_CASE("doctor names what the machine has, as lines and as JSON") {
  const auto text = shell::run("$SLUICE doctor");
  INFO(text.out);
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  for (const char* name : {"processor", "cores", "instructions", "memory", "disk here",
                           "open files", "LibTorch", "oneTBB", "ITK", "Graphviz", "GPU", "locale"})
    CHECK(text.out.find(std::string("  ") + name + " ") != std::string::npos);

  const auto r = shell::run("$SLUICE doctor --json");
  CHECK(json::parse(r.out).at("ok") == true);
  CHECK(finding(r.out, "cores")["data"]["usable"] == std::stoi(shell::run("nproc").out));
  CHECK(finding(r.out, "LibTorch")["data"]["version"].get<std::string>().starts_with("2."));
  CHECK(finding(r.out, "memory")["data"]["total"].get<double>() > 1e8);
  CHECK(finding(r.out, "disk here")["data"]["free"].get<double>() > 0);
}

TEST_CASE("doctor counts the cores that it may use") {
  if (shell::run("taskset -c 0 true").code != 0) return;
  const auto r = shell::run("taskset -c 0 $SLUICE doctor --json");
  CHECK(finding(r.out, "cores")["data"]["usable"] == 1);
}

TEST_CASE("doctor answers without the runtime, says why and ends with 4") {
  Folder f;
  f.write("empty.so", "no library");
  for (const std::string& file : {std::string("/nowhere.so"), (f.path / "empty.so").string()}) {
    const auto r = shell::run("export SLUICE_RUNTIME=" + file + "; $SLUICE doctor --json");
    CHECK(r.code == 4);
    CHECK(json::parse(r.out).at("ok") == false);
    const json runtime = finding(r.out, "runtime");
    CHECK(runtime["level"] == "problem");
    CHECK(runtime["text"].get<std::string>().find(file) != std::string::npos);
    CHECK(finding(r.out, "cores")["level"] != "problem");
  }
}

TEST_CASE("doctor notes settings that hurt, and variables that nothing reads") {
  const auto r = shell::run(
      "export OMP_WAIT_POLICY=ACTIVE GOMP_SPINCOUNT=9 OMP_NUM_THREADS=3 OMP_PROC_BIND=close "
      "SLUICE_RUNTIEM=x "
      "LC_ALL=xx_YY; S=$SLUICE; PATH=; ulimit -n 200; $S doctor --json");
  CHECK(r.code == 0);
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS", "OMP_PROC_BIND",
                           "SLUICE_RUNTIEM", "locale", "Graphviz", "open files"}) {
    CAPTURE(name);
    const json f = finding(r.out, name);
    CHECK(f["level"] == "note");
    CHECK_FALSE(f["advice"].get<std::string>().empty());
  }
  CHECK(finding(r.out, "SLUICE_RUNTIEM")["advice"].get<std::string>().find("\"SLUICE_RUNTIME\"") !=
        std::string::npos);
  const auto fine =
      shell::run("export OMP_WAIT_POLICY=passive OMP_PROC_BIND=false; $SLUICE doctor");
  CHECK(fine.out.find("OMP_") == std::string::npos);
}

TEST_CASE("doctor says which loops convolutions take") {
  const auto level = [](const std::string& wanted) {
    const auto r = shell::run("export SLUICE_CPU=" + wanted + "; $SLUICE doctor --json");
    CHECK(r.code == 0);
    return finding(r.out, "convolutions");
  };
  CHECK(level("none")["text"] == "LibTorch's (SLUICE_CPU)");
  CHECK(level("none")["level"] == "ok");
  const json odd = level("avx1024");
  CHECK(odd["level"] == "note");
  CHECK(odd["advice"].get<std::string>().ends_with("none, avx2, avx512, avx512_bf16, amx"));
}

TEST_CASE("doctor names the GPU, and survives a driver that does not") {
  const std::string fake = "export LD_LIBRARY_PATH=" SLUICE_BINARY_DIR "/fake FAKE_CUDA=";
  const auto seen = [&](const std::string& how) {
    const auto r = shell::run(fake + how + "; $SLUICE doctor --json");
    CHECK(r.code == 0);
    return finding(r.out, "GPU");
  };
  const json good = seen("good");
  CHECK(good["level"] == "ok");
  const auto text = good["text"].get<std::string>();
  CHECK(text.starts_with("Fake 100, 80.0 GiB; "));
  CHECK(text.ends_with("CUDA 13.2"));
  const auto r = shell::run(fake + "good; $SLUICE doctor --json");
  const json kernels = finding(r.out, "CUDA kernels");
  CHECK(kernels["level"] == "note");  // the driver that is played starts no kernel
  CHECK(kernels["text"].get<std::string>().starts_with("not tried: "));
  const json hidden = seen("hidden");
  CHECK(hidden["level"] == "note");
  CHECK(hidden["text"].get<std::string>().find("cuInit says 100") != std::string::npos);
  const json crash = seen("crash");
  CHECK(crash["level"] == "note");
  CHECK(crash["text"].get<std::string>().find("ended by signal 6") != std::string::npos);
}
