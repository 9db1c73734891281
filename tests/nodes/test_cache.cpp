// Caches: what they serve is what would have been computed, whatever was edited, damaged or shared.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <thread>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/cache/cache_folder.h"
#include "engine/session/differences.h"
#include "engine/state/cache_tiers.h"
#include "engine/state/packed_sample.h"
#include "kernels/files/file_io.h"
#include "run_graph.h"
#include "tests/campaign.h"
#include "tests/cli/nifti.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace fs = std::filesystem;

namespace {

// `n` small volumes in a folder, and graphs that cache them on disk.
struct Bench {
  TemporaryFolder folder;

  explicit Bench(int n = 4) {
    for (int i = 0; i < n; ++i) write_volume(i, i);
  }

  fs::path volume(int i) const {
    return folder / ((i < 10 ? "v0" : "v") + std::to_string(i) + ".nii");
  }
  fs::path cache() const { return folder / "cache"; }

  void write_volume(int i, int seed) const {
    std::string file = shell::nifti(6);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (std::size_t at = 352; at < file.size(); at += 4) {
      const float value = static_cast<float>(random() % 100);
      std::memcpy(file.data() + at, &value, sizeof value);
    }
    std::ofstream(volume(i), std::ios::binary) << file;
  }

  // {"store": ...} for the cache; null: none.
  Json graph(const Json& cache_params, int epochs = 2) const {
    Json cached = {{"type", "cache"}, {"in", "blur"}};
    if (cache_params.is_null()) cached["disabled"] = true;
    if (cache_params.is_object()) cached.update(cache_params);
    return {
        {"run", {{"epochs", epochs}}},
        {"nodes",
         {{"list", {{"type", "file_list"}, {"root", folder.path.string()}, {"pattern", "v*.nii"}}},
          {"load", {{"type", "load_image"}, {"in", "list"}, {"keys", "image"}}},
          {"scale",
           {{"type", "scale_intensity_range"}, {"in", "load"}, {"a_min", 0}, {"a_max", 50}}},
          {"blur", {{"type", "gaussian_smooth"}, {"in", "scale"}, {"sigma", 0.5}}},
          {"kept", cached},
          {"end", {{"type", "collect"}, {"in", "kept"}}}}}};
  }
  Json on_disk(const Json& more = Json::object()) const {
    Json params = {{"store", "disk"}, {"dir", cache().string()}};
    params.update(more);
    return params;
  }
};

std::vector<CachedFile> entries(const Bench& b) { return cached_files(b.cache()); }

// One random change of what stands before the cache.
class Editor {
 public:
  Editor(Bench& bench, unsigned seed) : bench_(bench), random_(seed) {}

  void edit(Json& g) {
    Json& nodes = g["nodes"];
    switch (pick(9)) {
      case 0:
        nodes["scale"]["a_max"] = 40 + 5 * pick(3);
        break;
      case 1:
        nodes["scale"]["clip"] = pick(2) == 1;
        break;
      case 2:
        nodes["blur"]["sigma"] = Json::array({0.5 + 0.25 * pick(3), 0.5, 1.0});
        break;
      case 3:  // a node more or less
        if (nodes.contains("norm")) {
          nodes.erase("norm");
          first(nodes)["in"] = "load";
        } else {
          first(nodes)["in"] = "norm";
          nodes["norm"] = {{"type", "normalize_intensity"}, {"in", "load"}};
        }
        break;
      case 4: {  // the other way round
        const bool scaled_first = nodes["kept"]["in"] == "blur";
        const std::string before = first(nodes)["in"];
        nodes[scaled_first ? "blur" : "scale"]["in"] = before;
        nodes[scaled_first ? "scale" : "blur"]["in"] = scaled_first ? "blur" : "scale";
        nodes["kept"]["in"] = scaled_first ? "scale" : "blur";
        break;
      }
      case 5:  // other bytes of the same length, with the old time
        touch(pick(4), [&](int i) { bench_.write_volume(i, 100 + pick(3)); });
        break;
      case 6:  // another file under the name
        touch(pick(4), [&](int i) {
          fs::copy_file(bench_.volume((i + 1) % 4), bench_.folder / "x",
                        fs::copy_options::overwrite_existing);
          fs::rename(bench_.folder / "x", bench_.volume(i));
        });
        break;
      case 7:
        touch(pick(4), [&](int i) { bench_.write_volume(i, i); });
        break;
      default:
        nodes["load"]["dtype"] = pick(2) == 1 ? "float64" : "float32";
    }
  }

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

 private:
  static Json& first(Json& nodes) {
    return nodes[nodes["kept"]["in"] == "blur" ? "scale" : "blur"];
  }

  template <class F>
  void touch(int i, F&& change) {
    const auto time = fs::last_write_time(bench_.volume(i));
    change(i);
    fs::last_write_time(bench_.volume(i), time);
  }

  Bench& bench_;
  std::mt19937 random_;
};

Sample random_sample(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<std::int64_t>(random() % unsigned(n)); };
  const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                                  at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};
  Sample sample;
  sample.name = "case " + std::to_string(pick(100));
  for (auto n = pick(3); n > 0; --n) sample.members.push_back("member " + std::to_string(n));
  for (int k = 0; k < 3; ++k) {
    std::vector<std::int64_t> shape;
    for (std::int64_t d = pick(5); d > 0; --d) shape.push_back(pick(40) == 0 ? 0 : 1 + pick(17));
    const std::int64_t values = std::int64_t{1} << pick(18);
    at::Tensor t = at::randint(values, shape, at::kDouble).to(types[pick(10)]);
    if (pick(3) == 0 && t.is_floating_point()) t = at::randn(shape).to(t.scalar_type());
    if (pick(4) == 0 && t.is_floating_point() && t.numel() > 2) {
      t.view(-1)[0] = std::numeric_limits<double>::quiet_NaN();
      t.view(-1)[1] = -0.0;
    }
    if (pick(3) == 0 && t.dim() > 1) t = t.transpose(0, 1);
    if (pick(4) == 0 && t.dim() > 1 && t.size(1) > 2) t = t.narrow(1, 1, 1);
    auto meta = std::make_shared<Meta>();
    meta->path = pick(2) == 1 ? "/data/v0.nii" : "";
    meta->has_affine = pick(2) == 1;
    for (double& v : meta->affine) v = double(pick(1000)) / 7 - 50;
    if (pick(2) == 1)
      meta->history.push_back({"spacing", meta->affine, {3, 4}, {1e300, -0.0, 1 / 3.0}});
    sample.set("field" + std::to_string(k),
               pick(9) == 0 ? Field(at::Tensor(), meta) : Field(t, meta));
  }
  return sample;
}

}  // namespace

TEST_CASE("a sample comes back from a cache's file bit for bit") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path / "c");
  std::mt19937 random(3);
  Sample record;
  auto meta = std::make_shared<Meta>();
  meta->path = "/data/v0.nii";
  record.set("image", Field(at::Tensor(), meta));
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Sample sample = random_sample(random);
    const auto packed = pack(sample, record);
    REQUIRE(packed);
    REQUIRE(cache.write({1, i}, packed->header, packed->parts));
    const auto entry = cache.read({1, i});
    REQUIRE(entry);
    const SamplePtr back = unpack(*entry, record);
    REQUIRE(back);
    CHECK(same_sample(sample, *back));
    CHECK(sample.members == back->members);
  }
  CHECK(cache.figures().entries == 300);
  CHECK(cache.figures().damaged == 0);
}

TEST_CASE("labels and 16-bit images take the bytes of their values") {
  const auto bytes = [](const at::Tensor& t) {
    std::size_t n = 0;
    const auto packed = pack(sample_of("image", t), Sample());
    for (const auto& part : packed->parts) n += part.size();
    return n;
  };
  const std::int64_t n = 64 * 64 * 64;
  CHECK(bytes(at::randint(2, {1, 64, 64, 64}).to(at::kFloat)) < n / 8 + 200);
  CHECK(bytes(at::randint(200, {1, 64, 64, 64}).to(at::kFloat)) < n + 2000);
  // int16 times a slope
  const at::Tensor ct = at::randint(-1000, 3000, {1, 64, 64, 64}).to(at::kFloat) * 0.37f - 4.2f;
  CHECK(bytes(ct) < 2 * n + 20'000);
  CHECK(bytes(at::randn({1, 64, 64, 64})) == 4 * n);
}

TEST_CASE("a path in an entry is the record's of today, and only then the path of then") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  const auto at_path = [](const std::string& path) {
    auto meta = std::make_shared<Meta>();
    meta->path = path;
    Sample s;
    s.set("image", Field(at::zeros({2}), meta));
    return s;
  };
  Sample sample = at_path("/old/a.nii");
  sample.set("made", at_path("/other/b.nii").at("image"));
  const auto packed = pack(sample, at_path("/old/a.nii"));
  REQUIRE(cache.write({7, 7}, packed->header, packed->parts));
  const SamplePtr back = unpack(*cache.read({7, 7}), at_path("/new/a.nii"));
  REQUIRE(back);
  CHECK(back->at("image").geometry().path == "/new/a.nii");
  CHECK(back->at("made").geometry().path == "/other/b.nii");
}

TEST_CASE("samples are the same with and without a cache, wherever it is, on any threads") {
  Bench b;
  const Collected expected = run_graph(b.graph(nullptr, 3), 1);
  REQUIRE(expected.failure.empty());
  REQUIRE(expected.epochs.size() == 3);
  const Json stores[] = {{{"store", "memory"}},
                         b.on_disk(),
                         b.on_disk({{"store", "auto"}, {"budget", 2000}}),
                         {{"store", "memory"}, {"num", 2}},
                         b.on_disk({{"verify", true}, {"rate", 0.5}})};
  for (const Json& store : stores)
    for (const int threads : {1, 2, 8}) {
      INFO(store.dump(), " ", threads);
      const Collected got = run_graph(b.graph(store, 3), threads);
      CHECK(got.failure.empty());
      CHECK(same_samples(expected, got));
    }
}

TEST_CASE(
    "a disk cache serves the next run, and no edit in front of it brings back an old sample") {
  Bench b;
  Json g = b.graph(b.on_disk(), 1);
  Editor editor(b, 11);
  std::uint64_t hits = 0, stale = 0;
  std::uint64_t edits = 0;
  for (campaign::Cases cases("cache_edits", 100, 1000); cases.next(); ++edits) {
    Json plain = g;
    plain["nodes"]["kept"] = {
        {"type", "cache"}, {"in", g["nodes"]["kept"]["in"]}, {"disabled", true}};
    const Collected cached = run_graph(g), computed = run_graph(plain);
    REQUIRE(cached.failure.empty());
    stale += same_samples(cached, computed) ? 0 : 1;
    hits += cached.held.at("kept").hits;
    CHECK(cached.held.at("kept").damaged == 0);
    editor.edit(g);
  }
  MESSAGE(edits << " edits: " << stale << " stale, " << hits << " of " << 4 * edits << " served");
  CHECK(stale == 0);
  CHECK(hits > 4 * edits / 10);
  CHECK(hits < 4 * edits);
}

TEST_CASE("a volume of two files is computed anew where the file of its voxels is another") {
  Bench b(0);
  for (int i = 0; i < 4; ++i) {
    const std::string name = "v" + std::to_string(i);
    b.folder.write_text(name + ".mhd",
                        "ObjectType = Image\nBinaryData = True\nNDims = 3\nDimSize = 6 6 "
                        "6\nElementType = MET_UCHAR\n"
                        "ElementDataFile = " +
                            name + ".raw\n");
    b.folder.write(name + ".raw", Bytes(216, static_cast<std::uint8_t>(i)));
  }
  Json g = b.graph(b.on_disk(), 1), plain = b.graph(nullptr, 1);
  for (Json* graph : {&g, &plain}) (*graph)["nodes"]["list"]["pattern"] = "v*.mhd";
  const Collected first = run_graph(g);
  REQUIRE(first.failure.empty());
  CHECK(same_samples(first, run_graph(plain)));
  b.folder.write("v2.raw", Bytes(216, 77));
  const Collected again = run_graph(g);
  CHECK(same_samples(again, run_graph(plain)));
  CHECK(again.held.at("kept").hits == 3);
}

TEST_CASE("names, places and the list's own settings leave the entries valid") {
  Bench b;
  Json g = b.graph(b.on_disk(), 1);
  run_graph(g);
  g["nodes"]["list"].update({{"shuffle", true}, {"limit", 3}});
  g["nodes"]["smooth"] = g["nodes"]["blur"];
  g["nodes"].erase("blur");
  g["nodes"]["kept"]["in"] = "smooth";
  g["nodes"]["scale"]["a_max"] = 50.0;
  fs::create_directory(b.folder / "moved");
  for (int i = 0; i < 4; ++i) fs::rename(b.volume(i), b.folder / "moved" / b.volume(i).filename());
  g["nodes"]["list"]["root"] = (b.folder / "moved").string();
  const Collected again = run_graph(g);
  CHECK(again.failure.empty());
  CHECK(again.held.at("kept").hits == 3);
  CHECK(again.fired.at("load") == 0);
  for (const auto& sample : again.epochs.at("end/0"))
    CHECK(contains(sample->at("image").geometry().path, "/moved/"));
}

TEST_CASE("a damaged entry is computed again, counted and replaced") {
  Bench b;
  const Json g = b.graph(b.on_disk(), 1);
  const Collected first = run_graph(g);
  std::mt19937 random(5);
  for (const CachedFile& f : entries(b)) {
    Bytes bytes = bytes_of(f.path);
    bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    std::ofstream(f.path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }
  const Collected second = run_graph(g), third = run_graph(g);
  CHECK(second.held.at("kept").damaged == 4);
  CHECK(second.held.at("kept").hits == 0);
  CHECK(same_samples(first, second));
  CHECK(third.held.at("kept").hits == 4);
  CHECK(third.held.at("kept").damaged == 0);
  CHECK(same_samples(first, third));
}

TEST_CASE("an entry under another entry's name is not served") {
  Bench b;
  const Json g = b.graph(b.on_disk(), 1);
  const Collected first = run_graph(g);
  const auto files = entries(b);
  REQUIRE(files.size() == 4);
  fs::copy_file(files[0].path, files[1].path, fs::copy_options::overwrite_existing);
  const Collected second = run_graph(g);
  CHECK(second.held.at("kept").damaged == 1);
  CHECK(same_samples(first, second));
}

TEST_CASE("a disk cache keeps to its budget, and what older runs left makes room") {
  Bench b;
  const auto bytes = [&] {
    std::uint64_t n = 0;
    for (const CachedFile& f : entries(b)) n += f.bytes;
    return n;
  };
  run_graph(b.graph(b.on_disk(), 1));
  const std::uint64_t all = bytes();
  Json g = b.graph(b.on_disk({{"budget", all + 100}}), 1);
  g["nodes"]["scale"]["a_max"] = 77;
  CHECK(run_graph(g).held.at("kept").refused == 0);
  CHECK(bytes() <= all + 100);
  CHECK(run_graph(g).held.at("kept").hits == 4);

  // Half of it: two stay, the others are computed in every epoch.
  g["nodes"]["kept"]["budget"] = all / 2 + 100;
  g["nodes"]["scale"]["a_max"] = 78;
  const Collected half = run_graph(g);
  CHECK(half.held.at("kept").entries == 2);
  CHECK(half.held.at("kept").refused == 2);
  CHECK(bytes() <= all / 2 + 100);
  // Without a budget, so that what is computed meanwhile does not push out what is yet to be found.
  g["nodes"]["kept"].erase("budget");
  CHECK(run_graph(g).held.at("kept").hits == 2);
}

TEST_CASE("rate and num keep the first items of the list, also where the source is shuffled") {
  Bench b(7);
  const auto held = [&](const Json& params) {
    Json g = b.graph(params, 2);
    g["nodes"]["list"]["shuffle"] = true;
    const Collected got = run_graph(g);
    CHECK(got.held.at("kept").refused == 0);
    CHECK(got.fired.at("load") == 14 - got.held.at("kept").hits);
    return got.held.at("kept").entries;
  };
  CHECK(held({{"num", 3}}) == 3);
  CHECK(held({{"rate", 0.5}}) == 3);  // int(3.5)
  CHECK(held({{"rate", 0.5}, {"num", 2}}) == 2);
  CHECK(held({{"num", 100}}) == 7);
  CHECK(held({{"rate", 0}}) == 0);
  CHECK(held(b.on_disk({{"num", 4}})) == 4);
}

TEST_CASE("auto fills memory and then the disk, and each keeps to its budget") {
  Bench b;
  const std::uint64_t one = 6 * 6 * 6 * 4;
  const Json params = b.on_disk({{"store", "auto"}, {"budget", 2 * one}, {"disk_budget", 10'000}});
  const Collected got = run_graph(b.graph(params, 3));
  CHECK(got.held.at("kept").entries == 4);
  CHECK(got.held.at("kept").refused == 0);
  CHECK(entries(b).size() == 2);
  // Without a bound everything is on disk, so the next run loads nothing.
  run_graph(b.graph(b.on_disk({{"store", "auto"}}), 1));
  CHECK(entries(b).size() == 4);
  CHECK(run_graph(b.graph(b.on_disk({{"store", "auto"}}), 1)).fired.at("load") == 0);
}

TEST_CASE("a file that cannot be kept is no error, and one that cannot be read says so itself") {
  Bench b;
  fs::remove(b.volume(2));
  fs::create_symlink("nowhere", b.volume(2));
  const Collected got = run_graph(b.graph(b.on_disk(), 1));
  CHECK(contains(got.failure, "v02.nii"));
  CHECK(contains(got.failure, "load"));
}

TEST_CASE("a quarantined item is not written down: its failure may pass") {
  Bench b;
  const Bytes good = bytes_of(b.volume(1));
  fs::resize_file(b.volume(1), 500);
  Json g = b.graph(b.on_disk(), 2);
  g["nodes"]["load"]["on_error"] = "quarantine";
  const Collected first = run_graph(g);
  CHECK(first.failure.empty());
  CHECK(first.epochs.at("end/1").size() == 3);
  CHECK(entries(b).size() == 3);
  g["nodes"]["load"].erase("on_error");
  CHECK_FALSE(run_graph(g).failure.empty());
}

// As where the window moves on while an item is on its way into it.
TEST_CASE("a cache keeps nothing that has left it before it was put there") {
  int asked = 0;
  Tiers cache;
  cache.keeps = [&asked](std::uint64_t) { return asked++ == 0; };
  cache.tiers.push_back(std::make_unique<MemoryTier>(std::nullopt, &compact, cache.keeps));
  cache.put(3, {std::make_shared<const Sample>(), ""});
  CHECK(cache.held().entries == 0);
  CHECK(cache.held().refused == 0);
}

TEST_CASE("a smart cache's epochs hold the items that MONAI's SmartCacheDataset has") {
  const Json cases = Json::parse(std::ifstream(SLUICE_SOURCE_DIR "/tests/golden/smart_cache.json"));
  REQUIRE(cases.size() == 6);
  for (const Json& c : cases) {
    INFO(c["params"].dump());
    Bench b(c["items"]);
    Json params = c["params"];
    params["type"] = "smart_cache";
    const Json g = b.graph(params, 6);
    for (const int threads : {1, 8}) {
      const Collected got = run_graph(g, threads);
      REQUIRE(got.failure.empty());
      const std::size_t window = c["epochs"][0].size();
      CHECK(got.held.at("kept").entries == window);
      for (std::size_t e = 0; e < 6; ++e) {
        std::vector<std::string> names, expected;
        for (const auto& s : got.epochs.at("end/" + std::to_string(e))) names.push_back(s->name);
        for (const int i : c["epochs"][e]) expected.push_back(b.volume(i).stem());
        CHECK(names == expected);
      }
    }
  }
}

TEST_CASE("parts of a smart cache hold what MONAI's have after partition_dataset, shard by shard") {
  const Json cases =
      Json::parse(std::ifstream(SLUICE_SOURCE_DIR "/tests/golden/smart_cache_parts.json"));
  REQUIRE(cases.size() == 4);
  for (const Json& c : cases) {
    INFO(c["params"].dump());
    const std::int64_t shards = c["shards"], each = 2;
    Json params = c["params"];
    params["by_shard"] = true;
    OpenContext context;
    context.division = {
        .items = shards * each, .parts = shards, .trains = true, .samples = shards * each};
    const auto cache = Registry::global().make_node("smart_cache", params);
    cache->open(context);
    for (std::uint32_t e = 0; e < 6; ++e) {
      const auto items = cache->epoch_items(e, c["items"].get<std::uint64_t>());
      REQUIRE(items);
      std::vector<std::vector<std::uint64_t>> expected, got(static_cast<std::size_t>(shards));
      for (const Json& part : c["parts"]) expected.push_back(part[e]);
      const std::size_t whole = items->size() / static_cast<std::size_t>(shards * each);
      for (std::size_t i = 0; i < items->size(); ++i) {
        auto k = static_cast<std::size_t>(context.division.packet(i) % shards);
        // An epoch's last batch has what is left over of each part, one part after the other.
        if (const auto first = whole * static_cast<std::size_t>(shards * each); i >= first)
          k = (i - first) * static_cast<std::size_t>(shards) / (items->size() - first);
        got[k].push_back((*items)[i]);
      }
      CHECK(got == expected);
    }
  }
}

TEST_CASE("a smart cache by shard needs batches that the shards divide") {
  OpenContext context;
  context.division = {.items = 5, .parts = 2, .trains = true, .samples = 5};
  const auto cache = Registry::global().make_node("smart_cache", {{"by_shard", true}});
  CHECK(contains(message_of([&] { cache->open(context); }), "no equal share of each of 2 parts"));
}

TEST_CASE("a smart cache computes each item once for as long as it is in the window") {
  Bench b(60);
  Json params = {
      {"type", "smart_cache"}, {"cache_num", 40}, {"replace_rate", 0.25}, {"shuffle", false}};
  Json g = b.graph(params, 5);
  const Collected got = run_graph(g);
  REQUIRE(got.failure.empty());
  // An item that is asked for again while it is still being computed is computed again.
  CHECK(got.fired.at("load") >= 40 + 4 * 10);
  CHECK(got.fired.at("load") < 40 + 4 * 10 + 20);
  // Shuffled within the epochs: other orders of the same windows.
  g["nodes"]["list"]["shuffle"] = true;
  const Collected shuffled = run_graph(g, 8);
  CHECK(shuffled.fired.at("load") >= 80);
  CHECK(shuffled.fired.at("load") < 140);
  const auto sorted = [](const Collected& c, int epoch) {
    std::vector<std::string> names;
    for (const auto& s : c.epochs.at("end/" + std::to_string(epoch))) names.push_back(s->name);
    std::sort(names.begin(), names.end());
    return names;
  };
  for (int e = 0; e < 5; ++e) CHECK(sorted(got, e) == sorted(shuffled, e));
  CHECK_FALSE(same_samples(got, shuffled));
}

TEST_CASE("the next window's new items are computed before this epoch is over") {
  Bench b(12);
  Json g = b.graph({{"type", "smart_cache"}, {"cache_num", 5}, {"replace_rate", 0.5}}, 3);
  g["nodes"]["end"]["lane"] = "step";  // as training does, it leaves the data threads alone
  std::uint64_t misses = 0;
  run_graph(g, 2, [&](const Firing& f, const auto& held) {
    if (f.stamp().epoch != 0 || f.stamp().index != 0) return;
    for (int i = 0; i < 2000 && held().misses < 8; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    misses = held().misses;
  });
  CHECK(misses >= 8);  // 5 of the first window, 3 of the second
}

TEST_CASE(
    "what chooses an epoch's items is compared at a resume, and where a cache keeps them is not") {
  Bench b;
  const auto compared = [&](const Json& json) {
    Diagnostics diagnostics;
    const auto graph = load_graph(parse_document("test.json", json.dump(), diagnostics),
                                  with_collect(), {}, diagnostics);
    REQUIRE(graph);
    return data_settings(*graph);
  };
  const Json window = {{"type", "smart_cache"}, {"cache_num", 2}, {"replace_rate", 0.5}};
  CHECK(compared(b.graph(window)).at("nodes.kept.replace_rate") == 0.5);
  CHECK_FALSE(compared(b.graph(b.on_disk())).contains("nodes.kept.store"));
}

TEST_CASE("two caches cannot both say which items an epoch has") {
  Bench b;
  Json g = b.graph({{"type", "smart_cache"}, {"cache_num", 2}});
  g["nodes"]["second"] = {{"type", "smart_cache"}, {"in", "kept"}, {"cache_num", 2}};
  g["nodes"]["end"]["in"] = "second";
  CHECK(contains(message_of([&] { run_graph(g); }), "another node chooses"));
}
