// What `sluice advise` proposes, on toy types: what may change places, where caches go, what the
// text says afterwards.
#include "engine/judge/advice.h"

#include <doctest/doctest.h>

#include "engine/base/diagnostic.h"

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
  const auto share = [](const std::string& cache) {
    std::string text = chain("load norm cache flip");
    text.replace(text.find("\"type\": \"cache\""), 15, "\"type\": \"cache\"" + cache);
    const Graph graph = read(text), without = read(chain("load norm flip"));
    Diagnostics diagnostics;
    const auto plan = make_plan(graph, {}, diagnostics),
               measured = make_plan(without, {}, diagnostics);
    REQUIRE(plan);
    REQUIRE(measured);
    return share_held(*plan, graph.find("cache"), *measured, figures(*measured, 1, 100));
  };
  CHECK(share("") == 1);
  CHECK(share(", \"budget\": 25000000") == doctest::Approx(0.25));
  CHECK(share(", \"budget\": 200000000") == 1);
}

TEST_CASE("In a part the cache becomes what the part gives, for all who use it") {
  const std::string text = R"({
  "parts": { "prepare": { "in": "raw", "out": "norm", "nodes": {
    "load": { "type": "load", "in": "raw" },
    "norm": { "type": "norm", "in": "load" } } } },
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
