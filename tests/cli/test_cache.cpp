// Disk caches as runs use them: shared, killed, listed, pruned; and the graphs of graphs/datasets.
#include <doctest/doctest.h>

#include <random>
#include <set>

#include "tests/campaign.h"
#include "tests/cli/nii.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

namespace fs = std::filesystem;

// Volumes that take a while to prepare, cached on disk.
struct Filling {
  Folder folder;
  int volumes;
  std::string cache = (folder.path / "cache").string();

  explicit Filling(int n, int size = 32) : volumes(n) {
    for (int i = 0; i < n; ++i)
      nii::write(folder.path / "data" / ("v" + std::to_string(i) + ".nii"), {size, size, size},
                 {1, 1, 1},
                 [i](int x, int y, int z) { return float((x * 7 + y * 5 + z * 3 + i) % 97); });
    folder.write("g.json", R"({ "nodes": {
      "list": { "type": "file_list", "root": ")" +
                               (folder.path / "data").string() + R"(",
                "pattern": "*.nii" },
      "load": { "type": "load_image", "in": "list", "keys": "image" },
      "blur": { "type": "gaussian_smooth", "in": "load", "sigma": 3 },
      "norm": { "type": "normalize_intensity", "in": "blur" },
      "kept": { "type": "cache", "in": "norm", "store": "disk", "dir": ")" +
                               cache + R"(" } } })");
  }
  std::string command() const {
    return "$SLUICE run " + (folder.path / "g.json").string() + " --quiet --no-out";
  }
  json listed() const {
    const auto r = shell::run("$SLUICE cache list " + cache + " --verify --json");
    INFO(r.out, r.err);
    REQUIRE(!r.out.empty());
    return json::parse(r.out);
  }
};

}  // namespace

TEST_CASE("a run that is killed while it fills a cache leaves no damaged entry") {
  const Filling f(60, 48);
  std::mt19937 random(9);
  int damaged = 0, partial = 0;
  for (campaign::Cases kills("cache_kills", 5, 100); kills.next();) {
    fs::remove_all(f.cache);
    const std::string some = std::to_string(1 + random() % 40);
    shell::run(f.command() + " --threads 1 & p=$!; for i in {1..4000}; do n=$(find " + f.cache +
               " -path '*/[0-9a-f][0-9a-f]/*' | wc -l); [ $n -lt " + some +
               " ] && kill -0 $p 2>/dev/null || break; sleep 0.003; done; kill -9 $p; wait $p");
    const json list = f.listed();
    damaged += static_cast<int>(list.at("damaged").size());
    const int entries = list.at("entries");
    partial += entries > 0 && entries < f.volumes ? 1 : 0;
    if (kills.index() % 10 != 0) continue;
    const auto rest = shell::run(f.command());
    INFO(rest.err);
    CHECK(rest.code == 0);
    CHECK(f.listed().at("entries") == f.volumes);
    CHECK(fs::is_empty(f.cache + "/new"));
  }
  MESSAGE(partial << " in the middle: " << damaged << " damaged entries");
  CHECK(damaged == 0);
}

TEST_CASE("two runs fill one folder at the same time") {
  Filling f(24);
  const auto both =
      shell::run(f.command() + " & a=$!; " + f.command() + " & b=$!; wait $a && wait $b");
  INFO(both.err);
  CHECK(both.code == 0);
  const json list = f.listed();
  CHECK(list.at("entries") == f.volumes);
  CHECK(list.at("damaged").empty());
  CHECK(list.at("made_by").at(0).at("nodes") == "load_image, gaussian_smooth, normalize_intensity");
}

TEST_CASE("cache list and prune say what they find, and touch no other folder") {
  Filling f(4);
  REQUIRE(shell::run(f.command()).code == 0);
  auto r = shell::run("$SLUICE cache list " + f.cache);
  CHECK(r.code == 0);
  CHECK(r.out.find("4 entries") != std::string::npos);
  CHECK(r.out.find("load_image, gaussian_smooth") != std::string::npos);

  for (const auto& e : fs::recursive_directory_iterator(f.cache))
    if (e.path().filename().string().size() == 32) {
      std::fstream file(e.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(500);
      file.put('x').put('y').put('z');
      break;
    }
  r = shell::run("$SLUICE cache list " + f.cache + " --verify");
  CHECK(r.code == 3);
  CHECK(r.err.find("not as it was written") != std::string::npos);
  r = shell::run("$SLUICE cache prune " + f.cache + " --verify --json");
  CHECK(r.code == 0);
  CHECK(json::parse(r.out).at("damaged") == 1);
  CHECK(json::parse(r.out).at("left").at("entries") == 3);
  r = shell::run("$SLUICE cache prune " + f.cache + " --days 1 && $SLUICE cache prune " + f.cache +
                 " --budget 300K --json");
  CHECK(r.code == 0);
  CHECK(r.out.find("removed 0 entries") == 0);
  CHECK(r.out.find("\"entries\": 2") != std::string::npos);

  r = shell::run("$SLUICE cache prune " + f.cache + " --budget -5");
  CHECK(r.code == 2);
  CHECK(r.err.find("--budget") != std::string::npos);
  r = shell::run("$SLUICE cache prune " + f.cache);
  CHECK(r.code == 2);
  CHECK(r.err.find("--budget, --days or --verify says what to remove") != std::string::npos);
  r = shell::run("$SLUICE cache prune " + (f.folder.path / "data").string() + " --budget 0");
  CHECK(r.code == 2);
  CHECK(r.err.find("is no folder of a cache") != std::string::npos);
  // The folder that is meant unless one is named, before any cache has been kept there.
  const std::string none =
      "XDG_CACHE_HOME=" + (f.folder.path / "none").string() + " $SLUICE cache ";
  r = shell::run(none + "list");
  CHECK(r.code == 0);
  CHECK(r.out.find("none/sluice: no cache has been kept there yet") != std::string::npos);
  CHECK(json::parse(shell::run(none + "list --json").out).at("entries") == 0);
  CHECK(json::parse(shell::run(none + "prune --budget 0 --json").out).at("left").at("bytes") == 0);
  CHECK(shell::run("$SLUICE cache lst " + f.cache).err.find("did you mean \"list\"?") !=
        std::string::npos);
  r = shell::run("LD_DEBUG=files $SLUICE cache list " + f.cache +
                 " 2>&1 | grep -c 'libtorch\\|libsluice_runtime' || true");
  CHECK(r.out == "0\n");
}

TEST_CASE("the data set graphs differ in one node") {
  json first;
  int graphs = 0;
  for (const auto& e : fs::directory_iterator(SLUICE_SOURCE_DIR "/graphs/datasets")) {
    json g = json::parse(std::ifstream(e.path()), nullptr, true, true);
    CHECK(g.at("name") == e.path().stem().string());
    const bool device = g.at("name") == "device";
    g.erase("name");
    g.erase("desc");
    json& nodes = g.at("nodes");
    if (device) {  // the node that moves its samples stands before it, and else after `batch`
      CHECK(nodes.at("kept").at("in") == "gpu");
    } else {
      CHECK(nodes.at("gpu").at("in") == "batch");
      CHECK(nodes.at("fwd").at("in") == "gpu");
      nodes.at("fwd").at("in") = "batch";
    }
    nodes.erase("gpu");
    nodes.erase("kept");
    if (graphs++ == 0) first = g;
    CHECK(g == first);
  }
  CHECK(graphs == 7);
}

TEST_CASE(
    "check says what a cache will hold where sizes are known, and nothing where they are not") {
  const auto check = [](const std::string& more) {
    return shell::run("$SLUICE check " SLUICE_SOURCE_DIR "/graphs/datasets/smart.json " + more).out;
  };
  CHECK(check("").find("  kept keeps about 1.2 MB an item, 75.5 MB for 64\n") != std::string::npos);
  CHECK(check("--set +nodes.train.limit=10").find("11.8 MB for 10\n") != std::string::npos);
  CHECK(check("--set nodes.kept.in=norm").find("keeps") == std::string::npos);
}

TEST_CASE("the data set graphs train the same weights, and the second run loads nothing") {
  const std::string data = shell::test_data();
  if (data.empty()) {
    MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    return;
  }
  Folder f;
  const auto train = [&](const std::string& name, const std::string& out) {
    const auto r = shell::run("XDG_CACHE_HOME=" + f.path.string() +
                              " $SLUICE run " SLUICE_SOURCE_DIR "/graphs/datasets/" + name +
                              ".json --quiet --set vars.root=" + data +
                              "/Task04_Hippocampus --set run.epochs=2 --set +nodes.train.limit=24"
                              " --set models.net.channels=[4,8,8] --out " +
                              (f.path / out).string());
    INFO(name, r.err);
    REQUIRE(r.code == 0);
    return json::parse(f.read(out + "/summary.json")).at("weights_sha256").get<std::string>();
  };
  const auto loaded = [&](const std::string& out) {
    return json::parse(f.read(out + "/profile.json")).at("nodes").at("load").at("items").get<int>();
  };
  std::set<std::string> weights;
  for (const char* name : {"dataset", "cache", "persistent", "thread_buffer", "device"})
    weights.insert(train(name, name));
  CHECK(loaded("dataset") == 48);
  // One that is asked for again while it is still being computed is computed again.
  for (const char* name : {"cache", "persistent"}) {
    CHECK(loaded(name) >= 24);
    CHECK(loaded(name) < 40);
  }
  weights.insert(train("persistent", "again"));
  CHECK(loaded("again") == 0);
  weights.insert(train("lmdb", "lmdb"));
  CHECK(loaded("lmdb") == 0);  // its entries are the same
  CHECK(weights.size() == 1);
  train("smart", "smart");
  CHECK(loaded("smart") < 40);
}
