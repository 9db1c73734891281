// Whatever stands in a graph file, the answer is a plan or diagnostics: no crash, no hang, no
// exception. A few thousand damaged graphs in CI, more at length (tests/campaign.h).
// SLUICE_CATALOGUE names the output of `sluice inspect --json`: then the shipped graphs are
// damaged, else toys. The input of a crash stays in fuzz.last.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/judge/dot.h"
#include "engine/plan/plan.h"
#include "tests/campaign.h"
#include "tests/engine/fuzz.h"
#include "toy_graph.h"

using namespace sluice;

namespace {

// Parts within parts, with parameters of their own.
const char* const nested_parts =
    R"({"vars": {"k": ["far"], "far": ["v"]}, "parts": {
    "inner": {"in": "a", "out": "l", "params": {"k": ["own"]},
              "nodes": {"l": {"type": "load", "in": "a", "keys": "@k"}}},
    "outer": {"in": ["one", "two"], "out": {"image": "s.label", "raw": "second"},
              "params": {"given": ["none"]}, "nodes": {
      "first": {"part": "inner", "in": "one", "k": "@given"},
      "second": {"part": "inner", "in": "two"}, "s": {"type": "split", "in": "first"}}}},
  "nodes": {"a": {"type": "cases", "root": "r"},
    "o": {"part": "outer", "in": {"one": "a", "two": "a"}, "given": "@far"},
    "j": {"type": "join", "in": {"image": "o.raw", "label": "o"}},
    "shuffled": {"type": "buffer", "in": "j", "size": 3}, "save": {"type": "save", "in": "j"}}})";

struct Material {
  Catalogue catalogue;
  std::vector<Json> corpus;

  Material() {
    namespace fs = std::filesystem;
    const char* file = std::getenv("SLUICE_CATALOGUE");
    if (file && *file) {
      catalogue = Catalogue::from_json(Json::parse(std::ifstream(file)));
      for (const char* folder : {"/graphs", "/tests/golden/messages"})
        for (const auto& e : fs::directory_iterator(SLUICE_SOURCE_DIR + std::string(folder)))
          if (e.path().extension() == ".json" && e.path().filename() != "graph.schema.json")
            add(Json::parse(std::ifstream(e.path()), nullptr, false, true));
    } else {
      catalogue = toys::catalogue();
      Json whole = Json::parse(toys::whole_graph);
      whole["nodes"]["parts"]["requires"] = "train";
      add(std::move(whole));
      add(Json::parse(nested_parts));
    }
  }
  void add(Json graph) {
    if (graph.is_object()) corpus.push_back(std::move(graph));
  }
};

// What is being tried, kept outside the process.
class LastInput {
 public:
  LastInput() : file_(open("fuzz.last", O_RDWR | O_CREAT | O_TRUNC, 0644)) {
    std::signal(SIGALRM, [](int) {
      static const char text[] = "hang: the input is in fuzz.last\n";
      if (write(2, text, sizeof text - 1) < 0) _exit(99);
      abort();
    });
  }
  ~LastInput() {
    alarm(0);
    close(file_);
    unlink("fuzz.last");
  }
  void set(const std::string& text, const std::vector<std::string>& overrides) {
    std::string all = text;
    for (const auto& o : overrides) all += "\n// --set " + o;
    if (ftruncate(file_, 0) == 0) (void)!pwrite(file_, all.data(), all.size(), 0);
    alarm(60);
  }

 private:
  int file_;
};

struct Result {
  bool loaded = false, planned = false;
};

void check_texts(const Diagnostics& found) {
  std::ostringstream printed;
  found.print(printed, false);
  (void)Json(printed.str()).dump();  // throws where it is no UTF-8
  (void)found.to_json().dump();
  for (const auto& d : found.all()) {
    CHECK(find_code(d.code));
    CHECK_FALSE(d.message.empty());
  }
}

Result try_graph(const Material& material, const std::string& text,
                 const std::vector<std::string>& set) {
  Result result;
  Diagnostics found;
  const auto overrides = parse_overrides(set, found);
  const auto document = parse_document("g.json", text, found);
  const auto graph = load_graph(document, material.catalogue, overrides, found);
  CHECK(graph.has_value() == found.ok());
  result.loaded = graph.has_value();
  if (graph) {
    const auto plan = make_plan(*graph, {}, found);
    CHECK(plan.has_value() == found.ok());
    result.planned = plan.has_value();
    if (plan) CHECK_FALSE(to_dot(*plan).empty());
    // What was read is a graph by itself, and the same one.
    Diagnostics again;
    const auto resolved = load_graph(parse_document("r.json", graph->resolved.dump(), again),
                                     material.catalogue, {}, again);
    CHECK_MESSAGE(resolved, (again.all().empty() ? "" : again.all().front().message));
    if (resolved) CHECK(resolved->resolved == graph->resolved);
  }
  check_texts(found);
  return result;
}

}  // namespace

TEST_CASE("A damaged graph gives a plan or diagnostics") {
  const Material material;
  LastInput last;
  std::size_t loaded = 0, planned = 0;
  campaign::for_seeds("graph_fuzz", 3000, 1'000'000, [&](std::uint64_t seed) {
    fuzz::Fuzzer fuzzer(static_cast<unsigned>(seed));
    const std::string text = fuzzer.input(material.corpus);
    const auto set = fuzzer.overrides(text);
    last.set(text, set);
    INFO("seed ", seed, ":\n", text);
    const Result result = try_graph(material, text, set);
    loaded += result.loaded;
    planned += result.planned;
  });
  MESSAGE(loaded << " inputs were graphs, " << planned << " gave a plan");
  CHECK(planned > 0);
}
