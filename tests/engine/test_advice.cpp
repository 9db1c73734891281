// What `sluice advise` proposes, on toy types: what may change places, where caches go, what the
// text says afterwards.
#include "engine/judge/advice.h"

#include <doctest/doctest.h>

#include "engine/base/diagnostic.h"
#include "tests/text.h"

using namespace sluice;

namespace {

struct P {
  std::vector<std::string> keys{"image"};
  std::string store = "memory", network;
  std::optional<std::int64_t> budget;
  std::int64_t size = 2;
};

Spec step(const char* name) {
  return Spec(name, "")
      .in("sample")
      .out("sample")
      .param("keys", &P::keys, "Fields.")
      .takes("@keys", Form::any);
}

const Catalogue& types() {
  static const Catalogue all = [] {
    Catalogue c;
    c.add(Spec("cases", "").out("case").source().lane(LaneKind::io));
    c.add(Spec("load", "").in("case").out("sample").lane(LaneKind::io).passes());
    c.add(step("norm").changes("@keys"));
    c.add(step("grid").resizes("@keys"));
    c.add(step("flip").random().rearranging());
    c.add(step("noise").random().changes("@keys"));
    c.add(step("crop").random().resizes("@keys"));
    c.add(Spec("cache", "")
              .in("sample")
              .out("sample")
              .param("store", &P::store, "Where.")
              .param("budget", &P::budget, "Bytes.")
              .cache()
              .passes());
    c.add(Spec("buffer", "").in("sample").out("sample").param("size", &P::size, "").gate("size"));
    c.add(Spec("sink", "").in("sample").lane(LaneKind::io));
    c.add(Spec("infer", "")
              .in("sample")
              .out("sample")
              .param("network", &P::network, "Network.")
              .param("sw_batch_size", &P::size, "Windows.")
              .reads("network"));
    c.add(Spec::network("unet", "")
              .param("precision", &P::store, "Numbers.")
              .param("levels", &P::size, "How many."));
    return c;
  }();
  return all;
}

Graph read(const std::string& text) {
  Diagnostics diagnostics;
  auto graph = load_graph(parse_document("g.json", text, diagnostics), types(), {}, diagnostics);
  INFO(text);
  for (const auto& d : diagnostics.all()) INFO(d.message);
  REQUIRE(graph);
  return std::move(*graph);
}

// Nodes in the order in which samples meet them.
std::string order(const Graph& g) {
  std::string out;
  int at = -1;
  for (std::size_t i = 0; i < g.nodes.size(); ++i)
    if (g.nodes[i].inputs.empty()) at = static_cast<int>(i);
  while (at >= 0) {
    out += (out.empty() ? "" : " ") + g.nodes[static_cast<std::size_t>(at)].path;
    int next = -1;
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
      for (const auto& in : g.nodes[i].inputs)
        if (in.from == at) next = static_cast<int>(i);
    at = next;
  }
  return out;
}

// "load flip norm" as a graph; each node is named after its type.
std::string chain(const std::string& words, const std::string& more = "") {
  std::string text = "{\n  \"nodes\": {\n    \"cases\": { \"type\": \"cases\" }", last = "cases";
  std::istringstream in(words + " sink");
  for (std::string word; in >> word; last = word)
    text += ",\n    \"" + word + "\": { \"type\": \"" + word + "\", \"in\": \"" + last + "\"" +
            (word == "norm" ? more : "") + " }";
  return text + "\n  }\n}\n";
}

std::string reordered(std::string text) {
  for (int turn = 0; turn < 20; ++turn) {
    const auto changes = reorder(read(text));
    if (changes.empty()) break;
    text = changes.front().text;
  }
  return text;
}

// Figures that say what every node emits, and how many items there are.
Figures figures(const Plan& plan, double mb, std::int64_t items) {
  Figures f;
  f.nodes.resize(plan.nodes.size());
  for (auto& n : f.nodes) {
    n.known = true;
    n.mb = mb;
    n.epoch_size = items;
  }
  return f;
}

std::vector<Change> caches(const std::string& text, const std::string& measured, Room room,
                           double mb = 1) {
  const Graph without = read(measured);
  Diagnostics diagnostics;
  const auto plan = make_plan(without, {}, diagnostics);
  REQUIRE(plan);
  const Graph graph = read(text);
  return place_caches(graph, *plan, figures(*plan, mb, 100), room);
}

constexpr Room plenty{1'000'000'000, 1'000'000'000};

}  // namespace

TEST_CASE("What is the same in every epoch moves in front of a flip") {
  CHECK(order(read(reordered(chain("load flip norm")))) == "cases load norm flip sink");
  CHECK(order(read(reordered(chain("load flip norm grid")))) == "cases load norm grid flip sink");
  CHECK(order(read(reordered(chain("load flip noise grid")))) == "cases load grid flip noise sink");
}

TEST_CASE("A normalisation stays behind what it would undo, and all behind a crop") {
  CHECK(order(read(reordered(chain("load noise norm")))) == "cases load noise norm sink");
  CHECK(order(read(reordered(chain("load crop grid")))) == "cases load crop grid sink");
  CHECK(order(read(reordered(chain("load crop norm")))) == "cases load crop norm sink");
  CHECK(order(read(reordered(chain("load noise norm grid")))) == "cases load noise norm grid sink");
}

TEST_CASE("Of other fields a normalisation may pass") {
  const auto text = reordered(chain("load noise norm", ", \"keys\": [\"other\"]"));
  CHECK(order(read(text)) == "cases load norm noise sink");
}

TEST_CASE("Each change says what it does to results") {
  const auto effect = [](const char* words) {
    const auto changes = reorder(read(chain(words)));
    REQUIRE(changes.size() == 1);
    return changes.front().effect;
  };
  CHECK(effect("load flip norm") == Change::Effect::rounding);
  CHECK(effect("load flip grid") == Change::Effect::draws);
  CHECK(effect("load noise grid") == Change::Effect::draws);
}

TEST_CASE("A cache goes behind the last node that is the same in every epoch") {
  const auto text = chain("load norm flip grid");
  const auto changes = caches(text, text, plenty);
  REQUIRE(changes.size() == 1);
  CHECK(order(read(changes.front().text)) == "cases load norm cached flip grid sink");
  CHECK(changes.front().text.find("    \"cached\": { \"type\": \"cache\", \"in\": \"norm\" },\n") !=
        std::string::npos);
  CHECK(changes.front().cost == "up to 100.0 MB of memory, of 1.0 GB that may be used");
}

TEST_CASE("Where a cache stands already nothing is proposed") {
  const auto text = chain("load norm cache flip");
  CHECK(caches(text, text, plenty).empty());
}

TEST_CASE("A cache that stands too early moves on") {
  const auto text = chain("load cache norm flip");
  const auto changes = caches(text, text, plenty);
  REQUIRE(changes.size() == 1);
  CHECK(order(read(changes.front().text)) == "cases load norm cache flip sink");
}

TEST_CASE("A cache behind a random node is found and moves in front of it") {
  const auto text = chain("load norm flip cache");
  CHECK(misplaced_caches(read(text)).size() == 1);
  const auto changes = caches(text, chain("load norm flip"), plenty);
  REQUIRE(changes.size() == 1);
  CHECK(order(read(changes.front().text)) == "cases load norm cache flip sink");
  CHECK(misplaced_caches(read(changes.front().text)).empty());
}

TEST_CASE("A cache that can stand nowhere is left out") {
  const auto text = chain("flip cache");
  CHECK(caches(text, chain("flip"), plenty).empty());
  const auto changes = leave_out_caches(read(text));
  REQUIRE(changes.size() == 1);
  CHECK(order(read(changes.front().text)) == "cases flip sink");
}

TEST_CASE("A cache takes the memory that there is, then disk, then a part of the items") {
  const auto text = chain("load norm flip");
  const auto in = [&](Room room) { return caches(text, text, room).front(); };
  CHECK(in({99'000'000, 100'000'000}).text.find("\"store\": \"auto\", \"budget\": 99000000") !=
        std::string::npos);
  CHECK(in({50'000'000, 10}).text.find("\"cache\", \"budget\": 50000000, \"in\"") !=
        std::string::npos);
  CHECK(in({50'000'000, 10}).cost.find("a part of 100.0 MB") != std::string::npos);
  // Nobody knows how large the samples are: no more than there is.
  const Change unknown = caches(text, text, {50'000'000, 10}, 0).front();
  CHECK(unknown.text.find("\"cache\", \"budget\": 50000000, \"in\"") != std::string::npos);
}

TEST_CASE("A cache with room for a part spares that part alone") {
  const auto share = [](const std::string& cache, double mb = 1) {
    std::string text = chain("load norm cache flip");
    text.replace(text.find("\"type\": \"cache\""), 15, "\"type\": \"cache\"" + cache);
    const Graph graph = read(text), without = read(chain("load norm flip"));
    Diagnostics diagnostics;
    const auto plan = make_plan(graph, {}, diagnostics),
               measured = make_plan(without, {}, diagnostics);
    REQUIRE(plan);
    REQUIRE(measured);
    return share_held(*plan, graph.find("cache"), *measured, figures(*measured, mb, 100));
  };
  CHECK(share("") == 1);
  CHECK(share(", \"budget\": 25000000") == doctest::Approx(0.25));
  CHECK(share(", \"budget\": 200000000") == 1);
  // Of a sample that nobody knows the size of it may hold none.
  CHECK(share(", \"budget\": 200000000", 0) == 0);
  CHECK(share("", 0) == 1);
}

// How a graph begins that has the part "prepare".
static const std::string prepare_part = R"({
  "parts": { "prepare": { "in": "raw", "out": "norm", "nodes": {
    "load": { "type": "load", "in": "raw" },
    "norm": { "type": "norm", "in": "load" } } } },)";

TEST_CASE("In a part the cache becomes what the part gives, for all who use it") {
  const std::string text = prepare_part + R"(
  "nodes": {
    "a": { "type": "cases" },
    "pre": { "part": "prepare", "in": "a" },
    "flip": { "type": "flip", "in": "pre" },
    "sink": { "type": "sink", "in": "flip" },
    "b": { "type": "cases" },
    "bpre": { "part": "prepare", "in": "b" },
    "bsink": { "type": "sink", "in": "bpre" } } })";
  const auto changes = caches(text, text, plenty);
  REQUIRE(!changes.empty());
  const Graph after = read(changes.front().text);
  CHECK(after.find("pre/cached") >= 0);
  CHECK(after.find("bpre/cached") >= 0);
  CHECK(caches(changes.front().text, text, plenty).empty());
}

TEST_CASE("Names that are taken are not taken again") {
  auto text = chain("load norm flip");
  text.replace(text.find("\"sink\": {"), 6, "\"cached\"");
  CHECK(read(caches(text, text, plenty).front().text).find("cached2") >= 0);
}

TEST_CASE("Limits of threads and queues are proposed with the line that they change") {
  auto text = chain("load norm buffer", ", \"threads\": 1");
  text.replace(text.find("{\n"), 2, "{\n  \"run\": { \"threads\": 1, \"step_threads\": 1 },\n");
  const Graph graph = read(text);
  Diagnostics diagnostics;
  const auto plan = make_plan(graph, {.threads = 1}, diagnostics);
  REQUIRE(plan);
  std::vector<std::string> titles;
  for (const Change& c : widen(*plan, {1, 2, 8, 1})) {
    titles.push_back(c.title);
    read(c.text);
  }
  CHECK(titles == std::vector<std::string>{"data threads 1 → 8", "io threads 2 → 4",
                                           "`norm` without a limit of its own",
                                           "`buffer`: size 2 → 4"});
  const auto trials = try_out(graph, {1, 2, 8, 1});
  REQUIRE(trials.size() == 1);
  CHECK(read(trials.front().text).run.step_threads == 0);
}

TEST_CASE("A cache that stands in another scope gives way to a new one where the prefix ends") {
  const std::string text = prepare_part + R"(
  "nodes": {
    "a": { "type": "cases" },
    "early": { "type": "cache", "in": "a" },
    "pre": { "part": "prepare", "in": "early" },
    "flip": { "type": "flip", "in": "pre" },
    "sink": { "type": "sink", "in": "flip" } } })";
  const auto changes = caches(text, text, plenty);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].title == "cache behind `pre/norm` instead of `early`");
  CHECK(changes[0].why == "what stands up to `pre/norm` does the same in every epoch");
  CHECK(order(read(changes[0].text)) == "a pre/load pre/norm pre/cached flip sink");
}

TEST_CASE("Changes are told by what moves where") {
  const auto moved = reorder(read(chain("load flip norm")));
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].title == "`norm` in front of `flip`");
  CHECK(contains(moved[0].text, "    // moved in front of flip: the same in every epoch\n"));
  const auto late = caches(chain("load cache norm flip"), chain("load norm flip"), plenty);
  REQUIRE(late.size() == 1);
  CHECK(late[0].title == "`cache` moves behind `norm`");
  CHECK(contains(late[0].text, "// moved: what is in front is the same in every epoch\n"));
  const auto none = leave_out_caches(read(chain("flip cache")));
  REQUIRE(none.size() == 1);
  CHECK(none[0].title == "without `cache`");
  CHECK(none[0].why == "nothing in front of it is the same in every epoch");
  CHECK(std::string(text_of(Change::Effect::none)) == "results stay the same");
  CHECK(std::string(text_of(Change::Effect::rounding)) == "results differ in the last bits");
  CHECK(contains(text_of(Change::Effect::draws), "other results of the same kind"));
  CHECK(std::string(text_of(Change::Effect::precision)) == "results have fewer bits");
}

TEST_CASE("What caches in memory hold already is not there for another one") {
  // Two streams of 100 MB each, one of which has its cache.
  const std::string text = R"({ "nodes": {
    "a": { "type": "cases" }, "one": { "type": "norm", "in": "a" },
    "cache": { "type": "cache"STORE, "in": "one" }, "end": { "type": "sink", "in": "cache" },
    "b": { "type": "cases" }, "two": { "type": "load", "in": "b" },
    "sink": { "type": "sink", "in": "two" } } })";
  const auto cost = [&](const std::string& store) {
    std::string written = text;
    written.replace(written.find("STORE"), 5, store);
    const auto changes = caches(written, written, {150'000'000, 0});
    REQUIRE(changes.size() == 1);
    return changes[0].cost;
  };
  CHECK(cost("") ==
        "50.0 MB of memory for a part of 100.0 MB; the rest is computed in every epoch");
  CHECK(cost(R"(, "store": "disk")") == "up to 100.0 MB of memory, of 150.0 MB that may be used");
  const auto exact = caches(chain("load norm flip"), chain("load norm flip"), {100'000'000, 0});
  CHECK(exact.front().cost == "up to 100.0 MB of memory, of 100.0 MB that may be used");
  const auto disk = caches(chain("load norm flip"), chain("load norm flip"), {1, 100'000'000});
  CHECK(disk.front().cost == "100.0 MB: 1 B in memory, the rest on disk");
  const auto unknown = caches(chain("load norm flip"), chain("load norm flip"), {5000, 0}, 0);
  CHECK(unknown.front().cost ==
        "5.0 KB of memory for a part of an unknown number of bytes; the "
        "rest is computed in every epoch");
}

TEST_CASE(
    "A trial is proposed for what no forecast can tell, and for nothing that is set already") {
  const auto graph = [](const std::string& windows, const std::string& precision,
                        const std::string& step) {
    return read(R"({ "run": { "step_threads": )" + step + R"( },
  "models": { "net": { "type": "unet", "precision": ")" +
                precision + R"(" } },
  "nodes": {
    "s": { "type": "cases" },
    "infer": { "type": "infer", "in": "s", "network": "net", "sw_batch_size": )" +
                windows + R"( },
    "sink": { "type": "sink", "in": "infer" } } })");
  };
  const auto all = try_out(graph("1", "float32", "7"), {1, 2, 8, 1});
  std::vector<std::string> titles;
  for (const Change& c : all) titles.push_back(c.title);
  REQUIRE(titles == std::vector<std::string>{"step threads 7 → 8", "`infer`: 4 windows at a time",
                                             "network `net` in bfloat16"});
  CHECK(all[0].effect == Change::Effect::rounding);
  CHECK(all[1].effect == Change::Effect::rounding);
  CHECK(all[2].effect == Change::Effect::precision);
  CHECK(read(all[1].text).nodes[1].params["sw_batch_size"] == 4);
  CHECK(read(all[2].text).models[0].params["precision"] == "bfloat16");
  CHECK(try_out(graph("2", "bfloat16", "8"), {1, 2, 8, 1}).empty());
}

TEST_CASE("Threads are as many as the cores at most, and io threads twice as many") {
  auto text = chain("load norm buffer");
  text.replace(text.find("{\n"), 2, "{\n  \"run\": { \"threads\": 8 },\n");
  text.replace(text.find("\"type\": \"buffer\""), 16, "\"type\": \"buffer\", \"size\": 3");
  const Graph graph = read(text);
  Diagnostics diagnostics;
  const auto plan = make_plan(graph, {.threads = 8}, diagnostics);
  REQUIRE(plan);
  std::vector<std::string> titles;
  for (const Change& c : widen(*plan, {8, 3, 8, 1})) titles.push_back(c.title);
  CHECK(titles == std::vector<std::string>{"io threads 3 → 6", "`buffer`: size 3 → 6"});
}
