// What flows along the edges: which fields, in which form and size, and what is said of nodes that
// do not fit. tests/cli/test_messages.cpp holds the same of the types that ship.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "engine/plan/cache_need.h"
#include "engine/plan/device_need.h"
#include "engine/plan/plan.h"

using namespace sluice;

namespace {

struct P {
  std::vector<std::string> keys{"image"}, both{"image", "label"}, names, dtype{"float32"}, postfix;
  std::string key = "image", image = "image", pred = "pred", label = "label", loss = "loss",
              net = "net", device = "auto", store = "memory", mode;
  std::int64_t count = 2, channels = 0, dims = 3, in = 1, out = 2, ahead = 1;
  std::optional<std::int64_t> limit, budget;
  bool drop_last = false, allow_missing_keys = false;
  std::vector<std::int64_t> axes, numbers{1, 2};
  Json files = Json::object(), size = 8, pixdim = Json::array({1, 1, 1}), step = Json::array();
  std::vector<std::vector<std::int64_t>> strides{{2}, {2}};
};

Spec plain(const char* name) {
  return Spec(name, "").in("sample").out("sample").param("keys", &P::keys, "");
}

const Catalogue& types() {
  static const Catalogue all = [] {
    Catalogue c;
    c.add(Spec("cases", "")
              .out("case")
              .source()
              .param("keys", &P::both, "")
              .param("limit", &P::limit, "")
              .gives("@keys", Form::record));
    c.add(Spec("files", "")
              .out("case")
              .source()
              .param("files", &P::files, "")
              .gives("@files{}", Form::record));
    c.add(plain("load")
              .param("dtype", &P::dtype, "")
              .param("channels", &P::channels, "")
              .takes("@keys", Form::record)
              .gives("@keys", Form::image)
              .dtype("@dtype")
              .channels("@channels"));
    c.add(plain("spacing")
              .param("pixdim", &P::pixdim, "")
              .takes("@keys", Form::image)
              .per_axis("@keys", "pixdim")
              .resizes("@keys"));
    c.add(plain("resize")
              .param("size", &P::size, "")
              .takes("@keys", Form::image)
              .resizes("@keys", "size"));
    c.add(
        plain("pad").param("size", &P::size, "").takes("@keys", Form::image).pads("@keys", "size"));
    c.add(plain("crop")
              .param("size", &P::size, "")
              .takes("@keys", Form::image)
              .crops("@keys", "size"));
    c.add(plain("rotate")
              .rearranging()
              .param("axes", &P::axes, "")
              .takes("@keys", Form::image)
              .axes("@keys", "axes")
              .resizes("@keys"));
    c.add(plain("two").takes("@keys", Form::image, 2, 2));
    c.add(plain("three").takes("@keys", Form::image, 3, 3));
    c.add(plain("flat").takes("@keys", Form::any, 2, 2));
    c.add(plain("solid").takes("@keys", Form::image, 2, 3));
    c.add(plain("loose")
              .param("axes", &P::axes, "")
              .param("size", &P::size, "")
              .param("image", &P::image, "")
              .param("net", &P::net, "")
              .per_axis("@keys", "size")
              .axes("@keys", "axes")
              .changes("@keys")
              .resizes("@keys", "size")
              .resizes("@keys")
              .enters("@image", "net"));
    c.add(Spec("opens", "")
              .in("case")
              .out("case")
              .param("files", &P::files, "")
              .takes("@files{}", Form::record));
    c.add(plain("one_hot")
              .param("count", &P::count, "")
              .takes("@keys", Form::image)
              .changes("@keys")
              .channels("@count+1")
              .dtype("float32"));
    c.add(plain("cast")
              .param("dtype", &P::dtype, "")
              .takes("@keys", Form::any)
              .changes("@keys")
              .dtype("@dtype"));
    c.add(plain("integers").takes("@keys", Form::any).changes("@keys").dtype("int64"));
    c.add(plain("lenient")
              .param("allow_missing_keys", &P::allow_missing_keys, "")
              .takes("@keys", Form::image));
    c.add(plain("counts")
              .param("count", &P::count, "")
              .takes("@keys", Form::image)
              .axis_count("@keys", "count"));
    c.add(plain("select").keeps("@keys"));
    c.add(plain("copy")
              .param("names", &P::names, "")
              .takes("@keys", Form::value)
              .gives("@names", Form::image)
              .like_each("@keys"));
    c.add(plain("first")
              .param("names", &P::names, "")
              .gives("@names", Form::any)
              .like("@keys")
              .dtype("uint8"));
    c.add(plain("number").param("numbers", &P::numbers, "").gives("@keys#numbers", Form::scalar));
    c.add(plain("postfix")
              .param("postfix", &P::postfix, "")
              .gives("@keys@postfix", Form::any)
              .like_each("@keys"));
    c.add(plain("sometimes")
              .param("mode", &P::mode, "")
              .gives("is_x", Form::scalar)
              .when("mode", "x")
              .gives("is_not_x", Form::scalar)
              .unless("mode", "x")
              .gives("is_set", Form::scalar)
              .when("mode"));
    c.add(plain("batch")
              .param("count", &P::count, "")
              .param("drop_last", &P::drop_last, "")
              .gathers("count", "drop_last")
              .passes());
    c.add(plain("stack")
              .param("count", &P::count, "")
              .param("drop_last", &P::drop_last, "")
              .gathers("count", "drop_last")
              .passes()
              .any_device());
    c.add(plain("pair")
              .param("count", &P::count, "")
              .param("drop_last", &P::drop_last, "")
              .param("names", &P::names, "")
              .gathers("count", "drop_last")
              .prefixes("names"));
    c.add(plain("decollate").takes("@keys", Form::batch).decollates());
    c.add(plain("unload").takes("@keys", Form::record));
    c.add(plain("anything"));
    c.add(Spec("forward", "")
              .in("batch")
              .out("batch")
              .param("image", &P::image, "")
              .param("pred", &P::pred, "")
              .param("net", &P::net, "")
              .takes("@image", Form::batch)
              .enters("@image", "net")
              .gives("@pred", Form::batch)
              .like("@image")
              .channels("@net.out")
              .dtype("float32")
              .reads("net")
              .differentiable());
    c.add(Spec("infer", "")
              .in("sample")
              .out("sample")
              .param("image", &P::image, "")
              .param("size", &P::size, "")
              .param("net", &P::net, "")
              .takes("@image", Form::image)
              .enters("@image", "net")
              .windows("size")
              .reads("net"));
    c.add(plain("warp").takes("@keys", Form::batch).changes("@keys").differentiable());
    c.add(plain("round").takes("@keys", Form::batch).changes("@keys"));
    c.add(Spec("loss", "")
              .in("batch")
              .out("loss")
              .param("pred", &P::pred, "")
              .param("label", &P::label, "")
              .param("loss", &P::loss, "")
              .takes("@pred", Form::batch)
              .takes("@label", Form::batch)
              .gives("@loss", Form::scalar)
              .dtype("float32")
              .differentiable());
    c.add(plain("sum").takes("@keys", Form::scalar).gives("loss", Form::scalar).differentiable());
    c.add(Spec("adam", "")
              .in("loss")
              .out("loss")
              .param("loss", &P::loss, "")
              .param("net", &P::net, "")
              .takes("@loss", Form::scalar)
              .updates("net"));
    c.add(Spec("steps", "")
              .in("sample")
              .out("sample")
              .param("net", &P::net, "")
              .updates("net")
              .param("step", &P::step, "")
              .passes());
    c.add(plain("move")
              .param("device", &P::device, "")
              .param("ahead", &P::ahead, "")
              .gate("ahead")
              .moves("device")
              .any_device());
    c.add(plain("cache")
              .param("store", &P::store, "")
              .param("budget", &P::budget, "")
              .cache()
              .passes()
              .any_device());
    c.add(plain("device_too").passes().any_device());
    c.add(plain("modes")
              .param("mode", &P::mode, "")
              .choices({"", "linear", "nearest", "cubic"})
              .on_device({"", "linear", "nearest"})
              .passes()
              .any_device());
    c.add(plain("steers").stays("@keys").passes().any_device());
    c.add(Spec("sink", "").in("sample").passes());
    c.add(Spec::network("unet", "")
              .param("dims", &P::dims, "")
              .param("spatial_dims", &P::dims, "")
              .param("in_channels", &P::in, "")
              .param("out", &P::out, "")
              .param("strides", &P::strides, "")
              .extents_multiple_of("strides"));
    c.add(Spec::network("bare", ""));
    c.add(Spec::network("classifier", "")
              .param("out", &P::out, "")
              .param("mode", &P::mode, "")
              .gives("", Form::any)
              .when("mode", "classes"));
    return Catalogue::from_json(c.to_json());  // as `check` has it
  }();
  return all;
}

// Of `nodes` ("load", or "load: PARAMETERS") one after the other; each is named after its type and
// its place.
struct Read {
  std::string text;
  Diagnostics diagnostics;
  std::optional<Graph> graph;
  std::optional<Plan> plan;
  // `first`: the node that the file begins with; `apart`: what stands between two nodes.
  explicit Read(const std::vector<std::string>& nodes, const std::string& top = "",
                const PlanOptions& options = {}, std::size_t first = 0,
                const std::string& apart = "\n") {
    std::vector<std::string> all;
    std::string before;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto colon = nodes[i].find(':');
      const std::string type = nodes[i].substr(0, colon), name = type + std::to_string(i);
      all.push_back("\"" + name + "\": {\"type\": \"" + type + "\"" +
                    (i ? ", \"in\": \"" + before + "\"" : "") +
                    (colon == std::string::npos ? "" : "," + nodes[i].substr(colon + 1)) + "}");
      before = name;
    }
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    text = "{" + top + "\"nodes\": {";
    for (std::size_t i = 0; i < all.size(); ++i) text += (i ? "," : "") + apart + all[i];
    text += "}}";
    INFO(text);
    graph = load_graph(parse_document("g.json", text, diagnostics), types(), {}, diagnostics);
    for (const auto& d : diagnostics.all()) INFO(d.message);
    REQUIRE(graph);
    plan = make_plan(*graph, options, diagnostics);
  }
  const PlanNode& last() const { return plan->nodes.back(); }
  // What stands in the file where a diagnostic points to.
  std::string at(const Place& place) const {
    const Mark mark = place.mark();
    std::istringstream lines(text);
    std::string line;
    for (int i = 0; i < mark.line; ++i) std::getline(lines, line);
    return line.substr(static_cast<std::size_t>(mark.column - 1),
                       static_cast<std::size_t>(mark.length));
  }
};

std::string text(const Flow& flow) {
  std::string out = flow.open ? "open" : "";
  for (const FieldInfo& f : flow.fields) {
    out += (out.empty() ? "" : "; ") + f.name + " " + f.text(flow.batch);
    if (f.every_extent) out += " every " + std::to_string(f.every_extent);
    if (!f.varies_since.empty()) out += " varies since " + f.varies_since;
    if (f.gradient) out += " gradient";
    if (!f.gradient_ends.empty()) out += " gradient ends at " + f.gradient_ends;
  }
  return out;
}

// What leaves the last node.
std::string flow(const std::vector<std::string>& nodes, const std::string& top = "") {
  const Read read(nodes, top);
  for (const auto& d : read.diagnostics.all()) INFO(d.message);
  REQUIRE(read.plan);
  return text(read.last().flow);
}

// Each diagnostic: its code, where and what stands there, the message and the hint.
std::string said(const std::vector<std::string>& nodes, const std::string& top = "",
                 std::size_t first = 0, const std::string& apart = "\n") {
  const Read read(nodes, top, {}, first, apart);
  std::string out;
  for (const Diagnostic& d : read.diagnostics.all())
    if (d.code != "SL0319")  // nothing reads the last one
      out += d.code + " " + d.path + " at " + read.at(d.place) + ": " + d.message +
             (d.hint.empty() ? "" : " | " + d.hint) + "\n";
  return out;
}

const std::string unet = R"("models": {"net": {"type": "unet"}}, )";

}  // namespace

TEST_CASE("fields are what the nodes before say of them") {
  CHECK(flow({"cases"}) == "image path; label path");
  CHECK(flow({"files: \"files\": {\"a\": 1, \"b\": 2}"}) == "a path; b path");
  CHECK(flow({"files: \"files\": [{\"a\": 1}, {\"b\": 2, \"a\": 3}, 7]"}) == "a path; b path");
  CHECK(flow({"cases", "load"}) == "image float32 [?, ...]; label path");
  CHECK(flow({"cases",
              "load: \"keys\": [\"image\", \"label\"], \"dtype\": [\"float32\", \"uint8\"]"}) ==
        "image float32 [?, ...]; label uint8 [?, ...]");
  CHECK(flow({"files: \"files\": {\"a\": 1, \"b\": 2, \"c\": 3}",
              "load: \"keys\": [\"a\", \"b\", \"c\"], \"dtype\": [\"int16\", \"uint8\"], "
              "\"channels\": 3"}) == "a int16 [3, ...]; b uint8 [3, ...]; c uint8 [3, ...]");
  CHECK(flow({"cases", "load", "one_hot: \"count\": 4", "select"}) == "image float32 [5, ...]");
  CHECK(flow({"cases", "load", "integers"}) == "image int64 [?, ...]; label path");
  CHECK(flow({"cases", "select: \"keys\": [\"label\", \"none\"]"}) == "label path");
  CHECK(flow({"cases", "load", "one_hot: \"count\": 1", "select"}) == "image float32 [2, ...]");
  CHECK(flow({"cases", "load", "one_hot: \"count\": 0", "select"}) == "image float32 [?, ...]");
  CHECK(flow({"cases", "anything"}) == "open");
  CHECK(flow({"cases", "anything", "number: \"keys\": [\"a\", \"b\"]"}) ==
        "open; a_1 []; a_2 []; b_1 []; b_2 []");
  CHECK(flow({"cases: \"keys\": []", "number: \"numbers\": 5"}) == "image_5 []");
}

TEST_CASE("a field that is like another has its form and size") {
  CHECK(flow({"cases: \"keys\": [\"image\"]", "load: \"channels\": 2",
              "first: \"names\": [\"a\", \"b\"]"}) ==
        "image float32 [2, ...]; a uint8 [?, ...]; b uint8 [?, ...]");
  CHECK(flow({"cases", "load", "integers: \"keys\": [\"image\"]",
              "postfix: \"keys\": [\"image\", \"label\"], \"postfix\": [\"_x\", \"_y\"]"}) ==
        "image int64 [?, ...]; label path; image_x int64 [?, ...]; image_y path; label_x int64 "
        "[?, ...]; label_y path");
  CHECK(
      flow({"cases", "copy: \"keys\": [\"image\", \"label\"], \"names\": [\"a\", \"b\", \"c\"]"}) ==
      "image path; label path; a path; b path; c path");
  CHECK(flow({"cases", "load", "copy: \"names\": [\"label\"]"}) ==
        "image float32 [?, ...]; label float32 [?, ...]");
  CHECK(flow({"cases", "load",
              "first: \"keys\": [\"image\", \"label\"], \"names\": [\"a\", \"b\"]"}) ==
        "image float32 [?, ...]; label path; a uint8 [?, ...]; b uint8 [?, ...]");
  CHECK(flow({"cases: \"keys\": []", "anything", "first: \"names\": [\"a\"]"}) == "open");
  CHECK(flow({"cases: \"keys\": []", "first: \"names\": [\"a\"]"}) == "a uint8");
}

TEST_CASE("rules about fields that are not there, or are paths, change nothing") {
  for (const char* keys : {"none", "image"})
    CHECK(flow({"cases",
                "loose: \"size\": [4, 4], \"image\": \"none\", \"axes\": [7], \"keys\": [\"" +
                    std::string(keys) + "\"]"},
               R"("models": {"net": {"type": "unet"}}, )") == "image path; label path");
}

TEST_CASE("flows are the same where the same can be seen of them") {
  Flow a, b;
  for (Flow* flow : {&a, &b}) {
    flow->batch = 2;
    flow->fields.push_back({.name = "x", .form = Form::batch, .channels = 3});
  }
  CHECK(a.same(b));
  b.fields[0].name = "y";
  CHECK_FALSE(a.same(b));
  b.fields[0].name = "x";
  b.batch = 4;
  CHECK_FALSE(a.same(b));
  a.batch = 4;
  CHECK(a.same(b));
  a.fields.push_back({.name = "z"});
  CHECK_FALSE(a.same(b));
}

TEST_CASE("a rule may hold for some values of a parameter alone") {
  const auto with = [](const std::string& mode) {
    return flow({"cases: \"keys\": []", "sometimes" + mode});
  };
  CHECK(with("") == "is_not_x []");
  CHECK(with(": \"mode\": \"x\"") == "is_x []; is_set []");
  CHECK(with(": \"mode\": \"y\"") == "is_not_x []; is_set []");
}

TEST_CASE("extents are known as soon as a node fixes them") {
  const auto sized = [](std::vector<std::string> nodes) {
    nodes.insert(nodes.begin(), {"cases", "load"});
    nodes.push_back("select");
    return flow(nodes);
  };
  CHECK(sized({"three"}) == "image float32 [?, ?, ?, ?]");
  CHECK(sized({"resize"}) == "image float32 [?, ...] every 8");
  CHECK(sized({"resize: \"size\": [8]"}) == "image float32 [?, ...] every 8");
  CHECK(sized({"resize", "two"}) == "image float32 [?, 8, 8]");
  CHECK(sized({"resize: \"size\": [4, 5]"}) == "image float32 [?, 4, 5]");
  CHECK(sized({"resize: \"size\": [4, 5, 6]", "resize: \"size\": [0, 7, null]"}) ==
        "image float32 [?, 4, 7, 6]");
  CHECK(sized({"resize: \"size\": [4, 5, 6]", "resize: \"size\": 9"}) ==
        "image float32 [?, 9, 9, 9]");
  CHECK(sized({"resize: \"size\": [-1, 5, 6]"}) == "image float32 [?, ?, 5, 6]");
  CHECK(sized({"resize: \"size\": \"auto\""}) == "image float32 [?, ...]");
  CHECK(sized({"two", "two"}) == "image float32 [?, ?, ?]");
  CHECK(sized({"three", "resize: \"size\": [8]"}) == "image float32 [?, 8, 8, 8]");
  CHECK(sized({"resize: \"size\": [4, 4, 4, 4]"}) == "image float32 [?, ...]");
  CHECK(sized({"resize: \"size\": 0"}) == "image float32 [?, ...]");
  CHECK(sized({"resize: \"size\": 1"}) == "image float32 [?, ...] every 1");
  CHECK(sized({"resize", "resize: \"size\": 0"}) == "image float32 [?, ...] every 8");
  CHECK(sized({"resize: \"size\": [1, 5, 6]", "pad: \"size\": [8, 2, 6]"}) ==
        "image float32 [?, 8, 5, 6]");
  CHECK(sized({"spacing: \"pixdim\": 2", "resize: \"size\": 1"}) ==
        "image float32 [?, ...] every 1");
  CHECK(sized({"spacing: \"pixdim\": 2", "pad: \"size\": 7"}) ==
        "image float32 [?, ...] varies since spacing2");
  CHECK(sized({"resize: \"size\": [4, 5, 6]", "pad: \"size\": [8, 2, 6]"}) ==
        "image float32 [?, 8, 5, 6]");
  CHECK(sized({"pad: \"size\": [8, 2, 6]"}) == "image float32 [?, ?, ?, ?]");
  CHECK(sized({"resize", "pad: \"size\": 9"}) == "image float32 [?, ...] every 9");
  CHECK(sized({"resize", "pad: \"size\": 7"}) == "image float32 [?, ...] every 8");
  CHECK(sized({"pad: \"size\": 7"}) == "image float32 [?, ...]");
  CHECK(sized({"resize: \"size\": [4, 5, 6]", "spacing"}) == "image float32 [?, ?, ?, ?]");
  CHECK(sized({"spacing"}) == "image float32 [?, ?, ?, ?] varies since spacing2");
  CHECK(sized({"spacing: \"pixdim\": 2"}) == "image float32 [?, ...] varies since spacing2");
  CHECK(sized({"spacing: \"pixdim\": \"RAS\""}) ==
        "image float32 [?, ?, ?, ?] varies since spacing2");
  CHECK(sized({"spacing: \"pixdim\": [1]"}) == "image float32 [?, ...] varies since spacing2");
  CHECK(sized({"spacing: \"pixdim\": 4"}) == "image float32 [?, ...] varies since spacing2");
  CHECK(sized({"spacing", "resize: \"size\": [4, 5, 6]"}) == "image float32 [?, 4, 5, 6]");
  CHECK(sized({"spacing", "resize: \"size\": [0, 5, 6]"}) ==
        "image float32 [?, ?, 5, 6] varies since spacing2");
  CHECK(sized({"spacing", "resize: \"size\": [0, 5, 6]", "pad: \"size\": [1, 1, 1]"}) ==
        "image float32 [?, ?, 5, 6] varies since spacing2");
}

TEST_CASE("a crop makes extents no longer, and a pad behind it as long as it says") {
  const auto sized = [](std::vector<std::string> nodes) {
    nodes.insert(nodes.begin(), {"cases", "load"});
    nodes.push_back("select");
    return flow(nodes);
  };
  const std::string crop = "crop: \"size\": [4, 5, 6]";
  CHECK(sized({crop}) == "image float32 [?, ?, ?, ?] varies since crop2");
  CHECK(sized({crop, "pad: \"size\": [4, 5, 6]"}) == "image float32 [?, 4, 5, 6]");
  CHECK(sized({crop, "pad: \"size\": [9, 5, 7]"}) == "image float32 [?, 9, 5, 7]");
  CHECK(sized({crop, "pad: \"size\": [3, 5, 7]"}) ==
        "image float32 [?, ?, 5, 7] varies since crop2");
  CHECK(sized({crop, "spacing", "pad: \"size\": [4, 5, 6]"}) ==
        "image float32 [?, ?, ?, ?] varies since spacing3");
  CHECK(sized({"resize: \"size\": [8, 8, 8]", "crop: \"size\": [4, 9, 0]"}) ==
        "image float32 [?, 4, 8, 8]");
  CHECK(sized({"resize", "crop: \"size\": 4"}) == "image float32 [?, ...] every 4");
  CHECK(sized({"resize", "crop: \"size\": 9"}) == "image float32 [?, ...] every 8");
}

TEST_CASE("where equal axes change places, extents stay") {
  const auto rotated = [](const std::string& size, const std::string& axes) {
    return flow(
        {"cases", "load", "resize: \"size\": " + size, "rotate: \"axes\": " + axes, "select"});
  };
  CHECK(rotated("[4, 4, 5]", "[0, 1]") == "image float32 [?, 4, 4, 5]");
  CHECK(rotated("[4, 5, 4]", "[0, -1]") == "image float32 [?, 4, 5, 4]");
  CHECK(rotated("[4, 4, 5]", "[1, 2]") == "image float32 [?, ?, ?, ?]");
  CHECK(rotated("[5, 4, 4]", "[0, 1]") == "image float32 [?, ?, ?, ?]");
  CHECK(rotated("[4, 4, 5]", "[0, -1]") == "image float32 [?, ?, ?, ?]");
  CHECK(rotated("[4, 4, 5]", "[1]") == "image float32 [?, 4, 4, 5]");
  CHECK(rotated("[0, 4, 4]", "[1, 2]") == "image float32 [?, ?, ?, ?] varies since rotate3");
}

TEST_CASE("a batch has as many as it gathers, and is no batch afterwards where it is taken apart") {
  const std::vector<std::string> image{"cases: \"keys\": [\"image\"]", "load: \"channels\": 1",
                                       "resize: \"size\": [4, 5]"};
  const auto then = [&](std::vector<std::string> nodes) {
    nodes.insert(nodes.begin(), image.begin(), image.end());
    return flow(nodes);
  };
  CHECK(then({"batch: \"count\": 3"}) == "image float32 [3, 1, 4, 5]");
  CHECK(then({"batch: \"count\": 3", "decollate"}) == "image float32 [1, 4, 5]");
  CHECK(then({"pair: \"names\": [\"a_\", \"b_\"]"}) ==
        "a_image float32 [1, 4, 5]; b_image float32 [1, 4, 5]");
  CHECK(flow({"cases", "batch"}) == "image path; label path");
  CHECK(flow({"cases", "load", "spacing", "batch: \"count\": 1", "select"}) ==
        "image float32 [1, ?, ?, ?, ?]");
}

TEST_CASE("what a network gives has its channels, or is no image where it classifies") {
  const std::vector<std::string> nodes{"cases: \"keys\": [\"image\"]", "load: \"channels\": 1",
                                       "batch", "forward"};
  CHECK(flow(nodes, unet) == "image float32 [2, 1, ?, ?, ?]; pred float32 [2, 2, ?, ?, ?]");
  CHECK(flow(nodes, R"("models": {"net": {"type": "unet", "out": 5, "spatial_dims": 2}}, )") ==
        "image float32 [2, 1, ?, ?]; pred float32 [2, 5, ?, ?]");
  CHECK(flow(nodes, R"("models": {"net": {"type": "classifier"}}, )") ==
        "image float32 [2, 1, ...]; pred float32 [2, 2, ...]");
  CHECK(flow(nodes, R"("models": {"net": {"type": "classifier", "mode": "classes"}}, )") ==
        "image float32 [2, 1, ...]; pred float32");
  CHECK(flow(nodes) == "image float32 [2, 1, ...]; pred float32 [2, ?, ...]");  // no such network
  CHECK(flow(nodes, R"("models": {"net": {"type": "bare"}}, )") ==
        "image float32 [2, 1, ...]; pred float32 [2, ?, ...]");
  CHECK(flow(nodes, R"("models": {"more": {"type": "unet", "out": 7},
      "net": {"type": "unet", "out": 5}}, )") ==
        "image float32 [2, 1, ?, ?, ?]; pred float32 [2, 5, ?, ?, ?]");
  CHECK(said({"cases: \"keys\": [\"image\"]", "load", "three", "batch", "forward",
              "flat: \"keys\": [\"pred\"]"},
             R"("models": {"net": {"type": "classifier", "mode": "classes"}}, )")
            .empty());
}

TEST_CASE("nodes of a step see what enters it") {
  const std::string nodes = R"([{"type": "forward"}, {"type": "loss"}, {"type": "steers", "keys":
      ["a"]}, {"type": "adam"}])",
                    keys = R"("keys": ["image", "label"])";
  const Read read({"cases", "load: " + keys, "batch", "steps: \"step\": " + nodes}, unet);
  REQUIRE(read.plan);
  CHECK(read_on_host(*read.plan, 3) == std::vector<std::string>{"a"});
  CHECK(text(read.last().flow) == "image float32 [2, ?, ...]; label float32 [2, ?, ...]");
  CHECK(said({"cases", "load: " + keys, "steps: \"step\": " + nodes}, unet) ==
        "SL0604 nodes.steps2.step.0.type at \"forward\": \"steps2.step.0\" takes a batch [N, C, X, "
        "Y, Z], but \"image\" is a single sample | put a batch node in front\n"
        "SL0604 nodes.steps2.step.1.type at \"loss\": \"steps2.step.1\" takes a batch [N, C, X, Y, "
        "Z], but \"label\" is a single sample | put a batch node in front\n");
}

TEST_CASE("gradients of a network that is trained go through what is differentiable") {
  const auto with = [](std::vector<std::string> between) {
    std::vector<std::string> nodes{
        "cases", "load: \"keys\": [\"image\", \"label\"], \"channels\": 1", "batch", "forward"};
    nodes.insert(nodes.end(), between.begin(), between.end());
    nodes.insert(nodes.end(), {"loss", "adam"});
    const Read read(nodes, unet);
    const std::string of_loss = read.plan ? text(read.plan->nodes[nodes.size() - 2].flow) : "";
    const auto at = of_loss.find("; pred");
    return at == std::string::npos ? said(nodes, unet) : of_loss.substr(at + 2);
  };
  CHECK(with({}) == "pred float32 [2, 2, ?, ?, ?] gradient; loss float32 [] gradient");
  CHECK(with({"warp: \"keys\": [\"pred\"]"}) ==
        "pred float32 [2, 2, ?, ?, ?] gradient; loss float32 [] gradient");
  CHECK(with({"warp: \"keys\": [\"label\"]"}) ==
        "pred float32 [2, 2, ?, ?, ?] gradient; loss float32 [] gradient");
  CHECK(with({"round: \"keys\": [\"pred\"]"}) ==
        "SL0613 nodes.loss5 at \"loss5\": \"loss5\" trains nothing: no gradient goes back through "
        "\"round4\" (round) | use nodes with a gradient between model and loss, such as warp\n");
  const std::string hint =
      " (round) | use nodes with a gradient between model and loss, such as warp\n";
  CHECK(with({"round: \"keys\": [\"pred\"]", "warp: \"keys\": [\"pred\"]"}) ==
        "SL0613 nodes.warp5 at \"warp5\": \"warp5\" trains nothing: no gradient goes back through "
        "\"round4\"" +
            hint +
            "SL0613 nodes.loss6 at \"loss6\": \"loss6\" trains nothing: no gradient goes back "
            "through \"round4\"" +
            hint);
  CHECK(with({"round: \"keys\": [\"pred\"]", "integers: \"keys\": [\"pred\"]",
              "select: \"keys\": [\"pred\", \"label\"]"}) ==
        "SL0613 nodes.loss7 at \"loss7\": \"loss7\" trains nothing: no gradient goes back through "
        "\"round4\"" +
            hint);
  // Once, and not by each node that follows.
  CHECK(said({"cases", "load: \"keys\": [\"image\", \"label\"]", "batch", "forward",
              "round: \"keys\": [\"pred\"]", "loss", "device_too", "adam"},
             unet) ==
        "SL0613 nodes.loss5 at \"loss5\": \"loss5\" trains nothing: no gradient goes "
        "back through \"round4\"" +
            hint);
}

TEST_CASE("a type that a parameter names is that of the fields afterwards") {
  const auto cast = [](const std::string& dtype) {
    return flow({"cases", "load: \"keys\": [\"image\", \"label\"]",
                 "cast: \"keys\": [\"image\", \"label\"], \"dtype\": " + dtype});
  };
  CHECK(cast("[\"uint8\", \"float16\"]") == "image uint8 [?, ...]; label float16 [?, ...]");
  CHECK(cast("[\"int32\"]") == "image int32 [?, ...]; label int32 [?, ...]");
  CHECK(said({"cases", "load: \"dtype\": [\"uint8\"]", "cast", "batch", "forward"}, unet).empty());
}

namespace {

const std::string net_and_judge =
    R"("models": {"net": {"type": "unet"}, "judge": {"type": "bare"}}, )";

// Behind a batch of images and labels and what "net" makes of it.
std::string said_of_two(std::vector<std::string> nodes) {
  nodes.insert(nodes.begin(),
               {"cases", "load: \"keys\": [\"image\", \"label\"]", "batch", "forward"});
  return said(nodes, net_and_judge);
}

std::string judges(const std::string& image, const std::string& pred) {
  return "forward: \"net\": \"judge\", \"image\": \"" + image + "\", \"pred\": \"" + pred + "\"";
}

}  // namespace

TEST_CASE("a network that is trained on what another one made needs no gradient through it") {
  const std::string round = "round: \"keys\": [\"pred\"]", of_said = "loss: \"pred\": \"said\"",
                    judge_step = "adam: \"net\": \"judge\"";
  CHECK(said_of_two({"loss", "adam", round, judges("pred", "said"), of_said, judge_step}).empty());
  CHECK(said_of_two({"loss", "adam", round, "warp: \"keys\": [\"pred\"]", judges("pred", "said"),
                     of_said, judge_step})
            .empty());
  // The other one, whose loss comes through the judge, does.
  CHECK(said_of_two({round, judges("pred", "said"), of_said, "adam", judges("image", "said"),
                     of_said, judge_step}) ==
        "SL0613 nodes.forward5 at \"forward5\": \"forward5\" trains nothing: no gradient goes back "
        "through \"round4\" (round) | use nodes with a gradient between model and loss, such as "
        "warp\n");
}

TEST_CASE("what a forward pass keeps serves one backward pass, with the weights that it had") {
  const std::string of_said = "loss: \"pred\": \"said\"", judge_step = "adam: \"net\": \"judge\"";
  CHECK(
      said_of_two({judges("pred", "said"), of_said, "adam", judge_step}) ==
      "SL0419 nodes.adam7.in at \"adam6\": \"adam7\" trains on a backward pass through \"loss5\", "
      "which that of \"adam6\" has used up | let a model and a loss of its own stand behind "
      "\"adam6\"\n");
  CHECK(said_of_two({judges("pred", "said"), judges("pred", "more"), "loss: \"pred\": \"more\"",
                     judge_step, of_said, "adam"}) ==
        "SL0419 nodes.adam9.in at \"loss8\": \"adam9\" trains on a backward pass through "
        "\"forward4\", which read network \"judge\" before \"adam7\" changed its weights | put "
        "\"adam7\" behind \"adam9\", or a model of \"judge\" between them\n");
  // Either one first, each with a pass of its own.
  CHECK(said_of_two(
            {judges("pred", "said"), of_said, judge_step, judges("pred", "said"), of_said, "adam"})
            .empty());
  CHECK(said_of_two(
            {judges("pred", "said"), of_said, "adam", judges("pred", "said"), of_said, judge_step})
            .empty());
  // A sum of a loss each is gone back through in two parts.
  CHECK(said_of_two({"loss: \"loss\": \"a\"", judges("image", "said"),
                     "loss: \"pred\": \"said\", \"loss\": \"b\"", "sum: \"keys\": [\"a\", \"b\"]",
                     "adam", judge_step})
            .empty());
}

TEST_CASE("what an updater goes back through is done where the tape is written") {
  const Read read(
      {"cases", "load: \"keys\": [\"image\", \"label\"]", "batch", "warp: \"keys\": [\"label\"]",
       "forward", "warp: \"keys\": [\"pred\"]", "loss", "adam", "warp: \"keys\": [\"pred\"]"},
      unet);
  REQUIRE(read.plan);
  std::string lanes;
  for (const PlanNode& n : read.plan->nodes) lanes += std::to_string(static_cast<int>(n.lane));
  CHECK(lanes == "000022200");  // 2: step
}

TEST_CASE("a field that does not arrive is named, with what does") {
  CHECK(said({"cases", "load: \"keys\": [\"imag\"]"}) ==
        "SL0601 nodes.load1.keys at \"imag\": \"load1\" needs the field \"imag\", but what arrives "
        "is \"image\", \"label\" | did you mean \"image\"?\n");
  CHECK(
      said({"cases: \"keys\": [\"x\"]", "load"}) ==
      "SL0601 nodes.load1.in at \"cases0\": \"load1\" needs the field \"image\" (by default), but "
      "what arrives is \"x\" | name the fields with \"keys\"\n");
  CHECK(said({"cases: \"keys\": []", "load: \"keys\": [\"a\", \"b\"]"}) ==
        "SL0601 nodes.load1.keys at \"a\": \"load1\" needs the field \"a\", but no field "
        "arrives\n"
        "SL0601 nodes.load1.keys at \"b\": \"load1\" needs the field \"b\", but what arrives is "
        "\"a\" | did you mean \"a\"?\n");
  CHECK(said({"cases", "load", "lenient: \"keys\": [\"none\"], \"allow_missing_keys\": true"})
            .empty());
  CHECK(said({"cases", "load", "lenient: \"keys\": [\"none\"]"}).find("SL0601") == 0);
  CHECK(said({"cases", "anything", "load: \"keys\": [\"none\"]"}).empty());
  CHECK(said({"cases", "load: \"keys\": [\"image\", \"label\", \"image\"]"}) ==
        "SL0611 nodes.load1.keys at [: \"load1.keys\" names \"image\" twice\n");
}

TEST_CASE("what is wrong is shown where it stands, in whatever line and order") {
  CHECK(said({"cases", "load: \"keys\": [\"imag\"]"}, "", 0, " ") ==
        said({"cases", "load: \"keys\": [\"imag\"]"}));
  CHECK(said({"cases", "load: \"keys\": \"@k\""}, R"("vars": {"k": ["imag"]}, )")
            .starts_with("SL0601 nodes.load1.keys at \"@k\": "));
  CHECK(said({"files: \"files\": {\"a\": 1}", "opens: \"files\": {\"a\": 1, \"c\": 2}"}) ==
        "SL0601 nodes.opens1.files at {: \"opens1\" needs the field \"c\", but what arrives is "
        "\"a\" | did you mean \"a\"?\n");
  // The nodes that made batches, or moved samples, stand first in the file.
  const std::vector<std::string> batches{"cases", "load", "batch", "resize"},
      moves{"cases", "load", "move", "device_too", "sink"},
      caches{"cases", "load", "move", "cache: \"store\": \"device\"", "device_too"};
  CHECK(said(batches, "", 2) == said(batches));
  CHECK(said(moves, "", 2) == said(moves));
  CHECK(said(caches, "", 2) == said(caches));
}

TEST_CASE("one mistake is said once") {
  CHECK(said({"cases", "load", "three", "batch", "two"}).starts_with("SL0603"));
  CHECK(said({"cases", "load", "three", "batch", "two"}).find("SL0605") == std::string::npos);
  CHECK(said({"cases", "load", "three", "two", "two"}) == said({"cases", "load", "three", "two"}));
  CHECK(said({"cases", "load", "spacing", "spacing: \"pixdim\": [1, 1]", "three", "three"}) ==
        said({"cases", "load", "spacing", "spacing: \"pixdim\": [1, 1]"}));
}

TEST_CASE("a field in another form than a node takes") {
  CHECK(
      said({"cases", "resize"}) ==
      "SL0602 nodes.resize1.in at \"cases0\": \"resize1\" works on \"image\", which is only a path "
      "here | put load_image in front\n");
  CHECK(said({"cases", "load", "batch", "resize: \"keys\": [\"image\"]"}) ==
        "SL0603 nodes.resize3.keys at [: \"resize3\" takes single samples [C, X, Y, Z], but "
        "\"image\" is a batch since \"batch2\" | put it in front of \"batch2\"\n");
  CHECK(said({"cases", "load", "batch", "batch"}) ==
        "SL0603 nodes.batch3.in at \"batch2\": \"batch3\" would make batches of batches: \"image\" "
        "is "
        "a batch already since \"batch2\" | remove one of the two\n");
  CHECK(
      said({"cases", "load", "warp"}) ==
      "SL0604 nodes.warp2.in at \"load1\": \"warp2\" takes a batch [N, C, X, Y, Z], but \"image\" "
      "is a single sample | put a batch node in front\n");
  CHECK(
      said({"cases: \"keys\": []", "number: \"numbers\": 1", "resize: \"keys\": [\"image_1\"]"}) ==
      "SL0604 nodes.resize2.keys at [: \"resize2\" cannot take \"image_1\", which is []\n");
  CHECK(said({"cases", "load", "unload"}).empty());  // loading again is useless, not wrong
  CHECK(said({"cases", "load", "integers"}).empty());
  CHECK(said({"cases", "integers"}).find("SL0602") == 0);
  CHECK(said({"cases", "load", "batch", "integers"}).empty());
}

TEST_CASE("a number of axes that does not fit") {
  CHECK(said({"cases", "load", "three", "two"}) ==
        "SL0605 nodes.two3.in at \"three2\": \"two3\" takes 2 spatial axes, but \"image\" has 3 "
        "(three2)\n");
  CHECK(said({"cases", "load", "two", "three: \"keys\": [\"image\"]"}) ==
        "SL0605 nodes.three3.keys at [: \"three3\" takes 3 spatial axes, but \"image\" has 2 "
        "(two2)\n");
  CHECK(said({"cases", "load", "spacing", "spacing: \"pixdim\": [1, 1]"}) ==
        "SL0605 nodes.spacing3.pixdim at [: \"spacing3.pixdim\" is for 2 spatial axes, but "
        "\"image\" has 3 (spacing2.pixdim)\n");
  CHECK(
      said({"cases", "load", "three", "flat"}).starts_with("SL0605 nodes.flat3.in at \"three2\""));
  CHECK(said({"cases", "load", "spacing: \"pixdim\": \"R\"", "solid"}) ==
        "SL0605 nodes.solid3.in at \"spacing2\": \"solid3\" takes 2 spatial axes, but \"image\" "
        "has 1 "
        "(spacing2.pixdim)\n");
  CHECK(said({"cases", "load", "two", "solid"}).empty());
  // One number is for all axes, also where it is as small as a number of axes.
  CHECK(said({"cases", "load", "three", "spacing: \"pixdim\": 1"}).empty());
  CHECK(said({"cases", "load", "three", "resize: \"size\": 2"}).empty());
  CHECK(said({"cases", "load", "three", "counts: \"count\": 2"}) ==
        "SL0605 nodes.counts3.count at 2: \"counts3.count\" is for 2 spatial axes, but "
        "\"image\" has 3 (three2)\n");
  CHECK(said({"cases", "load", "three", "counts: \"count\": 3"}).empty());
  CHECK(said({"cases", "load", "two", "rotate: \"axes\": [0, 2]"}) ==
        "SL0606 nodes.rotate3.axes at [: \"rotate3.axes\" names axis 2, but \"image\" has "
        "the spatial axes 0 to 1 (two2)\n");
  CHECK(said({"cases", "load", "two", "rotate: \"axes\": [0, -3]"}).find("names axis -3") !=
        std::string::npos);
  CHECK(said({"cases", "load", "two", "rotate: \"axes\": [1, -2]"}).empty());
}

TEST_CASE("what enters a network fits its channels, axes, type and strides") {
  const auto into = [](const std::string& load, const std::string& resize, const std::string& net) {
    return said({"cases: \"keys\": [\"image\"]", "load: \"channels\": 1" + load,
                 "resize: \"size\": " + resize, "batch", "forward"},
                "\"models\": {\"net\": {\"type\": \"unet\"" + net + "}}, ");
  };
  CHECK(into("", "[4, 8, 12]", "").empty());
  CHECK(into("", "[4, 8]", "") ==
        "SL0605 nodes.forward4.in at \"batch3\": network \"net\" has 3 spatial axes, but \"image\" "
        "has "
        "2 (resize2.size)\n");
  CHECK(
      into("", "[4, 8, 12]", ", \"in_channels\": 3") ==
      "SL0607 nodes.forward4.in at \"batch3\": network \"net\" takes 3 channels, but \"image\" has "
      "1\n");
  CHECK(into(", \"dtype\": [\"uint8\"]", "[4, 8, 12]", "") ==
        "SL0610 nodes.forward4.in at \"batch3\": network \"net\" computes with float32, but "
        "\"image\" "
        "is uint8 | let load_image or a transform make it float32\n");
  CHECK(into(", \"dtype\": [\"bfloat16\"]", "[4, 8, 12]", "").empty());
  CHECK(into("", "[4, 6, 12]", "") ==
        "SL0609 nodes.forward4.in at \"batch3\": network \"net\" halves extents, so they must be "
        "multiples of 4, but axis 1 of \"image\" has 6 | pad or crop to 8 or 4\n");
  CHECK(into("", "[4, 4, 3]", "") ==
        "SL0609 nodes.forward4.in at \"batch3\": network \"net\" halves extents, so they must be "
        "multiples of 4, but axis 2 of \"image\" has 3 | pad or crop to 4\n");
  CHECK(
      into("", "[9, 4, 4]", ", \"strides\": [[3], [2, 1, 1]]") ==
      "SL0609 nodes.forward4.in at \"batch3\": network \"net\" divides extents by its strides, so "
      "they must be multiples of 6, but axis 0 of \"image\" has 9 | pad or crop to 12 or 6\n");
  CHECK(into("", "[6, 3, 3]", ", \"strides\": [[3], [2, 1, 1]]").empty());
  CHECK(into("", "[0, 4, 4]", "").empty());
  CHECK(into("", "[4, 8, 12]", ", \"strides\": [[0], [2]]").empty());
  CHECK(into("", "[4, 8, 12]", ", \"strides\": [[1048576], [3]]").find("multiples of 1048576,") !=
        std::string::npos);
  CHECK(into("", "8", "").empty());
  CHECK(into("", "6", "").find("axis 0 of \"image\" has 6") != std::string::npos);
  CHECK(said({"cases", "load", "infer: \"size\": [4, 4, 6]"}, unet) ==
        "SL0609 nodes.infer2.size at [: network \"net\" halves extents, so they must be "
        "multiples of 4, but axis 2 of \"infer2.size\" has 6 | pad or crop to 8 or 4\n");
  CHECK(said({"cases", "load", "infer: \"size\": [4, 4, 8]"}, unet).empty());
}

TEST_CASE("samples of several sizes are not stacked") {
  CHECK(said({"cases", "load: \"keys\": [\"image\", \"label\"]",
              "spacing: \"keys\": [\"image\", \"label\"]", "batch"}) ==
        "SL0612 nodes.batch3.in at \"spacing2\": \"batch3\" stacks samples of one shape, but "
        "\"spacing2\" makes \"image\" of a size that depends on the sample | put a crop or "
        "resize_with_pad_or_crop between them\n");
  CHECK(said({"cases", "load", "spacing", "batch: \"count\": 1"}).empty());
  CHECK(said({"cases", "load", "spacing", "resize", "batch"}).empty());
}

TEST_CASE("what works on host memory stands in front of a move to a device") {
  CHECK(said({"cases", "load", "move", "device_too", "sink"}) ==
        "SL0608 nodes.sink4.in at \"device_too3\": \"sink4\" works on host memory, but \"move2\" "
        "moved the "
        "samples to the device | put it in front of \"move2\"\n");
  CHECK(said({"cases", "load", "move", "move: \"device\": \"cpu\"", "sink"}).empty());
  CHECK(said({"cases", "load", "move", "modes: \"mode\": \"cubic\""}) ==
        "SL0608 nodes.modes3.mode at \"cubic\": \"modes3.mode\" is \"cubic\", which is done on the "
        "host only, but \"move2\" moved the samples to the device | put it in front of \"move2\", "
        "or use one of \"\", \"linear\", \"nearest\"\n");
  CHECK(said({"cases", "load", "move", "modes: \"mode\": \"linear\""}).empty());
  CHECK(said({"cases", "load", "modes: \"mode\": \"cubic\""}).empty());
  CHECK(
      said({"cases", "load", "move", "cache: \"store\": \"disk\"", "device_too"}) ==
      "SL0608 nodes.cache3.store at \"disk\": \"cache3\" keeps samples of the host for later runs, "
      "but \"move2\" moved the samples to the device | put it in front of \"move2\"\n");
  CHECK(said({"cases", "load", "move", "cache: \"store\": \"device\"", "device_too"}).empty());
  CHECK(said({"cases", "load", "cache: \"store\": \"device\"", "device_too"}) ==
        "SL0422 nodes.cache2.store at \"device\": \"cache2\" keeps samples on a device, but "
        "nothing in "
        "front moves them there | put it behind to_device, or leave \"store\" out\n");
}

TEST_CASE("with a device its nodes work on the copy lane, and small fields stay on the host") {
  const Read read({"cases", "load", "move", "device_too", "steers: \"keys\": [\"a\"]",
                   "steers: \"keys\": [\"a\", \"b\"]", "device_too"},
                  "", {.device = true});
  REQUIRE(read.plan);
  std::string lanes;
  for (const PlanNode& n : read.plan->nodes) lanes += std::to_string(static_cast<int>(n.lane));
  CHECK(lanes == "0003330");  // 3: copy; the last one only reads
  CHECK(read.plan->nodes[2].stays == std::vector<std::string>{"a", "b"});
  CHECK(read_on_host(*read.plan, 5) == std::vector<std::string>{"a", "b"});
  CHECK(read_on_host(*read.plan, 3).empty());
}

TEST_CASE("a cache's size is known where each sample's is") {
  const auto need = [](const std::string& cases, const std::string& load, const std::string& more) {
    const Read read({"cases: \"keys\": [\"image\"]" + cases, "load" + load,
                     "resize: \"size\": [10, 20]", "cache" + more, "resize: \"size\": [10, 20]"});
    REQUIRE(read.plan);
    return cache_need(*read.plan, 3).text();
  };
  CHECK(need("", ": \"channels\": 3", "") == "2.4 KB an item");
  CHECK(need("", "", "") == "at least 800 B an item");
  CHECK(need(", \"limit\": 5", ": \"channels\": 3", "") == "2.4 KB an item, 12.0 KB for 5");
  CHECK(need("", ": \"channels\": 3, \"dtype\": [\"uint8\"]", "") == "600 B an item");
  CHECK(need("", ": \"dtype\": [\"\"]", "").empty());
  CHECK(in_bytes(0) == "0 B");
  CHECK(in_bytes(999) == "999 B");
  CHECK(in_bytes(1000) == "1.0 KB");
  CHECK(in_bytes(2.5e6) == "2.5 MB");
  CHECK(in_bytes(2.5e9) == "2.5 GB");
  CHECK(in_bytes(2.5e12) == "2.5 TB");
  CHECK(in_bytes(2.5e15) == "2500.0 TB");
}

TEST_CASE("a device has room for what is in flight there, and for its caches") {
  const auto read = [](const std::string& budget, const std::string& cache) {
    return Read(
        {"cases: \"keys\": [\"image\"]", "load: \"channels\": 1", "resize: \"size\": [10, 10, 10]",
         "move: \"ahead\": 3", "cache" + cache, "stack: \"count\": 2", "device_too"},
        "\"run\": {\"device_budget\": " + budget + "},\n", {.device = true});
  };
  const auto first = [&](const std::string& budget, const std::string& cache) {
    const Read r = read(budget, cache);
    const Diagnostic& d = r.diagnostics.all().front();
    return d.code == "SL0319" ? ""
                              : d.code + " " + d.path + " at " + r.at(d.place) + ": " + d.message;
  };
  const std::string own = ": \"store\": \"device\", \"budget\": 5000";
  CHECK(first("null", "").empty());
  CHECK(first("60000", "").empty());
  CHECK(first("59999", "") ==
        "SL0431 run.device_budget at 59999: run.device_budget is 60.0 KB, but there may be on the "
        "device 3 x 4.0 KB from move3, 4 x 4.0 KB from cache4 and 4 x 8.0 KB from stack5: 60.0 KB");
  CHECK(first("65000", own).empty());
  CHECK(first("64000", own) ==
        "SL0431 run.device_budget at 64000: run.device_budget is 64.0 KB, but there may be on the "
        "device 3 x 4.0 KB from move3, 4 x 4.0 KB from cache4 and 4 x 8.0 KB from stack5: 60.0 KB, "
        "and 5.0 KB of caches' budgets");
  const Read r = read("null", ": \"store\": \"device\"");
  REQUIRE(r.plan);
  const DeviceNeed need = device_need(*r.plan);
  CHECK(need.exact);
  CHECK(need.flying() == 60'000);
  CHECK(need.unbounded == 1);
  CHECK(need.budgets == 0);
  CHECK(need.share(100'000) == 40'000);
  CHECK(need.share(60'000) == 0);
  CHECK(need.share(59'999) == 0);
}
