#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <utility>

#include "engine/graph/schema.h"
#include "toy_graph.h"

using namespace sluice;

namespace {

struct P {
  bool on = false, off = true;
  std::int64_t count = 2, whole = 3, odd = 3;
  double share = 0.5, factor = 1;
  std::string word = "one", text, other, net;
  std::vector<std::int64_t> sizes{1, 2}, many;
  std::vector<std::vector<double>> nested;
  std::optional<std::vector<std::string>> names;
  std::optional<double> limit;
  Json anything = nullptr, norm = "instance", transforms = Json::array(), step = Json::array(),
       layers = Json::object();
};

// Every kind of parameter, port, rule and type.
Catalogue every_kind() {
  Catalogue c;
  c.add(Spec("source", "Makes.")
            .out("sample")
            .source()
            .param("word", &P::word, "A word.")
            .required()
            .choices({"one", "two"})
            .param("text", &P::text, "A text.")
            .required()
            .param("sizes", &P::sizes, "A list.")
            .required()
            .param("on", &P::on, "A switch.")
            .required()
            .param("count", &P::count, "A number.")
            .required());
  c.add(Spec("parameters", "Has all kinds of parameters.")
            .in("sample", "What comes in.")
            .out("sample")
            .expands("count")
            .param("count", &P::count, "How many.")
            .param("whole", &P::whole, "Bounded.")
            .range(-1, 9)
            .param("share", &P::share, "Bounded without the ends.")
            .above(0)
            .below(1)
            .param("factor", &P::factor, "Bounded at one end.")
            .at_least(0.25)
            .param("word", &P::word, "A choice.")
            .choices({"one", "two"})
            .param("text", &P::text, "A text.")
            .param("other", &P::other, "Instead of it.")
            .exclusive("text", "other")
            .param("sizes", &P::sizes, "Two.")
            .length(2, 2)
            .param("many", &P::many, "One or more.")
            .length(1)
            .length_of("sizes")
            .param("odd", &P::odd, "Odd.")
            .odd()
            .param("nested", &P::nested, "Lists of lists.")
            .param("names", &P::names, "Names, or none.")
            .per("sizes")
            .param("limit", &P::limit, "A number, or none.")
            .one_of("limit", "names")
            .param("anything", &P::anything, "Whatever it may be.")
            .param("norm", &P::norm, "A name, or one with arguments.")
            .choices({"instance", "Batch2"}));
  c.add(Spec("ports", "Has several ports.")
            .in("first", "The first.")
            .in("second")
            .in_optional("third")
            .out("sample"));
  c.add(Spec("either", "Needs one port alone.").in("first").in_optional("second").out("sample"));
  c.add(Spec("none", "Needs no port.").in_optional("first").out("sample"));
  c.add(Spec("holds", "Holds other nodes.")
            .in("sample")
            .out("sample")
            .param("transforms", &P::transforms, "Nodes.")
            .length(1));
  c.add(Spec("steps", "Holds a step.")
            .in("sample")
            .out("sample")
            .param("net", &P::net, "A network.")
            .required()
            .updates("net")
            .param("step", &P::step, "Nodes of a step."));
  c.add(
      Spec("adam", "Updates.").in("sample").out("sample").param("net", &P::net, "").updates("net"));
  c.add(Spec("sink", "Keeps.").in("sample").ordered());
  c.add(Spec::network("layered", "Of layers.")
            .param("layers", &P::layers, "By name.")
            .members({Spec("conv", "Convolves.").param("count", &P::count, "Channels.").required(),
                      Spec("pool", "Pools.")}));
  return c;
}

}  // namespace

// A definition a line, without the settings that every node and network has. With
// SLUICE_UPDATE_GOLDEN=1 the file is written first. tests/cli hold what check refuses against what
// the schema says.
TEST_CASE("The schema of all kinds of types is that of the golden file") {
  Json schema = graph_schema(every_kind());
  const Json run = std::exchange(schema["properties"]["run"], Json());
  std::string text;
  for (auto& [name, definition] : schema["definitions"].items()) {
    if (definition.contains("properties"))
      for (const Spec* settings : {&node_settings_spec(), &model_settings_spec()})
        for (const ParamSpec& p : settings->params) definition["properties"].erase(p.name);
    text += name + ": " + definition.dump() + "\n";
  }
  schema.erase("definitions");
  text += "graph: " + schema.dump() + "\n";
  const std::string path = SLUICE_SOURCE_DIR "/tests/golden/every_kind.schema.txt";
  if (std::getenv("SLUICE_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream in(path);
  CHECK(text == std::string{std::istreambuf_iterator<char>(in), {}});
  CHECK(run["additionalProperties"] == false);
  for (const char* group : {"stop", "checkpoint"}) {
    const Json& either = run["properties"][group]["anyOf"];
    REQUIRE(either.size() == 2);
    CHECK(either[0]["properties"].size() > 2);
    CHECK(either[1] == Json{{"$ref", "#/definitions/reference"}});
  }
  CHECK(run["properties"]["stop"]["anyOf"][0]["required"] == Json{"metric"});
}

TEST_CASE("A node's settings are in its schema, and those of sources in theirs alone") {
  const Json all = graph_schema(every_kind())["definitions"];
  for (const char* name : {"node.source", "node.parameters"})
    for (const ParamSpec& p : node_settings_spec().params) {
      CAPTURE(p.name);
      const bool of_sources = p.name == "after" || p.name == "every_epochs";
      CHECK(all[name]["properties"].contains(p.name) ==
            (!of_sources || name == std::string("node.source")));
    }
  for (const ParamSpec& p : model_settings_spec().params)
    CHECK(all["network.layered"]["properties"].contains(p.name));
  CHECK_FALSE(all["inside.holds"]["properties"].contains("lane"));
  CHECK(all["use"]["properties"].size() == 4);
}

TEST_CASE("The schema says of a node what its Spec says") {
  const Json schema = graph_schema(toys::catalogue());
  const Json& flip = schema["definitions"]["node.flip"];
  CHECK(flip["additionalProperties"] == false);
  CHECK(flip["properties"]["prob"]["default"] == 0.5);
  CHECK(flip["properties"]["prob"]["anyOf"][0].dump() ==
        R"({"type":"number","minimum":0.0,"maximum":1.0})");
  CHECK(flip["properties"]["in"]["anyOf"][1]["properties"].contains("sample"));
  CHECK_FALSE(flip["properties"].contains("after"));
  const Json& cases = schema["definitions"]["node.cases"];
  CHECK(cases["required"].dump() == R"(["type","root"])");
  CHECK(cases["properties"]["split"]["anyOf"][0]["enum"].dump() == R"(["training","validation"])");
  CHECK(cases["properties"].contains("after"));
  CHECK_FALSE(cases["properties"].contains("in"));
  CHECK(schema["definitions"].contains("network.unet"));
  CHECK_FALSE(schema["definitions"].contains("node.unet"));
}

TEST_CASE("Every reference of the schema leads to a definition") {
  const Json schema = graph_schema(toys::catalogue());
  int found = 0;
  const std::function<void(const Json&)> walk = [&](const Json& j) {
    if (j.is_object() && j.contains("$ref") && j["$ref"].is_string()) {
      const std::string to = j["$ref"].get<std::string>().substr(1);
      CHECK_MESSAGE(schema.contains(Json::json_pointer(to)), to);
      ++found;
    }
    if (j.is_structured())
      for (const auto& e : j) walk(e);
  };
  walk(schema);
  CHECK(found > 50);
}

TEST_CASE("A catalogue read back from its JSON makes the same schema, and is the same JSON") {
  const Catalogue all = every_kind();
  const Catalogue again = Catalogue::from_json(all.to_json());
  CHECK(again.to_json() == all.to_json());
  CHECK(graph_schema(again) == graph_schema(all));
  Catalogue twice;
  twice.add(Spec("one", ""));
  CHECK_THROWS_WITH(twice.add(Spec("one", "")), "type registered twice: one");
  CHECK(twice.find("one"));
  CHECK_FALSE(twice.find("on"));
  CHECK_FALSE(twice.find("two"));
}

TEST_CASE("A type in a catalogue's JSON has each trait that it was declared with") {
  const Spec spec = Spec::from_json(Spec("all", "Has all.")
                                        .in("a", "An input.")
                                        .in_optional("b")
                                        .out("c", "An output.")
                                        .lane(LaneKind::io)
                                        .limit(3)
                                        .random()
                                        .rearranging()
                                        .fuses(Fuses::resamples)
                                        .ordered()
                                        .merges()
                                        .gate("count")
                                        .chooses()
                                        .param("net", &P::net, "A network.")
                                        .needed_when("word", {"one", "two"})
                                        .needs({"text", "count"})
                                        .begins_at("it never begins")
                                        .reads("net")
                                        .follows("text")
                                        .watches("word")
                                        .writes({"text"})
                                        .differentiable()
                                        .reports({"mean", "of_*"})
                                        .takes("@names", Form::batch, 2, 3)
                                        .gives("pred", Form::image)
                                        .like("label")
                                        .channels("@count")
                                        .dtype("float32")
                                        .when("on", true)
                                        .exclusive("a", "b")
                                        .length_of("sizes", 1)
                                        .to_json());
  CHECK(spec.name == "all");
  CHECK(spec.doc == "Has all.");
  REQUIRE(spec.ins.size() == 2);
  CHECK((spec.ins[0].name == "a" && spec.ins[0].doc == "An input." && !spec.ins[0].optional));
  CHECK((spec.ins[1].name == "b" && spec.ins[1].optional));
  CHECK((spec.outs.at(0).name == "c" && spec.outs[0].doc == "An output."));
  CHECK(spec.lane_kind == LaneKind::io);
  CHECK(spec.concurrency == 1);  // it is ordered
  CHECK(spec.is_random);
  CHECK(spec.rearranges);
  CHECK(spec.fusing == Fuses::resamples);
  CHECK(spec.is_ordered);
  CHECK(spec.merging);
  CHECK(spec.is_gate);
  CHECK(spec.credits_param == "count");
  CHECK(spec.chooses_items);
  CHECK(spec.access == Access::read);
  CHECK(spec.network_params == std::vector<std::string>{"net"});
  REQUIRE(spec.params.at(0).use);
  const ParamUse& use = *spec.params[0].use;
  CHECK(use.reader == "word");
  CHECK(use.read_at == std::vector<std::string>{"one", "two"});
  CHECK(use.needed);
  CHECK(use.needs == std::vector<std::string>{"text", "count"});
  CHECK(use.never_begun == "it never begins");
  CHECK(spec.follows_param == "text");
  CHECK(spec.metric_param == "word");
  CHECK(spec.file_params == std::vector<std::string>{"text"});
  CHECK(spec.is_differentiable);
  CHECK(spec.metrics == std::vector<std::string>{"mean", "of_*"});
  REQUIRE(spec.rules.size() == 2);
  CHECK(spec.rules[0].act == FieldRule::Act::takes);
  CHECK((spec.rules[0].fields == "@names" && spec.rules[0].form == Form::batch));
  CHECK((spec.rules[0].least == 2 && spec.rules[0].most == 3));
  CHECK(spec.rules[1].act == FieldRule::Act::gives);
  CHECK((spec.rules[1].like == "label" && spec.rules[1].channels == "@count"));
  CHECK((spec.rules[1].dtype == "float32" && spec.rules[1].when == "on"));
  CHECK(spec.rules[1].value == true);
  REQUIRE(spec.param_rules.size() == 2);
  CHECK(spec.param_rules[0].kind == ParamRule::Kind::exclusive);
  CHECK((spec.param_rules[0].a == "a" && spec.param_rules[0].b == "b"));
  CHECK(spec.param_rules[1].shift == 1);
}
