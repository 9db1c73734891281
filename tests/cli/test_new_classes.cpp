// `sluice new classification`: for folders of pictures and of volumes the graph that it writes is
// checked and trained with as it is.
#include <doctest/doctest.h>

#include "tests/cli/bmp.h"
#include "tests/cli/new_workplace.h"
#include "tests/cli/nii.h"

using nlohmann::json;

namespace {

std::string number(int i) { return std::to_string(i / 10) + std::to_string(i % 10); }

void make_pictures(const NewWorkplace& w, int each, bool of_one_size) {
  for (int i = 0; i < each; ++i)
    for (int c = 0; c < 3; ++c)
      w.folder.write(
          "data/" + std::string(1, static_cast<char>('c' - c)) + "/" + number(i) + ".bmp",
          bmp(40, of_one_size ? 36 : 36 + i % 5, 20 + 7 * i, c));
}

}  // namespace

TEST_CASE("new classification of pictures: a graph that trains without editing") {
  NewWorkplace w;
  make_pictures(w, 8, true);
  const json summary = w.makes_and_runs("classification");
  CHECK(summary.at("status") == "done");
  for (const char* name :
       {"step.loss", "val_auc.mean", "val_accuracy.mean", "val_accuracy.class_b"})
    CHECK(summary.at("metrics").contains(name));
  const json graph = w.graph();
  CHECK(graph.at("vars").at("classes") == json{"a", "b", "c"});
  CHECK(graph.at("models").at("net").at("type") == "densenet121");
  CHECK(graph.at("models").at("net").at("spatial_dims") == 2);
  CHECK(graph.at("models").at("net").at("in_channels") == 3);
  CHECK(graph.at("models").at("net").at("out_channels") == 3);
  CHECK(graph.at("nodes").at("step").at("lr") == 1e-5);
  CHECK_FALSE(graph.at("vars").contains("size"));
}

TEST_CASE("new classification makes pictures of several sizes one") {
  NewWorkplace w;
  make_pictures(w, 5, false);
  const json summary = w.makes_and_runs("classification");
  CHECK(summary.at("status") == "done");
  CHECK(w.graph().at("vars").at("size") == json{40, 38});
}

TEST_CASE("new classification of volumes turns them to RAS and trains in three dimensions") {
  NewWorkplace w;
  for (int i = 0; i < 5; ++i)
    for (const char* c : {"ball", "none"})
      nii::write(w.at("data/" + std::string(c) + "/" + number(i) + ".nii"), {24, 20, 22}, {1, 1, 2},
                 [&](int x, int y, int z) {
                   return float(x % 5) + (*c == 'b' && nii::in_ball({24, 20, 22}, x, y, z) ? 9 : 0);
                 });
  const json summary = w.makes_and_runs("classification");
  CHECK(summary.at("status") == "done");
  const json graph = w.graph();
  CHECK(graph.at("models").at("net").at("spatial_dims") == 3);
  CHECK(graph.at("vars").at("size") == json{32, 32, 32});  // the least that the network takes
  CHECK(graph.at("parts").at("prepare").at("nodes").contains("ras"));
}

TEST_CASE("new classification says what it saw and leaves pictures out that cannot be read") {
  NewWorkplace w;
  make_pictures(w, 8, true);
  w.folder.write("data/a/99.jpg", "no picture");
  const auto seen = w.run("new classification data");
  CHECK(seen.code == 0);
  CHECK(seen.out == w.run("new classification data").out);
  for (const char* text :
       {"a (9), b (8), c (8)", "25, 24 of them looked at", "40 x 36", "99.jpg: Not a JPEG file"})
    CHECK(seen.err.find(text) != std::string::npos);
  CHECK(w.makes_and_runs("classification").at("samples").at("quarantined").get<int>() <= 1);
}

TEST_CASE("new classification refuses what no graph can be right for") {
  NewWorkplace w;
  w.folder.write("empty/readme.txt", "");
  w.folder.write("one/a/1.bmp", bmp(32, 32, 1, 1));
  w.folder.write("mixed/a/1.bmp", bmp(32, 32, 1, 1));
  nii::write(w.at("mixed/b/1.nii"), {32, 32, 32}, {1, 1, 1}, [](int, int, int) { return 1.f; });
  w.folder.write("bad/a/1.jpg", "x");
  w.folder.write("bad/b/1.jpg", "x");
  w.refuses({{"classification empty", 3, "has no folders"},
             {"classification one", 3, "has only one folder"},
             {"classification nowhere", 3, "is no folder"},
             {"classification mixed", 3, "a network takes one kind"},
             {"classification bad", 3, "none of its images can be read"},
             {"classification one --weights run", 2, "--weights is for predictions"}});
}
