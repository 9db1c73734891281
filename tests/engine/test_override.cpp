// --set: what is changed, added and removed, what is refused, and in which words.
#include "engine/graph/override.h"

#include <doctest/doctest.h>

#include "engine/base/diagnostic.h"
#include "engine/graph/graph_node.h"
#include "tests/text.h"
#include "toy_graph.h"

using namespace sluice;

namespace {

struct Set {
  Diagnostics found;
  InnerOverrides inner;
  Json root;
  explicit Set(const std::vector<std::string>& texts, const std::string& text = toys::whole_graph) {
    const DocumentPtr document = parse_document("g.json", text, found);
    REQUIRE(document);
    root = apply_overrides(document, parse_overrides(texts, found), inner, found)->root;
  }
  // "SL0501 message | hint" of the first that is wrong.
  std::string said() const {
    if (found.all().empty()) return "";
    const Diagnostic& d = found.all().front();
    return d.code + " " + d.message + (d.hint.empty() ? "" : " | " + d.hint);
  }
};

std::string said(const std::string& text, const std::string& graph = toys::whole_graph) {
  return Set({text}, graph).said();
}

}  // namespace

TEST_CASE("a text behind --set is a path and a value, with + to add and ~ to remove") {
  Diagnostics found;
  const auto all = parse_overrides({"a.b=1", "+a=x=y", "~a.b", "c=", "~"}, found);
  CHECK(found.all().empty());
  REQUIRE(all.size() == 5);
  using Act = Override::Act;
  CHECK((all[0].path == "a.b" && all[0].value == "1" && all[0].act == Act::set));
  CHECK((all[1].path == "a" && all[1].value == "x=y" && all[1].act == Act::add));
  CHECK((all[2].path == "a.b" && all[2].value.empty() && all[2].act == Act::remove));
  CHECK((all[3].path == "c" && all[3].value.empty()));
  CHECK(all[4].path.empty());
  for (const char* wrong : {"a", "=1", "+=1", "+a", "", "\xff=1"}) {
    Diagnostics refused;
    CAPTURE(wrong);
    CHECK(parse_overrides({wrong, "a=1"}, refused).size() == 1);
    REQUIRE(refused.all().size() == 1);
    CHECK(refused.all()[0].code == "SL0502");
  }
  CHECK(said("a") ==
        "SL0502 --set a: expected path=value | or +path=value to add, ~path to remove");
}

TEST_CASE("a value is JSON where it can be read as that, and else a text") {
  const auto value = [](const std::string& text) {
    Diagnostics found;
    const Json read = override_value(text, found);
    return read.dump() + (found.all().empty() ? "" : " " + found.all()[0].code);
  };
  CHECK(value("1") == "1");
  CHECK(value("[1, \"a\"]") == R"([1,"a"])");
  CHECK(value("true") == "true");
  CHECK(value("a b") == R"("a b")");
  CHECK(value("") == R"("")");
  CHECK(value("{") == R"("{")");
  CHECK(value(R"({"a": 1, "a": 2})").ends_with(" SL0103"));
}

TEST_CASE("what + names is added, at the end of a list too, and only where it was not") {
  CHECK(Set({"+vars.more=[1]"}).root["vars"]["more"] == Json({1}));
  CHECK(Set({"+models.net.channels.2=32"}).root["models"]["net"]["channels"] == Json({8, 16, 32}));
  CHECK(Set({R"(+nodes.new={"type": "flip", "in": "s"})"}).root["nodes"]["new"]["type"] == "flip");
  CHECK(Set({"+parts.prepare.params.more=2"}).root["parts"]["prepare"]["params"]["more"] == 2);
  CHECK(said("+vars.root=1") ==
        "SL0503 vars.root is there already | --set vars.root=... without the + changes it");
  CHECK(said("+models.net.channels.3=1") ==
        "SL0512 models.net.channels has no element 3: it has 2, counted from 0 | the last one is "
        "1");
  CHECK(said("+models.net.channels.1=1").starts_with("SL0503"));
  CHECK(said("models.net.channels.2=1").starts_with("SL0512"));
  CHECK(said("models.net.channels.1x=1").starts_with("SL0512"));
  CHECK(said("models.net.channels.-1=1").starts_with("SL0512"));
  const std::string empty = R"({"vars": {"l": []}, "nodes": {}})";
  CHECK(said("vars.l.0=1", empty) == "SL0512 vars.l has no element 0: it has 0, counted from 0");
  CHECK(Set({"+vars.l.0=1"}, empty).root["vars"]["l"] == Json({1}));
}

TEST_CASE("a graph that lacks the objects at its top gets them with +, and run without") {
  const std::string bare = R"({"nodes": {}})";
  for (const std::string top : {"vars", "models", "parts", "run"})
    CHECK(Set({"+" + top + ".x=1"}, bare).root[top]["x"] == 1);
  CHECK(Set({"run.stop.patience=2"}, bare).root["run"]["stop"]["patience"] == 2);
  CHECK(Set({"name=n", "desc=d"}, bare).root["desc"] == "d");
  for (const char* path :
       {"vars.x=1", "models.x=1", "parts.x=1", "nodse.x=1", "ui=1", "+nodse.x=1"})
    CHECK(said(path, bare).starts_with("SL0501 no such path: the graph has no "));
  CHECK(said("run.stop.of.metric=1", bare).starts_with("SL0501 no such path: run.stop"));
  // Of names that the file gives, only those that exist can be set.
  CHECK(said("vars.x=1").starts_with("SL0501 no such path: vars has no \"x\""));
  CHECK(said("models.x=1").starts_with("SL0501 no such path: models has no \"x\""));
  CHECK(said("parts.prepare.nodes.x=1").starts_with("SL0501 no such path: parts.prepare.nodes"));
  CHECK(said("parts.prepare.params.x=1").starts_with("SL0501 no such path: parts.prepare.params"));
  CHECK(Set({"parts.prepare.nodes.load.x=1"}).said() == "");
}

TEST_CASE("what ~ names is removed, and must be there") {
  CHECK_FALSE(Set({"~vars.depth"}).root["vars"].contains("depth"));
  CHECK_FALSE(Set({"~models"}).root.contains("models"));
  CHECK(Set({"~models.net.channels.0"}).root["models"]["net"]["channels"] == Json({16}));
  CHECK(said("~models.net.channels.2").starts_with("SL0512"));
  CHECK(said("~vars.dept") ==
        "SL0501 no such path: vars has no \"dept\" | did you mean vars.depth?");
  CHECK(said("~nodes.step.lr.x") == "SL0501 nodes.step.lr is 1 (int) and has no \"x\"");
  CHECK(said("~vars.x", R"({"nodes": {}})") ==
        "SL0501 no such path: the graph has no \"vars\" | it has nodes: a run's graph has values "
        "in the places of variables, set those");
  CHECK(said("~a..b") == "SL0502 the path \"a..b\" has an empty name");
  CHECK(said("~") == "SL0502 the path \"\" has an empty name");
}

TEST_CASE("a node in a part is changed where the part is used, or it is said why not") {
  const auto load = [](const std::string& text) {
    Diagnostics found;
    const auto overrides = parse_overrides({text}, found);
    toys::Loaded loaded = toys::load(toys::whole_graph, overrides);
    const auto& all = loaded.diagnostics.all();
    if (!loaded.graph) return all[0].code + " " + all[0].message + " at " + all[0].place.str();
    return loaded.graph->nodes[1].params.dump();
  };
  CHECK(load("nodes.pre/load.keys=pet") == R"({"keys":"pet"})");
  CHECK(load("~nodes.pre/load.keys") == R"({"keys":["image"]})");
  CHECK(load("nodes.pre/load.keys.1=pet") ==
        "SL0501 no such path: there is no \"1\" to set at --set nodes.pre/load.keys.1=pet");
  CHECK(load("~nodes.pre/load.none") ==
        "SL0501 no such path: there is no \"none\" to remove at --set ~nodes.pre/load.none");
  CHECK(load("nodes.pre/load.none.x=1") ==
        "SL0501 no such path: there is no \"none\" to set at --set nodes.pre/load.none.x=1");
  CHECK(load("nodes.pre/load.type.x=1") ==
        "SL0501 no such path: there is no \"x\" to set at --set nodes.pre/load.type.x=1");
}

TEST_CASE("a node's type and parameters on the command line are checked as a file's are") {
  static const Catalogue types = toys::catalogue();
  const auto check = [](const std::string& type, const std::vector<std::string>& params) {
    Diagnostics found;
    const LoneNode node = check_lone_node(type, parse_overrides(params, found), types, found);
    std::string out = node.spec ? node.spec->name + " " + node.params.dump() : "none";
    for (const std::string& name : node.given) out += " " + name;
    for (const Diagnostic& d : found.all())
      out += "\n" + d.code + " " + d.message + " at " + d.place.str();
    return out;
  };
  CHECK(check("flip", {}) == R"(flip {"prob":0.5,"axes":null})");
  CHECK(check("flip", {"axes=[0]", "prob=1"}) == R"(flip {"prob":1,"axes":[0]} prob axes)");
  CHECK(check("unet", {"channels=[1, 2]"}) == R"(unet {"channels":[1,2],"dropout":0.5} channels)");
  CHECK(check("flpi", {}) == "none\nSL0203 unknown node type \"flpi\" at sluice apply flpi");
  CHECK(check("flip", {"prob=0.5", "prob=1"}) ==
        "flip {\"prob\":0.5,\"axes\":null} prob\n"
        "SL0502 --param prob is given twice at --param prob=1");
  CHECK(check("flip", {"type=crop", "prob=1"}) ==
        "flip {\"prob\":1,\"axes\":null} prob\n"
        "SL0221 \"flip\" has no parameter \"type\" at --param type=crop");
  CHECK(check("flip", {"prob=2"}).ends_with("at --param prob=2"));
  CHECK(contains(check("flip", {R"(axes={"a": 1, "a": 2})"}), "\nSL0103 "));
}
