// What a cache's samples are known by: all that they are computed from, and nothing else.
#include "engine/plan/lineage.h"

#include <doctest/doctest.h>

#include "tests/engine/toy.h"
#include "tests/text.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

struct Settings {
  std::vector<double> spacing{1};
  std::int64_t order = 1;
  std::string file;
  Json more;
};

Spec zoom_spec() {
  return plain("zoom")
      .param("spacing", &Settings::spacing, "")
      .param("order", &Settings::order, "")
      .param("file", &Settings::file, "")
      .param("more", &Settings::more, "");
}

// cases -> load -> zoom -> cache, with another node in front of the cache where a test wants one.
struct Chain {
  Builder b;
  int zoom = -1, kept = -1;
  explicit Chain(const Json& params = Json::object(), const std::string& name = "zoom",
                 bool cached_before = false, LaneKind lane = LaneKind::compute) {
    int at = b.add("load", plain("load"), forward, {{b.source("cases", 3), 0}});
    if (cached_before) at = b.add("early", plain("cache").cache(), forward, {{at, 0}});
    zoom = b.add(name, zoom_spec().lane(lane), forward, {{at, 0}}, params);
    kept = b.add("kept", plain("cache").cache(), forward, {{zoom, 0}});
    b.add("k", sink("k"), [](Firing&) {}, {{kept, 0}});
  }
  Lineage of(int node) {
    REQUIRE(b.plan());
    return lineage_of(*b.made, node);
  }
  std::string text() { return of(kept).text; }
};

}  // namespace

TEST_CASE(
    "a lineage is the types and parameters on the way from the source, whatever their names") {
  CHECK(Chain().text() == R"([[],["load",{},0,[[0,0,0]]],["zoom",{},0,[[0,1,0]]]])");
  CHECK(Chain({}, "another name").text() == Chain().text());
  CHECK(Chain({}, "zoom", true).text() == Chain().text());  // what only keeps samples
  Chain chain;
  CHECK(chain.of(chain.zoom).text == chain.text());
  CHECK(Chain({}, "zoom", false, LaneKind::io).text() != Chain().text());
  chain.b.graph.run.lazy = true;  // rounds otherwise
  CHECK(chain.text() == R"(["lazy",[],["load",{},0,[[0,1,0]]],["zoom",{},0,[[0,2,0]]]])");
}

TEST_CASE("parameters are compared by their values, in whatever order they are written") {
  const auto text = [](const char* params) { return Chain(Json::parse(params)).text(); };
  CHECK(text(R"({"order": 1, "spacing": [1, 2]})") == text(R"({"spacing": [1.0, 2], "order": 1})"));
  CHECK(text(R"({"spacing": 3})") == text(R"({"spacing": 3.0})"));
  CHECK(text(R"({"spacing": [1, 2]})") != text(R"({"spacing": [2, 1]})"));
  CHECK(text(R"({"order": 1})") != text(R"({"order": 2})"));
  CHECK(text(R"({"more": 1})") != text(R"({"more": 1.0})"));  // a value of any type is as it is
}

TEST_CASE("texts among the parameters may be files, however deep they stand") {
  Chain chain(
      Json::parse(R"({"file": "a", "more": {"x": ["b", {"y": "c"}], "z": 1}, "order": 2})"));
  CHECK(chain.of(chain.kept).files == std::vector<std::string>{"a", "b", "c"});
  CHECK(chain.of(chain.kept).networks.empty());
}

TEST_CASE("inputs are compared by what they are, not by their place in the file") {
  const auto text = [](bool swapped, bool exchanged) {
    Builder b;
    const int s = b.source("s", 3);
    int left = 0, right = 0;
    const auto add_left = [&] { left = b.add("left", plain("left"), forward, {{s, 0}}); };
    if (!swapped) add_left();
    right = b.add("right", plain("right"), forward, {{s, 0}});
    if (swapped) add_left();
    const int join = b.add("join", Spec("join", "").in("a").in("b").out("sample"), forward,
                           {{exchanged ? right : left, 0}, {exchanged ? left : right, 0}});
    b.add("k", sink("k"), [](Firing&) {}, {{join, 0}});
    REQUIRE(b.plan());
    return lineage_of(*b.made, join).text;
  };
  CHECK(text(false, false) == text(true, false));
  CHECK(text(false, false) != text(false, true));
}

TEST_CASE("what comes from different ports of a node differs, also where a cache keeps it") {
  const auto text = [](int port, bool behind) {
    Builder b;
    const int split = b.add("split", Spec("split", "").in("sample").out("image").out("label"),
                            forward, {{b.source("s", 3), 0}});
    const int kept = b.add("kept", plain("cache").cache(), forward, {{split, port}});
    const int next = b.add("next", plain("next"), forward, {{kept, 0}});
    b.add("k", sink("k"), [](Firing&) {}, {{next, 0}});
    REQUIRE(b.plan());
    return lineage_of(*b.made, behind ? next : kept).text;
  };
  CHECK(text(0, false) == R"([[],["split",{},0,[[0,0,0]]]])");
  CHECK(text(0, false) != text(1, false));
  CHECK(text(0, true) != text(1, true));
}

TEST_CASE("a network that is read counts by its type and parameters, and is named") {
  const Spec net = Spec::network("unet", ""), other = Spec::network("vnet", "");
  const auto lineage = [&](const Spec& spec, std::int64_t levels) {
    Builder b;
    for (const std::string name : {"unused", "net"}) {
      GraphModel m;
      m.name = name;
      m.spec = &spec;
      m.params = {{"levels", name == "net" ? levels : 0}};
      b.graph.models.push_back(m);
    }
    const int infer = b.add("infer", reader_spec(), forward, {{b.source("s", 3), 0}});
    b.add("k", sink("k"), [](Firing&) {}, {{infer, 0}});
    REQUIRE(b.plan());
    return lineage_of(*b.made, infer);
  };
  const Lineage found = lineage(net, 3);
  CHECK(found.networks == std::vector<std::string>{"net"});
  CHECK(contains(found.text, R"([["unet",{"levels":3}]])"));
  CHECK(found.text != lineage(net, 4).text);
  CHECK(found.text != lineage(other, 3).text);
}
