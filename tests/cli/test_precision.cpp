// "precision": "auto", and what a run says of it.
#include <doctest/doctest.h>

#include "engine/base/cpu.h"
#include "tests/cli/tiny_training.h"

using namespace sluice;

TEST_CASE("auto is the machine's precision, which the run's graph and summary name") {
  const TinyTraining t;
  const bool has_bfloat16 = cpu_level() >= CpuLevel::avx512_bf16;
  const auto run = [&](const std::string& cpu, const std::string& more) {
    const auto r =
        shell::run(t.in_folder + "export SLUICE_CPU=" + cpu + "; $SLUICE run g.json " + more);
    INFO(r.err);
    CHECK(r.code == 0);
    return r.err;
  };
  const std::string as_auto = "--set +models.net.precision=auto --out ";
  const std::string said = run("avx2", as_auto + "a");
  CHECK(said.find("network \"net\" computes in float32") != std::string::npos);
  CHECK(t.json_of("a/summary.json").at("precision") == nlohmann::json{{"net", "float32"}});
  CHECK(t.json_of("a/graph.json").at("models").at("net").at("precision") == "float32");
  run("avx512_bf16", as_auto + "b");
  CHECK(t.json_of("b/summary.json").at("precision").at("net") ==
        (has_bfloat16 ? "bfloat16" : "float32"));
  // Goes on as it began, on a machine that would choose otherwise.
  CHECK(shell::run(t.in_folder + "export SLUICE_CPU=avx512_bf16; $SLUICE run --set run.epochs=3 "
                                 "--resume a")
            .code == 0);
  CHECK(t.json_of("a/summary.json").at("precision").at("net") == "float32");
}
