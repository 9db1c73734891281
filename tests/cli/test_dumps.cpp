// The pictures that SLUICE_DUMP_DOT_DIR asks for, and the one in the run folder.
#include <doctest/doctest.h>

#include "tests/cli/nifti.h"
#include "tests/cli/shell.h"
#include "tests/text.h"

using shell::Folder;

namespace {

struct Smoothing {
  Folder folder;
  std::string run;
  explicit Smoothing(const std::string& settings) {
    for (const char* name : {"a", "b", "c", "d"})
      folder.write("images/" + std::string(name) + ".nii", shell::nifti(16));
    folder.write("g.json", R"({ "name": "a/b c", "run": )" + settings + R"(, "nodes": {
      "files":  { "type": "file_list", "root": "images", "pattern": "*.nii" },
      "load":   { "type": "load_image", "in": "files", "keys": "image" },
      "smooth": { "type": "gaussian_smooth", "in": "load", "keys": "image" } } })");
    run = "cd " + folder.path.string() +
          " && SLUICE_DUMP_DOT_DIR=dumps $SLUICE run g.json --quiet --threads 2 ";
  }
  bool has(const std::string& file) const { return std::filesystem::exists(folder.path / file); }
};

}  // namespace

TEST_CASE("a run that ends leaves its measured picture in its folder and as a dump") {
  const Smoothing s("{}");
  const auto r = shell::run(s.run + "--out run");
  INFO(r.err);
  CHECK(r.code == 0);
  const std::string dump = s.folder.read("dumps/a_b_c.done.dot");
  CHECK(contains(dump, "% busy"));
  CHECK(contains(dump, "URL=\"../g.json#L3\""));
  CHECK(contains(s.folder.read("run/graph.dot"), "% busy"));
  CHECK(!s.has("dumps/a_b_c.failed.dot"));
  CHECK(!s.has("dumps/checkpoints"));
}

TEST_CASE("a run that fails dumps its picture with the node that failed and what waited") {
  const Smoothing s("{}");
  s.folder.write("images/b.nii", shell::nifti(16).substr(0, 900));
  const auto r = shell::run(s.run + "--out run");
  INFO(r.err);
  CHECK(r.code == 3);
  for (const char* file : {"dumps/a_b_c.failed.dot", "run/graph.dot"}) {
    const std::string dump = s.folder.read(file);
    INFO(dump);
    CHECK(contains(dump, ">failed</font>"));
    CHECK(contains(dump, "ends early"));
    const auto load = dump.find("\"load\" [id=");
    REQUIRE(load != std::string::npos);
    const std::string line = dump.substr(load, dump.find('\n', load) - load);
    CHECK(contains(line, "color=\"#C0392B\""));
    CHECK(!contains(dump, " limits: "));
  }
}

TEST_CASE("a run that stands still dumps its picture with what runs and which credits are out") {
  const Smoothing s(R"({ "watchdog_s": 0.7 })");
  s.folder.write("images/a.nii", shell::nifti(80));
  s.folder.write("more.json", R"({  // a network that takes many seconds a volume
    "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                         "channels": [128, 256], "strides": [2], "num_res_units": 2 } },
    "nodes": { "infer": { "type": "sliding_window", "in": "smooth", "net": "net",
                          "roi_size": [48, 48, 48], "sw_batch_size": 1, "overlap": 0.9 } } })");
  std::string run = s.run;
  run.replace(run.find("g.json"), 6, "g.json more.json");
  const auto r = shell::run(run + "--no-out");
  INFO(r.err);
  REQUIRE(r.code == 7);
  CHECK(contains(r.err, "stalled: no firing ended for"));
  const std::string dump = s.folder.read("dumps/a_b_c.stalled.dot");
  INFO(dump);
  CHECK(contains(dump, ">stalled</font>"));
  CHECK(contains(dump, "no firing ended for"));
  CHECK(contains(dump, "busy, 1 running"));
  CHECK_FALSE(contains(dump, "0/4 credits"));  // what runs holds at least one
  CHECK(contains(dump, "/4 credits"));
}

TEST_CASE("a dump that cannot be written is a warning") {
  const Smoothing s("{}");
  s.folder.write("dumps", "a file");
  const auto r = shell::run(s.run + "--no-out");
  CHECK(r.code == 0);
  CHECK(contains(r.err, "warning: cannot write dumps/a_b_c.done.dot\n"));
}
