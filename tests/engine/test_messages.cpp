// What is said of parameters, inner nodes and wires that are wrong: code, place, text and hint.
#include <doctest/doctest.h>

#include <sstream>

#include "engine/base/diagnostic.h"
#include "engine/graph/graph.h"

using namespace sluice;

namespace {

struct P {
  std::int64_t whole = 3, count = 2, odd = 3, low = 1, high = 9;
  double share = 0.5, least = 1, large = 1;
  bool on = false;
  std::string word = "one", only = "one", text, other, root, net;
  std::vector<std::int64_t> two{1, 2}, some{1}, few{1}, as_two{1, 2}, one_more{1, 2, 3},
      three{1, 2, 3}, as_three{1, 2, 3}, rise, from{1};
  std::optional<std::vector<std::int64_t>> to;
  std::vector<std::string> words, per_two;
  std::vector<std::vector<double>> nested;
  std::optional<double> limit;
  std::optional<std::vector<std::string>> names;
  std::vector<Json> groups;
  Json norm = "instance", transforms = Json::array(), step = Json::array(), layers = Json::object();
};

const Catalogue& types() {
  static const Catalogue all = [] {
    Catalogue c;
    c.add(Spec("s", "").out("sample").source());
    c.add(Spec("p", "")
              .in("sample")
              .out("sample")
              .param("whole", &P::whole, "")
              .range(-1, 9)
              .param("share", &P::share, "")
              .above(0)
              .below(1)
              .param("least", &P::least, "")
              .at_least(0.25)
              .param("large", &P::large, "")
              .range(0, 2e15)
              .param("on", &P::on, "")
              .param("word", &P::word, "")
              .choices({"one", "two"})
              .param("only", &P::only, "")
              .choices({"one"})
              .param("words", &P::words, "")
              .choices({"one", "two"})
              .param("norm", &P::norm, "")
              .choices({"instance", "batch"})
              .param("two", &P::two, "")
              .length(2, 2)
              .param("some", &P::some, "")
              .length(1)
              .param("few", &P::few, "")
              .length(1, 3)
              .param("odd", &P::odd, "")
              .range(1, 9)
              .odd()
              .param("rise", &P::rise, "")
              .rising()
              .param("nested", &P::nested, "")
              .param("text", &P::text, "")
              .param("other", &P::other, "")
              .exclusive("text", "other")
              .param("transforms", &P::transforms, "")
              .param("groups", &P::groups, ""));
    c.add(Spec("rules", "")
              .in("sample")
              .out("sample")
              .param("limit", &P::limit, "")
              .param("names", &P::names, "")
              .one_of("limit", "names")
              .param("two", &P::two, "")
              .param("as_two", &P::as_two, "")
              .length_of("two")
              .param("one_more", &P::one_more, "")
              .length_of("two", 1)
              .param("per_two", &P::per_two, "")
              .per("two")
              .param("three", &P::three, "")
              .param("as_three", &P::as_three, "")
              .length_of("three")
              .param("low", &P::low, "")
              .below("high")
              .param("high", &P::high, "")
              .param("from", &P::from, "")
              .at_most("to")
              .param("to", &P::to, ""));
    c.add(Spec("needs", "")
              .in("sample")
              .out("sample")
              .param("root", &P::root, "A folder.")
              .required());
    c.add(
        Spec("many", "").in("sample").out("sample").param("count", &P::count, "").expands("count"));
    c.add(Spec("plain", "").in("sample").out("sample").param("on", &P::on, ""));
    c.add(
        Spec("ports", "").in("first").in("second").in_optional("third").out("image").out("label"));
    c.add(Spec("fwd", "").in("sample").out("sample").param("net", &P::net, "").reads("net"));
    c.add(Spec("adam", "").in("sample").out("sample").param("net", &P::net, "").updates("net"));
    c.add(Spec("steps", "")
              .in("sample")
              .out("sample")
              .param("net", &P::net, "")
              .updates("net")
              .param("step", &P::step, ""));
    c.add(Spec("sink", "").in("sample"));
    c.add(Spec::network("unet", ""));
    c.add(Spec::network("layered", "")
              .param("layers", &P::layers, "")
              .members({Spec("conv", "").param("count", &P::count, ""), Spec("pool", "")}));
    return c;
  }();
  return all;
}

// Of `nodes` beside a source "s": code, path and what stands there, text and hint.
std::string said_of(const std::string& nodes, const std::string& top = "") {
  const std::string text = "{" + top + "\"nodes\": {\"s\": {\"type\": \"s\"}, " + nodes + "}}";
  Diagnostics diagnostics;
  const auto graph =
      load_graph(parse_document("g.json", text, diagnostics), types(), {}, diagnostics);
  CHECK(graph.has_value() == diagnostics.ok());
  std::string out;
  for (const Diagnostic& d : diagnostics.all()) {
    const Mark mark = d.place.mark();
    CHECK(mark.line == 1);
    out += d.code + " " + d.path + " at " +
           text.substr(static_cast<std::size_t>(mark.column - 1),
                       static_cast<std::size_t>(mark.length)) +
           ": " + d.message + (d.hint.empty() ? "" : " | " + d.hint) + "\n";
    for (const std::string& note : d.notes) out += "  " + note + "\n";
  }
  return out;
}

// Of node "n" of a type with these parameters.
std::string of(const std::string& type, const std::string& params, const std::string& top = "") {
  return said_of(
      R"("n": {"type": ")" + type + R"(", "in": "s")" + (params.empty() ? "" : ", ") + params + "}",
      top);
}
std::string of(const std::string& params) { return of("p", params); }

const std::string net = R"("models": {"net": {"type": "unet"}}, )";

}  // namespace

TEST_CASE("a value of another type") {
  CHECK(of(R"("whole": "4")") ==
        "SL0227 nodes.n.whole at \"4\": \"whole\": expected int, found \"4\" (string) | write 4 "
        "without quotes\n");
  CHECK(of(R"("whole": "x")") ==
        "SL0222 nodes.n.whole at \"x\": \"whole\": expected int, found \"x\" (string)\n");
  CHECK(of(R"("whole": 1.5)") ==
        "SL0228 nodes.n.whole at 1.5: \"whole\": expected int, found 1.5 (float)\n");
  CHECK(of(R"("whole": 2.0)").empty());
  CHECK(of(R"("whole": 1e30)") ==
        "SL0228 nodes.n.whole at 1e30: \"whole\": expected int, found 1e+30 (float)\n");
  CHECK(of(R"("whole": null)") ==
        "SL0229 nodes.n.whole at null: \"whole\": expected int, found null | leave it out for the "
        "default, 3\n");
  CHECK(of(R"("whole": true)") ==
        "SL0222 nodes.n.whole at true: \"whole\": expected int, found true (bool)\n");
  CHECK(of(R"("whole": [1])") ==
        "SL0222 nodes.n.whole at [: \"whole\": expected int, found a list of 1 | one value, no "
        "list\n");
  CHECK(of(R"("whole": {})") ==
        "SL0222 nodes.n.whole at {: \"whole\": expected int, found an object\n");
  CHECK(of(R"("on": 1)") ==
        "SL0222 nodes.n.on at 1: \"on\": expected true or false, found 1 (int) | write true\n");
  CHECK(of(R"("on": 0)") ==
        "SL0222 nodes.n.on at 0: \"on\": expected true or false, found 0 (int) | write false\n");
  CHECK(of(R"("on": 2)") ==
        "SL0222 nodes.n.on at 2: \"on\": expected true or false, found 2 (int)\n");
  CHECK(of(R"("on": "true")") ==
        "SL0227 nodes.n.on at \"true\": \"on\": expected true or false, found \"true\" (string) | "
        "write true without quotes\n");
  CHECK(of(R"("text": 3)") ==
        "SL0222 nodes.n.text at 3: \"text\": expected string, found 3 (int) | strings stand in "
        "quotes: \"3\"\n");
  CHECK(of(R"("text": true)") ==
        "SL0222 nodes.n.text at true: \"text\": expected string, found true (bool) | strings stand "
        "in quotes: \"true\"\n");
  CHECK(
      of(R"("share": "0.5")") ==
      "SL0227 nodes.n.share at \"0.5\": \"share\": expected float, found \"0.5\" (string) | write "
      "0.5 without quotes\n");
  CHECK(of(R"("two": "ab")") ==
        "SL0222 nodes.n.two at \"ab\": \"two\": expected int or a list of them, found \"ab\" "
        "(string)\n");
  CHECK(of(R"("two": [1, "2"])") ==
        "SL0227 nodes.n.two.1 at \"2\": \"two\": expected int, found \"2\" (string) | write 2 "
        "without quotes\n");
  CHECK(of(R"("nested": [[1], ["a"]])") ==
        "SL0222 nodes.n.nested.1.0 at \"a\": \"nested\": expected float, found \"a\" (string)\n");
}

TEST_CASE("a long text is told from its beginning, in whole letters") {
  const auto told = [](const std::string& text) {
    const std::string said = describe_json(text);
    CHECK(said.ends_with(" (string)"));
    return said.substr(0, said.size() - 9);
  };
  const std::string x58(58, 'x');
  CHECK(told(x58) == "\"" + x58 + "\"");
  CHECK(told(x58 + "yz") == "\"" + x58 + "y...\"");
  CHECK(told(x58 + "äz") == "\"" + x58 + "...\"");
}

TEST_CASE("a value beyond a bound") {
  for (const char* within : {"\"whole\": 9", "\"whole\": -1", "\"share\": 0.5", "\"least\": 0.25"})
    CHECK(of(within).empty());
  CHECK(of(R"("whole": 10)") ==
        "SL0223 nodes.n.whole at 10: \"whole\": expected -1 to 9, found 10\n");
  CHECK(of(R"("whole": -2)") ==
        "SL0223 nodes.n.whole at -2: \"whole\": expected -1 to 9, found -2\n");
  CHECK(of(R"("share": 0)") ==
        "SL0223 nodes.n.share at 0: \"share\": expected more than 0, found 0\n");
  CHECK(of(R"("share": 1.0)") ==
        "SL0223 nodes.n.share at 1.0: \"share\": expected less than 1, found 1.0\n");
  CHECK(of(R"("least": 0.2)") ==
        "SL0223 nodes.n.least at 0.2: \"least\": expected at least 0.25, found 0.2\n");
  CHECK(of(R"("large": -1)") ==
        "SL0223 nodes.n.large at -1: \"large\": expected 0 to 2e+15, found -1\n");
}

TEST_CASE("a word that is no choice") {
  CHECK(of(R"("word": "twoo")") ==
        "SL0230 nodes.n.word at \"twoo\": \"word\": expected one of \"one\", \"two\", found "
        "\"twoo\" | did you mean \"two\"?\n");
  CHECK(of(R"("only": "x")") ==
        "SL0230 nodes.n.only at \"x\": \"only\": expected \"one\", found \"x\"\n");
  CHECK(
      of(R"("words": ["one", "thirteen"])") ==
      "SL0230 nodes.n.words.1 at \"thirteen\": \"words\": expected one of \"one\", \"two\", found "
      "\"thirteen\"\n");
  CHECK(of(R"("norm": "Instnce")") ==
        "SL0230 nodes.n.norm at \"Instnce\": \"norm\": expected one of \"instance\", \"batch\", "
        "found \"Instnce\" | did you mean \"instance\"?\n");
  CHECK(of(R"("norm": ["BATHC", {}])") ==
        "SL0230 nodes.n.norm.0 at \"BATHC\": \"norm\": expected one of \"instance\", \"batch\", "
        "found \"BATHC\" | did you mean \"BATCH\"?\n");
  for (const char* known : {"\"InsTance\"", "[\"BATCH\", {}]", "[]", "3", "[3]"})
    CHECK(of("\"norm\": " + std::string(known)).empty());
}

TEST_CASE("a list of another length") {
  CHECK(of(R"("two": [1])") ==
        "SL0231 nodes.n.two at [: \"two\": expected a list of 2, found a list of 1\n");
  CHECK(of(R"("two": 7)") ==
        "SL0231 nodes.n.two at 7: \"two\": expected a list of 2, found 7 (int)\n");
  CHECK(of(R"("some": [])") ==
        "SL0231 nodes.n.some at [: \"some\": expected a list of 1 or more, found a list of 0\n");
  CHECK(of(R"("few": [1, 2, 3, 4])") ==
        "SL0231 nodes.n.few at [: \"few\": expected a list of 1 to 3, found a list of 4\n");
  for (const char* fits : {"\"few\": [1, 2, 3]", "\"few\": 1", "\"some\": 4", "\"two\": [3, 4]"})
    CHECK(of(fits).empty());
}

TEST_CASE("parameters that do not go together") {
  CHECK(of(R"("text": "a", "other": "b")") ==
        "SL0232 nodes.n.other at \"b\": \"text\" and \"other\" exclude each other | remove one of "
        "them\n");
  CHECK(of(R"("text": "a", "other": "")").empty());
  const auto with = [](const std::string& params) { return of("rules", params); };
  CHECK(with("") ==
        "SL0233 nodes.n at \"n\": \"rules\" needs one of \"limit\" and \"names\" | add one of "
        "them\n");
  CHECK(with(R"("limit": 1, "names": ["a"])") ==
        "SL0232 nodes.n.names at [: \"limit\" and \"names\" exclude each other | remove one of "
        "them\n");
  CHECK(with(R"("limit": 0)").empty());
  CHECK(with(R"("names": [])").starts_with("SL0233"));
  const std::string set = R"("limit": 1, )";
  CHECK(with(set + R"("as_two": [1, 2, 3])") ==
        "SL0234 nodes.n.as_two at [: \"as_two\": expected 2 entries, found 3 | \"two\" has 2\n");
  CHECK(with(set + R"("one_more": [1, 2])") ==
        "SL0234 nodes.n.one_more at [: \"one_more\": expected 3 entries, found 2 | \"two\" has "
        "2\n");
  CHECK(with(set + R"("three": 5)") ==
        "SL0234 nodes.n.three at 5: \"as_three\": expected 1 entry, found 3 (by default) | "
        "\"three\" has 1\n");
  CHECK(
      with(
          set +
          R"("two": [1, 2, 3], "as_two": [1, 2, 3], "one_more": [1, 2, 3, 4], "per_two": ["a", "b"])")
          .find("SL0234 nodes.n.per_two") == 0);
  for (const char* enough : {"[\"a\"]", "[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]"})
    CHECK(with(set + "\"per_two\": " + enough).empty());
  CHECK(with(set + R"("per_two": [])") ==
        "SL0234 nodes.n.per_two at [: \"per_two\": expected 2 entries, or one for all, found 0 | "
        "\"two\" has 2\n");
}

TEST_CASE("numbers in the wrong order, and even ones where an odd one is needed") {
  CHECK(of(R"("odd": 4)") == "SL0223 nodes.n.odd at 4: \"odd\": expected an odd number, found 4\n");
  CHECK(of(R"("odd": 10)") == "SL0223 nodes.n.odd at 10: \"odd\": expected 1 to 9, found 10\n");
  CHECK(of(R"("odd": 5, "rise": [-1, 2, 2])").empty());
  CHECK(of(R"("rise": [1, 3, 2])") ==
        "SL0236 nodes.n.rise.2 at 2: \"rise\": expected at least the 3 before it, found 2\n");
  const auto with = [](const std::string& params) {
    return of("rules", R"("limit": 1, )" + params);
  };
  CHECK(with(R"("low": 9)") ==
        "SL0236 nodes.n.low at 9: \"low\": expected less than the 9 of \"high\", found 9\n");
  CHECK(with(R"("high": 0)") ==
        "SL0236 nodes.n.high at 0: \"low\": expected less than the 0 of \"high\", found 1\n");
  CHECK(with(R"("low": 2, "high": 3)").empty());
  CHECK(with(R"("from": [1, 2], "to": [1, 1])") ==
        "SL0236 nodes.n.from at [: \"from\": expected at most the 1 of \"to\", found 2\n");
  CHECK(with(R"("from": [1, 2], "to": 2)").empty());
  CHECK(with(R"("from": 3, "to": [3, 2])").starts_with("SL0236"));
  CHECK(with(R"("from": [1, 2], "to": null)").empty());
  CHECK(with(R"("from": [9], "to": [])").empty());
  CHECK(with(R"("from": [1, 2, 9], "to": [1, 2])").empty());  // whose lengths another rule holds
}

TEST_CASE("parameters that lack, are unknown or count nothing") {
  CHECK(of("needs", "") ==
        "SL0224 nodes.n at \"n\": \"needs\" needs \"root\" (string)\n  \"root\": A folder.\n");
  CHECK(of(R"("woord": "one")") ==
        "SL0221 nodes.n.woord at \"woord\": \"p\" has no parameter \"woord\" | did you mean "
        "\"word\"?\n");
  CHECK(of(R"("nothing_like_it": 1)") ==
        "SL0221 nodes.n.nothing_like_it at \"nothing_like_it\": \"p\" has no parameter "
        "\"nothing_like_it\" | `sluice inspect p` lists them\n");
  CHECK(of(R"("x-note": 1, "ui": 2)").empty());
  CHECK(of("many", R"("count": 0)") ==
        "SL0226 nodes.n.count at 0: \"count\": expected at least 1, found 0\n");
  CHECK(of("many", R"("count": 1)").empty());
}

TEST_CASE("a type that is missing, unknown or of something else") {
  CHECK(said_of(R"("n": {"in": "s"})") ==
        "SL0208 nodes.n at \"n\": \"n\" has no \"type\" and no \"part\" | `sluice inspect` lists "
        "the types\n");
  CHECK(said_of(R"("n": {"type": 3, "in": "s"})") ==
        "SL0201 nodes.n.type at 3: expected the name of a node type, found 3 (int)\n");
  CHECK(said_of(R"("n": {"tpye": "p", "in": "s"})") ==
        "SL0202 nodes.n.tpye at \"tpye\": unknown key \"tpye\" | did you mean \"type\"?\n");
  CHECK(
      said_of(R"("n": {"type": "plaim", "in": "s"})") ==
      "SL0203 nodes.n.type at \"plaim\": unknown node type \"plaim\" | did you mean \"plain\"?\n");
  CHECK(
      said_of(R"("n": {"type": "unet", "in": "s"})") ==
      "SL0212 nodes.n.type at \"unet\": \"unet\" is a network, not a node type | declare it under "
      "\"models\" and name it in a \"model\" node\n");
  CHECK(of("plain", "", R"("models": {"m": {"type": "plain"}}, )") ==
        "SL0212 models.m.type at \"plain\": \"plain\" is a node type, not a network | nodes stand "
        "under \"nodes\"\n");
  CHECK(of("plain", "", R"("models": {"m": {}}, )") ==
        "SL0208 models.m at \"m\": \"m\" has no \"type\" | `sluice inspect` lists the types\n");
  CHECK(of("plain", "", R"("models": {"m": {"type": "unte"}}, )") ==
        "SL0213 models.m.type at \"unte\": unknown network \"unte\" | did you mean \"unet\"?\n");
}

TEST_CASE("a network that is not there") {
  CHECK(of("fwd", R"("net": "net")", net).empty());
  CHECK(of("fwd", R"("net": "net")") ==
        "SL0225 nodes.n.net at \"net\": no network is called \"net\" | the graph has no "
        "\"models\"\n");
  CHECK(of("fwd", R"("net": "another")", net) ==
        "SL0225 nodes.n.net at \"another\": no network is called \"another\" | there is \"net\"\n");
  CHECK(of("fwd", R"("net": "nett")", net) ==
        "SL0225 nodes.n.net at \"nett\": no network is called \"nett\" | did you mean \"net\"?\n");
}

TEST_CASE("nodes inside of a node") {
  const auto inside = [](const std::string& value) { return of("\"transforms\": " + value); };
  CHECK(inside(R"([{"type": "plain"}, {"type": "plain", "on": true}])").empty());
  CHECK(inside(R"({"type": "plain"})").empty());
  CHECK(inside("3") ==
        "SL0222 nodes.n.transforms at 3: expected {\"type\": ...} or a list of them, found 3 "
        "(int)\n");
  CHECK(inside(R"([{"type": "plain", "onn": 1}])") ==
        "SL0221 nodes.n.transforms.0.onn at \"onn\": \"plain\" has no parameter \"onn\" | did you "
        "mean \"on\"?\n");
  CHECK(inside(R"([{"type": "plain"}, [{"type": "plain", "on": 1}]])")
            .starts_with("SL0222 nodes.n.transforms.1.0.on at 1: "));
  for (const char* type : {"many", "ports", "sink", "fwd", "s"})
    CHECK(inside(R"([{"type": ")" + std::string(type) + R"("}])") ==
          "SL0222 nodes.n.transforms.0.type at \"" + std::string(type) +
              "\": expected a transform, found \"" + type +
              "\" () | inside a node can stand what makes one sample of one\n");
}

TEST_CASE("nodes of a step") {
  const auto step = [](const std::string& value) {
    return of("steps", "\"net\": \"net\", \"step\": " + value, net);
  };
  const std::string fwd = R"({"type": "fwd", "net": "net"})", adam = R"({"type": "adam"})";
  CHECK(
      step("[" + fwd + ", {\"type\": \"plain\"}, {\"type\": \"adam\", \"net\": \"net\"}]").empty());
  CHECK(step("[]") ==
        "SL0222 nodes.n.step at [: \"step\": expected a list of nodes, from the network's pass to "
        "its updater\n");
  CHECK(step("[" + fwd + "]") ==
        "SL0222 nodes.n.step.0 at {: \"step\": its last node, \"fwd\", updates no network\n");
  CHECK(step(R"([[{"type": "plain"}]])") ==
        "SL0222 nodes.n.step.0 at [: \"step\": expected {\"type\": ...}, found a list of 1\n");
  CHECK(step(R"([{"type": "many"}])") ==
        "SL0222 nodes.n.step.0.type at \"many\": expected a node of a step, found \"many\" () | "
        "inside a node can stand what makes one sample of one\n"
        "SL0222 nodes.n.step.0 at {: \"step\": its last node, \"many\", updates no network\n");
  CHECK(step("[{\"type\": \"adam\", \"net\": \"net\"}, {\"type\": \"adam\", \"net\": \"net\"}]") ==
        "SL0222 nodes.n.step.0 at {: \"step\": \"adam\" updates a network before the last node\n");
}

TEST_CASE("an optimizer's groups of parameters") {
  const auto groups = [](const std::string& value) { return of("\"groups\": " + value); };
  CHECK(groups(R"([{"match": "^a.*b$", "lr": 0.1}])").empty());
  CHECK(groups("[3]") ==
        "SL0222 nodes.n.groups.0 at 3: expected {\"match\": ...}, found 3 (int)\n");
  CHECK(
      groups(R"([{"match": "a"}, {"match": "("}])")
          .starts_with("SL0222 nodes.n.groups.1.match at \"(\": this is no regular expression: "));
  CHECK(groups(R"([{"lr": 1}])") ==
        "SL0224 nodes.n.groups.0 at {: \"groups\" needs \"match\" (string)\n"
        "  \"match\": Found in a parameter's name.\n");
  CHECK(
      groups(R"([{"match": "a", "lrr": 1}])") ==
      "SL0221 nodes.n.groups.0.lrr at \"lrr\": \"groups\" has no parameter \"lrr\" | did you mean "
      "\"lr\"?\n");
  CHECK(
      groups(R"([{"match": "a", "nothing_like_it": 1}])") ==
      "SL0221 nodes.n.groups.0.nothing_like_it at \"nothing_like_it\": \"groups\" has no parameter "
      "\"nothing_like_it\" | known are \"match\", \"lr\", \"lr_scale\", \"weight_decay\", "
      "\"from_epoch\", \"frozen\"\n");
  CHECK(
      groups(R"([{"match": "a", "lr": 1, "lr_scale": 2}])") ==
      "SL0232 nodes.n.groups.0.lr_scale at 2: \"lr\" and \"lr_scale\" exclude each other | remove "
      "one of them\n");
}

TEST_CASE("the layers of a network") {
  const auto layers = [](const std::string& value) {
    return of("plain", "", R"("models": {"m": {"type": "layered", "layers": )" + value + "}}, ");
  };
  CHECK(layers(R"({"a": {"type": "conv", "count": 3, "in": "x"}, "b": {"type": "pool"}})").empty());
  CHECK(layers("3") ==
        "SL0222 models.m.layers at 3: expected {\"name\": {\"type\": ...}}, found 3 (int)\n");
  CHECK(layers(R"({"a": 3})") ==
        "SL0222 models.m.layers.a at 3: expected {\"type\": ...}, found 3 (int)\n");
  CHECK(layers(R"({"a": {}, "b": {"type": 3}})") ==
        "SL0208 models.m.layers.a at \"a\": \"m.layers.a\" has no \"type\"\n"
        "SL0201 models.m.layers.b.type at 3: expected the name of a type, found 3 (int)\n");
  CHECK(layers(R"({"a": {"type": "cnov"}})") ==
        "SL0203 models.m.layers.a.type at \"cnov\": unknown type \"cnov\" | did you mean "
        "\"conv\"?\n");
  CHECK(layers(R"({"a": {"type": "something"}})") ==
        "SL0203 models.m.layers.a.type at \"something\": unknown type \"something\" | there are "
        "\"conv\", \"pool\"\n");
  CHECK(layers(R"({"a": {"type": "pool", "count": 3}})") ==
        "SL0221 models.m.layers.a.count at \"count\": \"pool\" has no parameter \"count\" | known "
        "are \"type\", \"in\", \"desc\"\n");
}

TEST_CASE("inputs in a form that none has") {
  const auto in = [](const std::string& type, const std::string& value) {
    return said_of("\"n\": {\"type\": \"" + type + "\", \"in\": " + value + "}");
  };
  const std::string forms = "\"in\" is \"node\", \"node.port\" or {\"port\": \"node.port\"}, not ";
  CHECK(in("plain", R"(["s"])") ==
        "SL0316 nodes.n.in at [: " + forms + "a list of 1 | write \"in\": \"s\"\n");
  CHECK(in("plain", R"(["s", "t"])") ==
        "SL0316 nodes.n.in at [: " + forms + "a list of 2 | there is one input, \"sample\"\n");
  CHECK(in("plain", "3") ==
        "SL0305 nodes.n.in at 3: " + forms + "3 (int) | write \"in\": \"NODE\"\n");
  CHECK(in("ports", "3") == "SL0305 nodes.n.in at 3: " + forms +
                                "3 (int) | name the ports: {\"first\": \"NODE\", \"second\": "
                                "\"NODE\", \"third\": \"NODE\"}\n");
  CHECK(in("ports", R"(["s", 3])") ==
        "SL0316 nodes.n.in at [: " + forms +
            "a list of 2 | name the ports: {\"first\": \"s\", \"second\": \"NODE\"}\n");
  CHECK(in("plain", R"({"sample": 3})") ==
        "SL0305 nodes.n.in.sample at 3: expected \"node\" or \"node.port\", found 3 (int)\n");
  CHECK(in("plain", R"("")") == "SL0301 nodes.n.in at \"\": an empty name names no node\n");
  CHECK(
      in("s", R"("s")") ==
      "SL0307 nodes.n.in at \"in\": \"s\" is a source and takes no input | \"after\" makes it wait "
      "for an updater's epochs\n");
}

TEST_CASE("inputs that are not connected, or unknown") {
  const auto in = [](const std::string& value) {
    return said_of("\"n\": {\"type\": \"ports\"" + (value.empty() ? "" : ", \"in\": " + value) +
                   "}");
  };
  CHECK(in(R"({"first": "s", "second": "s"})").empty());
  CHECK(in("") ==
        "SL0304 nodes.n at \"n\": inputs \"first\", \"second\" of \"ports\" are not connected | "
        "write \"in\": {\"first\": \"NODE\", \"second\": \"NODE\"}\n");
  CHECK(
      in(R"("s")") ==
      "SL0304 nodes.n.in at \"s\": input \"second\" of \"ports\" is not connected | write \"in\": "
      "{\"first\": \"s\", \"second\": \"NODE\"}\n");
  CHECK(in(R"({"second": "s", "third": "s"})") ==
        "SL0304 nodes.n.in at {: input \"first\" of \"ports\" is not connected | write \"in\": "
        "{\"first\": \"NODE\", \"second\": \"s\", \"third\": \"s\"}\n");
  CHECK(in(R"({"frist": "s", "second": "s"})") ==
        "SL0303 nodes.n.in.frist at \"frist\": \"ports\" has no input \"frist\" | did you mean "
        "\"first\"?\n");
  CHECK(
      in(R"({"first": "s", "second": "s", "x": "s"})") ==
      "SL0303 nodes.n.in.x at \"x\": \"ports\" has no input \"x\" | it has \"first\", \"second\", "
      "\"third\"\n");
  CHECK(said_of(R"("n": {"type": "plain"})") ==
        "SL0304 nodes.n at \"n\": input \"sample\" of \"plain\" is not connected | add \"in\": "
        "\"NODE\"\n");
}

TEST_CASE("outputs that are not there, and nodes that cannot be left out") {
  const std::string two = R"("two": {"type": "ports", "in": {"first": "s", "second": "s"} MORE}, )";
  const auto of_two = [&](const std::string& more, const std::string& in) {
    std::string text = two + "\"n\": {\"type\": \"plain\", \"in\": \"" + in + "\"}";
    return said_of(text.replace(text.find(" MORE"), 5, more));
  };
  CHECK(of_two("", "two.label").empty());
  CHECK(of_two("", "two.labl") ==
        "SL0302 nodes.n.in at \"two.labl\": \"two\" (ports) has no output \"labl\" | did you mean "
        "\"label\"?\n");
  CHECK(of_two("", "two.other") ==
        "SL0302 nodes.n.in at \"two.other\": \"two\" (ports) has no output \"other\" | it has "
        "\"image\", \"label\"\n");
  CHECK(of_two(", \"disabled\": true", "two") ==
        "SL0309 nodes.two.disabled at true: \"two\" cannot be disabled: \"ports\" has 3 inputs and "
        "2 outputs | only a node with one of each, or a sink, can be\n");
  CHECK(said_of(R"("k": {"type": "sink", "in": "s"}, "n": {"type": "plain", "in": "k"})") ==
        "SL0308 nodes.n.in at \"k\": \"k\" (sink) has no output to read from | it ends its stream; "
        "it reads \"s\"\n");
  CHECK(
      said_of(R"("t": {"type": "s", "disabled": true})") ==
      "SL0317 nodes.t.disabled at true: \"t\" cannot be disabled: \"s\" is a source | disable the "
      "sinks behind it, or take the nodes out\n");
}
