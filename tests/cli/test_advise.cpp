// `sluice advise`: what it writes is right. What it is worth is measured by tools/bench/advise.py.
#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <sstream>

#include "tests/cli/nnunet_workplace.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

// A cache after a flip: `check` refuses it, `advise` mends it.
const char* badly_written = R"({
  // of the user's own
  "run": { "epochs": 1000, "threads": 1 },
  "nodes": {
    "made":  { "type": "synthetic", "num_samples": 6, "spatial_size": [24, 24, 24],
               "rad_max": 8, "rad_min": 4 },
    "flip":  { "type": "rand_flip", "in": "made", "prob": 0.5, "spatial_axis": 0 },
    "norm":  { "type": "normalize_intensity", "in": "flip", "keys": "image" },
    "kept":  { "type": "cache", "in": "norm" },
    "batch": { "type": "batch", "in": "kept", "size": 2 }
  }
})";

}  // namespace

TEST_CASE("advise mends a graph whose cache cannot stand where it does, and says what it did") {
  Folder folder;
  const auto from = folder.write("g.json", badly_written).string();
  const auto to = (folder.path / "better.json").string();
  CHECK(shell::run("$SLUICE check " + from).code == 2);
  const auto r = shell::run("$SLUICE advise " + from + " --seconds 1 --quiet --json --write " + to);
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json j = json::parse(r.out);
  CHECK(j["misplaced"] == json{"kept"});
  CHECK(j["before"]["rate"].get<double>() > 0);
  CHECK(j["after"]["rate"].get<double>() > 0);
  CHECK(j["sources"][0]["items"] == 6);
  REQUIRE(!j["changes"].empty());
  for (const json& change : j["changes"]) {
    CHECK(change["why"] != "");
    CHECK(change["effect"] != "");
    CHECK((change.contains("predicted") || change.contains("measured")));
  }
  const std::string text = folder.read("better.json");
  CHECK(text.find("// of the user's own") != std::string::npos);
  CHECK(text.find("    \"made\":  { \"type\": \"synthetic\",") != std::string::npos);
  CHECK(shell::run("$SLUICE check " + to).code == 0);
  // The cache stands before the flip now, whatever else was found worth it.
  const auto dot = shell::run("$SLUICE dot " + to);
  CHECK(dot.out.find("\"kept\" -> \"flip\"") != std::string::npos);
}

TEST_CASE("advise writes a graph that finds its parts' files from another folder") {
  Folder folder;
  folder.write("a/p.json", R"({ "in": "x", "out": "n", "nodes": {
  "n": { "type": "normalize_intensity", "in": "x", "keys": "image" } } })");
  std::string text = badly_written;
  const std::string norm = R"({ "type": "normalize_intensity", "in": "flip", "keys": "image" })";
  text.replace(text.find(norm), norm.size(), R"({ "part": "p", "in": "flip" })");
  text.replace(text.find("  \"nodes\""), 0, "  \"parts\": { \"p\": \"p.json\" },\n");
  folder.write("a/g.json", text);
  const auto r = shell::run("cd " + folder.path.string() +
                            " && $SLUICE advise a/g.json --seconds 0.5 --quiet --write b/c.json");
  INFO(r.out, r.err);
  REQUIRE(r.code == 0);
  CHECK(folder.read("b/c.json").find("\"p\": \"../a/p.json\"") != std::string::npos);
  CHECK(shell::run("$SLUICE check " + (folder.path / "b/c.json").string()).code == 0);
}

TEST_CASE("advise says what it found where it cannot write it") {
  Folder folder;
  const auto from = folder.write("g.json", badly_written).string();
  const auto r =
      shell::run("$SLUICE advise " + from + " --seconds 0.5 --quiet --write " + from + "/b.json");
  CHECK(r.code == 4);
  CHECK(r.out.find("measured ") != std::string::npos);
  CHECK(r.out.find("written to") == std::string::npos);
}

TEST_CASE("advise does not write over a file, and says what is wrong with a graph") {
  Folder folder;
  const auto from = folder.write("g.json", badly_written).string();
  CHECK(shell::run("$SLUICE advise " + from + " --write " + from).code == 2);
  CHECK(folder.read("g.json") == badly_written);
  for (const char* memory : {"-5", "-5G", "0", "10X"}) {
    const auto odd = shell::run("$SLUICE advise " + from + " --memory " + memory);
    CHECK_MESSAGE(odd.code == 2, memory);
    CHECK_MESSAGE(odd.err.find("--memory") != std::string::npos, odd.err);
  }
  const auto wrong = folder.write("w.json", R"({"nodes": {"a": {"type": "cach"}}})").string();
  const auto r = shell::run("$SLUICE advise " + wrong);
  CHECK(r.code == 2);
  CHECK(r.err.find("did you mean \"cache\"?") != std::string::npos);
}

TEST_CASE("advise says nothing of sizes that come to no megabyte") {
  Folder folder;
  const auto from = folder
                        .write("g.json", R"({
  "run": { "epochs": 100000, "threads": 1 },
  "nodes": {
    "made": { "type": "synthetic", "num_samples": 6, "spatial_size": [8, 8, 8],
              "rad_max": 3, "rad_min": 2 },
    "norm": { "type": "normalize_intensity", "in": "made", "keys": "image" } } })")
                        .string();
  const auto r = shell::run("$SLUICE advise " + from + " --seconds 1 --quiet");
  INFO((r.out + r.err));
  REQUIRE(r.code == 0);
  CHECK(r.out.find("  made      6 samples\n") != std::string::npos);
  CHECK(r.out.find("0.00 MB") == std::string::npos);
}

TEST_CASE(
    "advise knows the size of what is done together with the next node, and each gain's base") {
  Folder folder;
  // `fit` and `crop` are one copy, which gives a small part of what a cache between them would
  // keep.
  const auto from = folder
                        .write("g.json", R"({
  "run": { "epochs": 1000, "threads": 1 },
  "nodes": {
    "made":  { "type": "synthetic", "num_samples": 6, "spatial_size": [24, 24, 24],
               "rad_max": 8, "rad_min": 4 },
    "slow":  { "type": "median_smooth", "in": "made", "keys": "image", "radius": 2 },
    "fit":   { "type": "resize_with_pad_or_crop", "in": "slow", "keys": ["image", "label"],
               "spatial_size": [32, 32, 32] },
    "crop":  { "type": "rand_spatial_crop", "in": "fit", "keys": ["image", "label"],
               "roi_size": [4, 4, 4], "random_size": false },
    "batch": { "type": "batch", "in": "crop", "size": 2 }
  }
})")
                        .string();
  const auto r = shell::run("$SLUICE advise " + from + " --seconds 1 --quiet --memory 700K");
  INFO((r.out + r.err));
  REQUIRE(r.code == 0);
  CHECK(r.out.find("unknown number of bytes") == std::string::npos);
  CHECK(r.out.find("cache behind `fit`") != std::string::npos);
  CHECK(r.out.find("takes 983.0 KB: 700.0 KB in memory, the rest on disk") != std::string::npos);
  // "about 68.6/s (+163 % of 26.1/s)"
  static const std::regex gain(R"(([0-9.]+)/s \(([+-][0-9]+) % of ([0-9.]+)/s\))"),
      first(R"(as it is +([0-9.]+)/s)");
  std::smatch as_it_is;
  REQUIRE(std::regex_search(r.out, as_it_is, first));
  int rows = 0;
  for (std::sregex_iterator row(r.out.begin(), r.out.end(), gain), end; row != end; ++row, ++rows) {
    const double rate = std::stod((*row)[1]), before = std::stod((*row)[3]);
    const double percent = 100 * (rate / before - 1);  // of rounded numbers
    CHECK(std::abs(std::stod((*row)[2]) - percent) <= 1 + 0.01 * (100 + percent));
    if (rows == 0) CHECK((*row)[3] == as_it_is[1]);
  }
  CHECK(rows > 0);
}

TEST_CASE("advise surveys the images that the source reads") {
  const nnunet_workplace::Workplace w;
  w.make();
  const auto test = [&](const std::string& name) {
    nii::write(w.at("data/imagesTs/" + name + ".nii"), {8, 8, 8}, {1, 1, 1},
               [](int x, int, int) { return float(x); });
  };
  for (const char* name : {"t_0000", "t_0001"}) test(name);
  const auto cases = [&](const std::string& split) {
    w.folder.write("g.json", R"({ "run": { "epochs": 100000000 }, "nodes": { "src": {
  "type": "nnunet", "root": "data", "keys": ["image", "image_1"], "fold": -1, "split": ")" +
                                 split + "\" } } }");
    const auto r = w.run("advise g.json --seconds 0.5 --quiet");
    INFO((r.out + r.err));
    REQUIRE(r.code == 0);
    return r.out;
  };
  const std::string training = cases("training"), test_images = cases("test");
  CHECK(training.find("4 for training, 2 for validation") != std::string::npos);
  CHECK(training.find("6 samples") != std::string::npos);
  CHECK(std::regex_search(test_images, std::regex("cases +1\n")));
  CHECK(test_images.find("1 samples") != std::string::npos);
}

TEST_CASE("advise that is ended at any moment says so by its code") {
  Folder folder;
  folder.write("g.json", badly_written);
  // Between runs too: in 2 s there are several of them. What came before the signal is whole.
  const auto r = shell::run("cd " + folder.path.string() +
                            "\nfor i in $(seq 0 5); do\n"
                            "$SLUICE advise g.json --seconds 0.5 --quiet --json > said & p=$!\n"
                            "sleep $(awk \"BEGIN { print 0.6 + $i * 0.4 }\"); kill -TERM $p; "
                            "wait $p; echo $? $(wc -c < said); done");
  std::istringstream ends(r.out);
  int code = 0, said = 0, n = 0;
  for (; ends >> code >> said; ++n) CHECK((code == 143 || (code == 0 && said > 0)));
  CHECK(n == 6);
}
