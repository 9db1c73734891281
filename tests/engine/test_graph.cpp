#include <doctest/doctest.h>

#include <chrono>
#include <sstream>

#include "engine/graph/graph.h"
#include "toy_graph.h"

using namespace sluice;
using toys::faults;
using toys::hint;
using toys::load;
using toys::whole_graph;

// `nodes` with a source "s" and a reader "l" before what a test brings.
static std::string with(const std::string& more, const std::string& top = "") {
  return "{" + top + "\"nodes\": {\"s\": {\"type\": \"cases\", \"root\": \"d\"},\n" +
         "\"l\": {\"type\": \"load\", \"in\": \"s\"},\n" + more + "}}";
}

TEST_CASE("A whole graph is read: variables, parts, defaults, settings, inputs") {
  const auto loaded = load(whole_graph);
  REQUIRE_MESSAGE(loaded.graph, faults(loaded.diagnostics));
  const Graph& g = *loaded.graph;
  CHECK(g.name == "toy");
  CHECK(g.desc == "everything at once");
  std::string paths;
  for (const auto& n : g.nodes) paths += n.path + " ";
  CHECK(
      paths ==
      "train pre/load pre/kept crop batch fwd step val vpre/load vpre/kept parts both run score ");

  const auto& train = g.nodes[0];
  CHECK(train.params.dump() == R"({"root":"/data","split":"training","shuffle":true})");
  CHECK(train.given == std::vector<std::string>{"root", "shuffle"});
  CHECK(train.place.str() == "g.json:12:14");
  CHECK(g.nodes[1].params.dump() == R"({"keys":["image","label"]})");
  CHECK(g.nodes[1].on_error == OnError::quarantine);
  CHECK(g.nodes[1].place.str() == "g.json:9:15");
  CHECK(g.nodes[8].params.dump() == R"({"keys":["image"]})");
  CHECK(g.nodes[3].params.dump() == R"({"size":[4,6],"num_samples":2})");
  CHECK(g.nodes[3].inputs[0].from == 2);
  CHECK(g.nodes[4].inputs[0].from == 3);  // past the disabled one
  CHECK(g.nodes[4].desc == "pairs");
  CHECK(g.nodes[7].after == "step");
  CHECK(g.nodes[7].every_epochs == 2);
  CHECK(g.nodes[10].lane == "io");
  CHECK(g.nodes[10].max_bad == 1);
  const auto& both = g.nodes[11].inputs;
  REQUIRE(both.size() == 2);
  CHECK(both[0].port == 0);
  CHECK(both[0].from_port == 0);
  CHECK(both[1].from_port == 1);
  CHECK(both[1].place.str() == "g.json:23:47");

  REQUIRE(g.models.size() == 1);
  CHECK(g.models[0].params.dump() == R"({"channels":[8,16],"dropout":0.5})");
  CHECK(g.models[0].weights.file == "w.safetensors");
  CHECK(g.run.epochs == 3);
  CHECK(g.run.seed == 7);
  CHECK(g.run.stop->metric == "score.mean");
  CHECK(g.run.stop->at_least == 0.9);
  CHECK(g.run.checkpoint_every == 2);
  CHECK(g.run.checkpoint_keep == 1);
  CHECK(g.run.max_bad == 4);
  CHECK(g.run.watchdog_s == 1.5);
  CHECK(g.find("vpre/kept") == 9);
  CHECK(g.find("vpre") == -1);
}

// Everything of a graph but its places.
static std::string content(const Graph& g) {
  std::ostringstream out;
  out << g.name << '|' << g.desc << '\n' << g.resolved.dump() << '\n';
  for (const auto& n : g.nodes) {
    out << n.path << ' ' << n.spec->name << ' ' << n.params.dump() << ' ' << Json(n.given).dump()
        << ' ' << static_cast<int>(n.on_error) << ' ' << n.max_bad << ' ' << n.lane << ' '
        << n.after << ' ' << n.every_epochs << ' ' << n.desc;
    for (const auto& in : n.inputs) out << ' ' << in.port << '<' << in.from << '.' << in.from_port;
    out << '\n';
  }
  for (const auto& m : g.models) out << m.name << m.spec->name << m.params.dump() << m.weights.file;
  const auto& r = g.run;
  out << r.epochs << ' ' << r.seed << ' ' << r.stop.has_value() << ' ' << r.checkpoint_every << ' '
      << r.checkpoint_keep << ' ' << r.max_bad << ' ' << r.threads << ' ' << r.io_threads << ' '
      << r.step_threads << ' ' << r.watchdog_s;
  return out.str();
}

TEST_CASE("The resolved graph, loaded again, is the same graph") {
  const auto first = load(whole_graph);
  REQUIRE(first.graph);
  const auto second = load(first.graph->resolved.dump(2));
  REQUIRE_MESSAGE(second.graph, faults(second.diagnostics));
  CHECK(content(*first.graph) == content(*second.graph));
  CHECK(first.graph->resolved["nodes"]["both"].dump() ==
        R"({"type":"join","in":{"image":"parts","label":"parts.label"}})");
  CHECK(first.graph->resolved["nodes"]["pre/load"].dump() ==
        R"({"type":"load","in":"train","keys":["image","label"],"on_error":"quarantine"})");
}

TEST_CASE("Parts nest, have several inputs and named outputs, and see their own parameters first") {
  const auto loaded = load(R"({"vars": {"k": ["far"], "far": ["v"]},
    "parts": {
      "inner": {"in": "a", "out": "l", "params": {"k": ["own"]},
                "nodes": {"l": {"type": "load", "in": "a", "keys": "@k"}}},
      "outer": {"in": ["one", "two"], "out": {"image": "s.label", "raw": "second"},
                "params": {"given": ["none"]}, "nodes": {
        "first": {"part": "inner", "in": "one", "k": "@given"},
        "second": {"part": "inner", "in": "two"},
        "s": {"type": "split", "in": "first"}}}},
    "nodes": {
      "a": {"type": "cases", "root": "r"},
      "o": {"part": "outer", "in": {"one": "a", "two": "a"}, "given": "@far"},
      "j": {"type": "join", "in": {"image": "o.raw", "label": "o"}}}})");
  REQUIRE_MESSAGE(loaded.graph, faults(loaded.diagnostics));
  const Graph& g = *loaded.graph;
  CHECK(g.nodes[1].path == "o/first/l");
  CHECK(g.nodes[1].params["keys"].dump() == R"(["v"])");
  CHECK(g.nodes[2].path == "o/second/l");
  CHECK(g.nodes[2].params["keys"].dump() == R"(["own"])");
  const auto& j = g.nodes[4];
  CHECK(g.nodes[static_cast<std::size_t>(j.inputs[0].from)].path == "o/second/l");
  CHECK(g.nodes[static_cast<std::size_t>(j.inputs[1].from)].path == "o/s");
  CHECK(j.inputs[1].from_port == 1);
}

TEST_CASE("A port behind a part's name is that of its one out") {
  const auto loaded = load(R"({
    "parts": {"p": {"in": "a", "out": "s", "nodes": {"s": {"type": "split", "in": "a"}}}},
    "nodes": {"a": {"type": "cases", "root": "r"}, "p": {"part": "p", "in": "a"},
      "l": {"type": "dice", "in": "p.label"}}})");
  REQUIRE_MESSAGE(loaded.graph, faults(loaded.diagnostics));
  CHECK(loaded.graph->nodes[2].inputs[0].from_port == 1);
}

TEST_CASE("A disabled sink is left out and a disabled part is bypassed") {
  const auto loaded = load(R"({
    "parts": {"p": {"in": "a", "out": "f", "nodes": {"f": {"type": "flip", "in": "a"}}}},
    "nodes": {"a": {"type": "cases", "root": "r"},
      "p": {"part": "p", "in": "a", "disabled": true},
      "d": {"type": "dice", "in": "p"}, "e": {"type": "dice", "in": "p", "disabled": true}}})");
  REQUIRE_MESSAGE(loaded.graph, faults(loaded.diagnostics));
  REQUIRE(loaded.graph->nodes.size() == 2);
  CHECK(loaded.graph->nodes[1].inputs[0].from == 0);
}

TEST_CASE("Order in the file means nothing") {
  const auto loaded = load(R"({"nodes": {"d": {"type": "dice", "in": "l"},
    "l": {"type": "load", "in": "s"}, "s": {"type": "cases", "root": "r"}}})");
  REQUIRE(loaded.graph);
  CHECK(loaded.graph->nodes[0].inputs[0].from == 1);
}

// ---- what is wrong ------------------------------------------------------------------------------

TEST_CASE("Wrong structure") {
  CHECK(faults("[1]") == "SL0201 1:1 \n");
  CHECK(faults("{}") == "SL0210 1:1 \n");
  CHECK(faults(R"({"nodes": {}})") == "SL0210 1:11 nodes\n");
  CHECK(faults(R"({"nodes": []})") == "SL0216 1:11 nodes\n");
  CHECK(faults(with(R"("n": 3)")) == "SL0201 3:6 nodes.n\n");
  CHECK(faults(with(R"("n.a": {"type": "dice", "in": "l"})")) == "SL0204 3:1 nodes.n.a\n");
  CHECK(faults(with(R"("n": {"in": "l"})")) == "SL0208 3:1 nodes.n\n");
  CHECK(faults(with(R"("n": {"type": 3, "in": "l"})")) == "SL0201 3:15 nodes.n.type\n");
  CHECK(faults(with(R"("n": {"type": "dice", "in": "l"})",
                    "\"nmae\": \"x\",\n\"vars\": 3,\n\"desc\": 4,\n\"models\": [],")) ==
        "SL0202 1:2 nmae\nSL0201 2:9 vars\nSL0201 3:9 desc\nSL0216 4:11 models\n");
  CHECK(hint(with(R"("n": {"type": "dice", "in": "l"})", "\"nmae\": \"x\",\n")) ==
        "did you mean \"name\"?");
  CHECK(faults(R"({"nodes": {"s": {"type": "cases", "root": "d", "disabled": false}},
                   "parts": 1, "run": 2})") == "SL0201 2:29 parts\nSL0201 2:39 run\n");
}

TEST_CASE("A node that is named twice") {
  CHECK(faults(with("\"s\": {\"type\": \"cases\", \"root\": \"e\"}")) == "SL0103 3:1 \n");
  CHECK(faults(R"({"parts": {"p": {"in": "a", "out": "a", "nodes": {
                     "a": {"type": "load", "in": "a"}}}},
    "nodes": {"s": {"type": "cases", "root": "r"},
      "p/b": {"type": "dice", "in": "s"}, "p": {"part": "p", "in": "s"}}})") ==
        "SL0211 2:22 nodes.p/a\n");
}

TEST_CASE("Unknown types") {
  CHECK(faults(with(R"("n": {"type": "laod", "in": "l"})")) == "SL0203 3:15 nodes.n.type\n");
  CHECK(hint(with(R"("n": {"type": "laod", "in": "l"})")) == "did you mean \"load\"?");
  CHECK(hint(with(R"("n": {"type": "Flipd", "in": "l"})")) == "here it is called \"flip\"");
  CHECK(faults(with(R"("n": {"type": "unet", "in": "l"})")) == "SL0212 3:15 nodes.n.type\n");
  CHECK(faults(with(R"("n": {"type": "dice", "in": "l"})",
                    "\"models\": {\"a\": {\"type\": \"unett\"},\n\"b\": {\"type\": \"load\"},\n"
                    "\"c\": {}, \"d\": 1},\n")) ==
        "SL0213 1:27 models.a.type\nSL0212 2:15 models.b.type\nSL0208 3:1 models.c\n"
        "SL0201 3:15 models.d\n");
}

TEST_CASE("A node without a type may mean one by another word, and is read as what it means") {
  const auto both = [](const std::string& node) {
    const std::string text =
        with("\"n\": {" + node + R"(, "in": "l"}, "d": {"type": "dice", "in": "n"})",
             R"("parts": {"p": {"in": "a", "out": "f", "nodes": {
      "f": {"type": "flip", "in": "a"}}}},)"
             "\n");
    return faults(text) + hint(text);
  };
  CHECK(both(R"("tpye": "flip")") == "SL0202 5:7 nodes.n.tpye\ndid you mean \"type\"?");
  CHECK(both(R"("prat": "p")") == "SL0202 5:7 nodes.n.prat\ndid you mean \"part\"?");
  CHECK(both(R"("tpye": "flpi")") ==
        "SL0202 5:7 nodes.n.tpye\nSL0203 5:15 nodes.n.type\ndid you mean \"type\"?");
  CHECK(both(R"("size": 3)") == "SL0208 5:1 nodes.n\n`sluice inspect` lists the types");
  const auto network = [](const std::string& key) {
    return faults(with(R"("n": {"type": "dice", "in": "l"})",
                       "\"models\": {\"net\": {\"" + key + "\": \"unet\"}},\n"));
  };
  CHECK(network("tpye") == "SL0202 1:21 models.net.tpye\n");
  CHECK(network("prat") == "SL0208 1:13 models.net\n");  // networks are in no parts
}

TEST_CASE("Wrong parameters") {
  CHECK(faults(with(R"("n": {"type": "flip", "in": "l", "porb": 1})")) ==
        "SL0221 3:34 nodes.n.porb\n");
  CHECK(hint(with(R"("n": {"type": "flip", "in": "l", "porb": 1})")) == "did you mean \"prob\"?");
  CHECK(hint(with(R"("n": {"type": "flip", "in": "l", "disbled": true})")) ==
        "did you mean \"disabled\"?");
  CHECK(faults(with(R"("n": {"type": "flip", "in": "l", "prob": "1"})")) ==
        "SL0227 3:42 nodes.n.prob\n");
  CHECK(faults(with(R"("n": {"type": "flip", "in": "l", "prob": 1.5})")) ==
        "SL0223 3:42 nodes.n.prob\n");
  CHECK(faults(with(R"("n": {"type": "flip", "in": "l", "axes": [0, 1.5]})")) ==
        "SL0228 3:46 nodes.n.axes.1\n");
  CHECK(faults(with(R"("n": {"type": "flip", "in": "l", "axes": null})")).empty());
  CHECK(faults(with(R"("n": {"type": "crop", "in": "l", "num_samples": true})")) ==
        "SL0222 3:49 nodes.n.num_samples\n");
  CHECK(faults(with(R"("n": {"type": "crop", "in": "l", "num_samples": 0})")) ==
        "SL0226 3:49 nodes.n.num_samples\n");
  CHECK(faults(with(R"("n": {"type": "batch", "in": "l", "size": -1})")) ==
        "SL0226 3:43 nodes.n.size\n");
  CHECK(faults(with(R"("n": {"type": "cases"})")) == "SL0224 3:1 nodes.n\n");
  CHECK(faults(with(R"("n": {"type": "cases", "root": "r", "split": "trainign"})")) ==
        "SL0230 3:46 nodes.n.split\n");
  CHECK(hint(with(R"("n": {"type": "cases", "root": "r", "split": "trainign"})")) ==
        "did you mean \"training\"?");
  CHECK(faults(with(R"("n": {"type": "model", "in": "l", "net": "net"})")) ==
        "SL0225 3:42 nodes.n.net\n");
  CHECK(hint(with(R"("n": {"type": "model", "in": "l", "net": "nett"})",
                  R"("models": {"net": {"type": "unet"}},)")) == "did you mean \"net\"?");
}

TEST_CASE("Wrong settings of nodes") {
  CHECK(faults(with(R"("n": {"type": "dice", "in": "l", "lane": "gpu", "on_error": "quarantin",
 "max_bad": -1, "disabled": 1, "desc": 3})")) ==
        "SL0230 3:42 nodes.n.lane\nSL0230 3:61 nodes.n.on_error\nSL0223 4:13 nodes.n.max_bad\n"
        "SL0222 4:29 nodes.n.disabled\nSL0222 4:40 nodes.n.desc\n");
}

TEST_CASE("Wrong settings of the run") {
  const std::string n = R"("n": {"type": "dice", "in": "l"})";
  CHECK(faults(with(n,
                    "\"run\": {\"epochs\": 0, \"sed\": 1,\n\"stop\": {\"at_least\": \"x\"},\n"
                    "\"checkpoint\": {\"keep\": 0, \"every\": 1},\n\"watchdog_s\": true},\n")) ==
        "SL0223 1:20 run.epochs\nSL0218 1:23 run.sed\nSL0224 2:1 run.stop\n"
        "SL0222 2:22 run.stop.at_least\nSL0223 3:24 run.checkpoint.keep\n"
        "SL0218 3:27 run.checkpoint.every\nSL0222 4:15 run.watchdog_s\n");
  CHECK(faults(with(n, R"("run": {"stop": {"metric": "a.b"}},)")) == "SL0233 1:10 run.stop\n");
  CHECK(faults(with(n, R"("run": {"stop": 1},)")) == "SL0201 1:18 run.stop\n");
}

TEST_CASE("Wrong variables") {
  const std::string n = R"("n": {"type": "load", "in": "l", "keys": ["a", "@ky"]})";
  CHECK(faults(with(n, R"("vars": {"key": "x"},)")) == "SL0205 3:48 nodes.n.keys.1\n");
  CHECK(hint(with(n, R"("vars": {"key": "x"},)")) == "did you mean \"@key\"?");
  CHECK(faults(with(R"("n": {"type": "dice", "in": "l"})",
                    R"("vars": {"a": "@b", "b": ["@c"], "c": "@a", "d": "@a"},)")) ==
        "SL0214 1:16 vars.a\n");
  const auto loaded = load(
      with(R"("n": {"type": "flip", "in": "l", "prob": "@p"})", "\n\"vars\": {\"p\": \"x\"},"));
  CHECK(faults(loaded.diagnostics) == "SL0222 4:42 nodes.n.prob\n");
  CHECK(loaded.diagnostics.all()[0].notes ==
        std::vector<std::string>{"the value comes from vars.p at g.json:2:15"});
}

TEST_CASE("What a variable brings is wrong where it stands, unlike what the place itself says") {
  const auto loaded = load(with(R"("n": {"type": "flip", "in": "l", "prob": "@p", "axes": "x"},
    "k": {"type": "dice", "in": "n"})",
                                R"("vars": {"p": 3},)"));
  const auto& all = loaded.diagnostics.all();
  REQUIRE(all.size() == 2);
  CHECK(all[0].indirect);
  CHECK(all[0].notes == std::vector<std::string>{"the value comes from vars.p at g.json:1:16"});
  CHECK_FALSE(all[1].indirect);
  CHECK(all[1].notes.empty());
  const auto member = load(with(R"("n": {"type": "dice", "in": "l"})",
                                R"("vars": {"m": 3, "x": "a"},
    "run": {"stop": {"metric": "@m", "at_least": 1}},)"));
  REQUIRE(member.diagnostics.all().size() >= 1);
  CHECK(member.diagnostics.all()[0].path == "run.stop.metric");
  CHECK(member.diagnostics.all()[0].indirect);
}

TEST_CASE("Wrong parts") {
  const std::string s = R"("nodes": {"s": {"type": "cases", "root": "r"},)";
  CHECK(faults("{" + s + R"("p": {"part": "q", "in": "s"}}, "parts": {"qq": {"nodes": {}}}})") ==
        "SL0206 1:62 nodes.p.part\n");
  CHECK(faults("{" + s + R"("p": {"part": 3, "in": "s"}}})") == "SL0201 1:62 nodes.p.part\n");
  CHECK(faults("{" + s +
               "\"p\": {\"part\": \"q\", \"type\": \"load\", \"in\": \"s\"}},\n"
               R"("parts": {"q": {"in": "a", "nodes": {"d": {"type": "dice", "in": "a"}}}}})") ==
        "SL0209 1:54 nodes.p\n");
  CHECK(faults("{" + s +
               "\"p\": {\"part\": \"q\"}},\n\"parts\": {\"q\": {\"in\": 3, \"out\": 4,\n"
               "\"nodes\": 5, \"outs\": 6, \"params\": {\"in\": 1}}}}") ==
        "SL0217 2:23 parts.q.in\nSL0217 2:33 parts.q.out\nSL0201 3:10 parts.q.nodes\n"
        "SL0202 3:13 parts.q.outs\nSL0204 3:35 parts.q.params.in\n");
  CHECK(faults("{" + s + "\"p\": {\"part\": \"q\"}},\n\"parts\": {\"q\": {\"in\": \"a b\"}}}") ==
        "SL0219 2:11 parts.q\nSL0204 2:23 parts.q.in\n");
  CHECK(faults("{" + s +
               "\"p\": {\"part\": \"a\"}},\n"
               "\"parts\": {\"a\": {\"nodes\": {\"x\": {\"part\": \"b\"}}},\n"
               "\"b\": {\"nodes\": {\"y\": {\"part\": \"a\"}}}}}") ==
        "SL0207 3:31 nodes.p/x/y.part\n");
  // before the use: an unknown parameter, an unconnected input
  CHECK(faults("{" + s +
               "\"p\": {\"part\": \"q\", \"kes\": 1}},\n"
               R"("parts": {"q": {"in": "a", "params": {"keys": []},
                  "nodes": {"d": {"type": "dice", "in": "a"}}}}})") ==
        "SL0322 1:48 nodes.p\nSL0235 1:67 nodes.p.kes\n");
  CHECK(faults("{" + s +
               "\"p\": {\"part\": \"q\", \"in\": \"s\"}},\n"
               R"("parts": {"q": {"nodes": {"d": {"type": "cases", "root": "a"}}}}})") ==
        "SL0321 1:67 nodes.p.in\n");
}

TEST_CASE("What is wrong inside a part is said once, at its place") {
  CHECK(faults(R"({"parts": {"q": {"in": "a", "out": "l", "nodes": {
      "l": {"type": "load", "in": "aa", "kes": 1}}}},
    "nodes": {"s": {"type": "cases", "root": "r"},
      "p": {"part": "q", "in": "s"}, "o": {"part": "q", "in": "s"}}})") ==
        "SL0301 2:35 nodes.p/l.in\nSL0221 2:41 nodes.p/l.kes\n");
  CHECK(hint(R"({"parts": {"q": {"in": "a", "nodes": {"l": {"type": "dice", "in": "s"}}}},
    "nodes": {"s": {"type": "cases", "root": "r"}, "p": {"part": "q", "in": "s"}}})") ==
        "name it in the part's \"in\", and connect it where the part is used");
}

TEST_CASE("A part's out that names nothing") {
  CHECK(faults(R"({"parts": {"q": {"in": "a", "out": "ll", "nodes": {
      "l": {"type": "load", "in": "a"}}}},
    "nodes": {"s": {"type": "cases", "root": "r"}, "p": {"part": "q", "in": "s"}}})") ==
        "SL0301 1:36 parts.q.out\n");
}

TEST_CASE("Parts and variables that grow without bound end in a diagnostic") {
  std::string parts = "\"p0\": {\"nodes\": {\"s\": {\"type\": \"cases\", \"root\": \"r\"}}}";
  for (int i = 1; i < 40; ++i) {
    const std::string use = "{\"part\": \"p" + std::to_string(i - 1) + "\"}";
    parts +=
        ", \"p" + std::to_string(i) + "\": {\"nodes\": {\"a\": " + use + ", \"b\": " + use + "}}";
  }
  CHECK(faults("{\"parts\": {" + parts + "}, \"nodes\": {\"x\": {\"part\": \"p39\"}}}")
            .starts_with("SL0215"));
  std::string vars = "\"v0\": \"" + std::string(1000, 'x') + "\"";
  for (int i = 1; i < 20; ++i) {
    const std::string use = "\"@v" + std::to_string(i - 1) + "\"";
    vars += ", \"v" + std::to_string(i) + "\": [" + use + ", " + use + ", " + use + "]";
  }
  CHECK(faults(with("\"n\": {\"type\": \"dice\", \"in\": \"l\"}", "\"vars\": {" + vars + "},"))
            .starts_with("SL0215"));
}

TEST_CASE("Variables that refer to each other in a row, and parts in parts, are 64 at most") {
  const auto variables = [](int n) {  // v0 is written last, so that it is looked for from the front
    std::string vars;
    for (int i = n - 1; i > 0; --i)
      vars += "\"v" + std::to_string(i) + "\": \"@v" + std::to_string(i - 1) + "\", ";
    const std::string use = "\"n\": {\"type\": \"flip\", \"in\": \"l\", \"prob\": \"@v" +
                            std::to_string(n - 1) +
                            "\"}, \"d\": {\"type\": \"dice\", \"in\": \"n\"}";
    return load(with(use, "\"vars\": {" + vars + "\"v0\": 0.25},\n"));
  };
  const auto whole = variables(64);
  REQUIRE_MESSAGE(whole.graph, faults(whole.diagnostics));
  CHECK(whole.graph->nodes[2].params["prob"] == 0.25);
  const auto deep = variables(65);
  CHECK_FALSE(deep.graph);
  CHECK(faults(deep.diagnostics).starts_with("SL0104 1:"));
  CHECK(faults(deep.diagnostics).ends_with(" vars.v0\n"));

  const auto parts = [](int n) {
    std::string all =
        R"("p0": {"in": "a", "out": "f", "nodes": {"f": {"type": "flip", "in": "a"}}})";
    for (int i = 1; i < n; ++i)
      all += ", \"p" + std::to_string(i) +
             R"(": {"in": "a", "out": "x", "nodes": {"x": {"part": "p)" + std::to_string(i - 1) +
             R"(", "in": "a"}}})";
    return load(with(R"("u": {"part": "p)" + std::to_string(n - 1) +
                         R"(", "in": "l"}, "d": {"type": "dice", "in": "u"})",
                     "\"parts\": {" + all + "},\n"));
  };
  const auto nested = parts(64);
  REQUIRE_MESSAGE(nested.graph, faults(nested.diagnostics));
  CHECK(nested.graph->nodes[2].path.ends_with("/x/f"));
  const auto deeper = parts(65);
  CHECK_FALSE(deeper.graph);
  CHECK(faults(deeper.diagnostics).starts_with("SL0104 "));
}

TEST_CASE("What a part says of itself has the right types") {
  const auto said = [](const std::string& members) {
    return faults(R"({"parts": {"p": {)" + members + R"(}},
      "nodes": {"s": {"type": "cases", "root": "r"}, "d": {"type": "dice", "in": "s"}}})");
  };
  const std::string nodes = R"("nodes": {"f": {"type": "flip", "in": "a"}})";
  CHECK(said(R"("in": "a", "desc": "flips", )" + nodes) == "");
  CHECK(said(R"("in": "a", "desc": 3, )" + nodes) == "SL0201 1:37 parts.p.desc\n");
  CHECK(said(R"("in": {"a": 1}, )" + nodes) == "SL0217 1:24 parts.p.in\n");
  CHECK(said(R"("in": ["a", 2], )" + nodes) == "SL0217 1:30 parts.p.in.1\n");
  CHECK(said(R"("in": ["a", "a"], )" + nodes) == "SL0211 1:30 parts.p.in\n");
  CHECK(said(R"("in": ["a", "b/c"], )" + nodes) == "SL0204 1:30 parts.p.in\n");
  CHECK(said(R"("in": "a", "out": 3, )" + nodes) == "SL0217 1:36 parts.p.out\n");
  CHECK(said(R"("in": "a", "out": {"x": "f", "y": 3}, )" + nodes) == "SL0217 1:52 parts.p.out.y\n");
  CHECK(said(R"("in": "a", "params": {"in": 3}, )" + nodes) == "SL0204 1:40 parts.p.params.in\n");
  CHECK(said(R"("in": "a", "params": {"type": 3}, )" + nodes) ==
        "SL0204 1:40 parts.p.params.type\n");
  CHECK(said(R"("in": "a")") == "SL0219 1:12 parts.p\n");
  // Where an input's name cannot be read, it may be the one that a node reads.
  const std::string other = R"("nodes": {"f": {"type": "flip", "in": "b"}})";
  CHECK(said(R"("in": ["a", 2], )" + other) == "SL0217 1:30 parts.p.in.1\n");
  CHECK(said(R"("in": {"a": 1}, )" + other) == "SL0217 1:24 parts.p.in\n");
  CHECK(said(R"("in": ["a", "b/c"], )" + other) == "SL0204 1:30 parts.p.in\n");
  CHECK(said(R"("in": "a", )" + other).starts_with("SL0301 "));
}

// An answer for each of the 32,768 nodes would take a minute.
TEST_CASE("What a part reads and is not there is looked for once") {
  std::string parts = R"("p0": {"in": "a", "nodes": {"l": {"type": "load", "in": "a"}}})";
  for (int i = 1; i < 16; ++i) {
    const std::string use = "{\"part\": \"p" + std::to_string(i - 1) + "\", \"in\": \"a\"}";
    parts += ", \"p" + std::to_string(i) + "\": {\"in\": \"a\", \"nodes\": {\"l\": " + use +
             ", \"r\": " + use + "}}";
  }
  const auto begin = std::chrono::steady_clock::now();
  CHECK(faults("{\"parts\": {" + parts +
               "}, \"nodes\": {\"x\": {\"part\": \"p15\", \"in\": \"nowhere\"}}}")
            .starts_with("SL0301"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("Wrong inputs") {
  CHECK(faults(with(R"("n": {"type": "dice", "in": "ll"})")) == "SL0301 3:29 nodes.n.in\n");
  CHECK(hint(with(R"("n": {"type": "dice", "in": "ll"})")) == "did you mean \"l\"?");
  CHECK(faults(with(R"("n": {"type": "dice", "in": "l.smple"})")) == "SL0302 3:29 nodes.n.in\n");
  CHECK(hint(with(R"("n": {"type": "dice", "in": "l.smple"})")) == "did you mean \"sample\"?");
  CHECK(faults(with(R"("n": {"type": "dice", "in": {"perd": "l"}})")) ==
        "SL0303 3:30 nodes.n.in.perd\n");
  CHECK(faults(with(R"("n": {"type": "dice"})")) == "SL0304 3:1 nodes.n\n");
  CHECK(faults(with(R"("n": {"type": "join", "in": "l"})")) == "SL0304 3:29 nodes.n.in\n");
  CHECK(faults(with(R"("n": {"type": "join", "in": ["l", "s"]})")) == "SL0316 3:29 nodes.n.in\n");
  CHECK(hint(with(R"("n": {"type": "join", "in": ["l", "s"]})")) ==
        R"(name the ports: {"image": "l", "label": "s"})");
  CHECK(faults(with(R"("n": {"type": "dice", "in": {"pred": 3}})")) ==
        "SL0305 3:38 nodes.n.in.pred\n");
  CHECK(faults(with(R"("n": {"type": "cases", "root": "r", "in": "l"})")) ==
        "SL0307 3:37 nodes.n.in\n");
  CHECK(faults(with("\"n\": {\"type\": \"dice\", \"in\": \"l\"},\n"
                    R"("m": {"type": "dice", "in": "n"})")) == "SL0308 4:29 nodes.m.in\n");
}

TEST_CASE("Cycles are named node by node, each once") {
  const auto loaded =
      load(with("\"a\": {\"type\": \"join\", \"in\": {\"image\": \"l\", \"label\": "
                "\"c\"}},\n\"b\": {\"type\": \"flip\", \"in\": \"a\"},\n"
                "\"c\": {\"type\": \"flip\", \"in\": \"b\"},\n"
                "\"d\": {\"type\": \"dice\", \"in\": \"c\"},\n"
                "\"e\": {\"type\": \"flip\", \"in\": \"e\"}"));
  CHECK(faults(loaded.diagnostics) == "SL0306 3:53 nodes.a.in\nSL0306 7:29 nodes.e.in\n");
  CHECK(loaded.diagnostics.all()[0].message == "cycle: a -> b -> c -> a");
  CHECK(loaded.diagnostics.all()[0].notes ==
        std::vector<std::string>{"a at g.json:3:6, b at g.json:4:6, c at g.json:5:6"});
  CHECK(loaded.diagnostics.all()[1].message == "cycle: e -> e");
}

TEST_CASE("A circle of disabled nodes ends in a diagnostic") {
  CHECK(faults(with("\"a\": {\"type\": \"flip\", \"in\": \"b\", \"disabled\": true},\n"
                    "\"b\": {\"type\": \"flip\", \"in\": \"a\", \"disabled\": true},\n"
                    "\"c\": {\"type\": \"dice\", \"in\": \"a\"}"))
            .find("SL0306") != std::string::npos);
}

TEST_CASE("Names that mean something else, or what is disabled") {
  const std::string sink = R"("n": {"type": "dice", "in": "l")";
  CHECK(faults(with(R"("n": {"type": "dice", "in": "net"})",
                    R"("models": {"net": {"type": "unet"}},)")) == "SL0315 3:29 nodes.n.in\n");
  CHECK(faults(with(sink + R"(, "requires": "m"})")) == "SL0313 3:46 nodes.n.requires\n");
  CHECK(faults(with(sink +
                    R"(, "requires": "f"}, "f": {"type": "flip", "in": "l", "disabled": true})")) ==
        "SL0313 3:46 nodes.n.requires\n");
  CHECK(faults(with(sink + R"(}, "f": {"type": "flip", "in": "l", "disabled": true},
    "v": {"type": "cases", "root": "q", "after": "f"})")) == "SL0320 4:50 nodes.v.after\n");
  CHECK(faults(R"({"nodes": {"m": {"type": "mask", "disabled": true}}})") == "SL0323 1:2 nodes\n");
  const auto part = load(R"({
    "parts": {"q": {"in": "a", "out": "l", "nodes": {"l": {"type": "flip", "in": "a"}}}},
    "nodes": {"c": {"type": "cases", "root": "r"}, "p": {"part": "q", "in": "c"},
              "k": {"type": "dice", "in": "p", "requires": "p"}}})");
  CHECK(faults(part.diagnostics) == "SL0313 4:60 nodes.k.requires\n");
  CHECK(part.diagnostics.all().front().message == R"("k" requires "p", which is no node)");
  CHECK(faults(R"({"parts": {"q": {"in": "a", "nodes": {"l": {"type": "dice", "in": "s"}}}},
    "nodes": {"s": {"type": "cases", "root": "r"}, "p": {"part": "q", "in": "s"}}})") ==
        "SL0324 1:67 nodes.p/l.in\n");
  // The part's one output is a port itself.
  CHECK(faults(R"({"parts": {"q": {"in": "a", "out": "d.label",
                     "nodes": {"d": {"type": "split", "in": "a"}}}},
    "nodes": {"s": {"type": "cases", "root": "r"}, "p": {"part": "q", "in": "s"},
      "n": {"type": "dice", "in": "p.image"}}})") == "SL0302 4:35 nodes.n.in\n");
}

TEST_CASE("A number of bad samples that ends nothing is a warning") {
  const std::string sink = R"("n": {"type": "dice", "in": "l", "max_bad": 3)";
  CHECK(faults(with(sink + "}")) == "SL0318 3:34 nodes.n.max_bad\n");
  CHECK(faults(with(sink + R"(, "on_error": "quarantine"})")).empty());
}

TEST_CASE("Nodes that cannot be disabled") {
  CHECK(faults(with(R"("n": {"type": "split", "in": "l", "disabled": true})")) ==
        "SL0309 3:47 nodes.n.disabled\n");
  CHECK(faults(R"({"nodes": {"s": {"type": "cases", "root": "r", "disabled": true}}})")
            .starts_with("SL0317 1:60"));
}

TEST_CASE("Wrong after") {
  CHECK(faults(with(R"("n": {"type": "dice", "in": "l", "after": "s"})")) ==
        "SL0310 3:34 nodes.n.after\n");
  CHECK(faults(with(R"("n": {"type": "cases", "root": "r", "after": "ll"})")) ==
        "SL0311 3:46 nodes.n.after\n");
  CHECK(faults(with(R"("n": {"type": "cases", "root": "r", "every_epochs": 2})")) ==
        "SL0312 3:37 nodes.n.every_epochs\n");
  CHECK(faults(with(R"("n": {"type": "cases", "root": "r", "after": "l", "every_epochs": 0})")) ==
        "SL0223 3:67 nodes.n.every_epochs\n");
}

TEST_CASE("Everything wrong in a file is said at once") {
  const std::string text = R"({ "nmae": "x",
  "models": { "net": { "type": "unet", "dropout": 2 } },
  "nodes": {
    "s": { "type": "case", "root": "r" },
    "l": { "type": "load", "in": "s", "keys": 3 },
    "f": { "type": "flip", "in": "k" },
    "m": { "type": "model", "in": "f", "net": "nte" } } })";
  CHECK(faults(text) ==
        "SL0202 1:3 nmae\nSL0223 2:51 models.net.dropout\nSL0203 4:20 nodes.s.type\n"
        "SL0222 5:47 nodes.l.keys\nSL0301 6:34 nodes.f.in\nSL0225 7:47 nodes.m.net\n");
}

TEST_CASE("A cycle and an unknown variable as they are printed") {
  auto printed = [](const std::string& text) {
    std::ostringstream out;
    load(text).diagnostics.print(out, false);
    return out.str();
  };
  CHECK(printed(with("\"a\": {\"type\": \"flip\", \"in\": \"b\"},\n"
                     "\"b\": {\"type\": \"flip\", \"in\": \"a\"}")) ==
        "error[SL0306]: cycle: a -> b -> a\n"
        "  --> g.json:3:29  (nodes.a.in)\n"
        "   |\n"
        " 3 | \"a\": {\"type\": \"flip\", \"in\": \"b\"},\n"
        "   |                             ^^^\n"
        "   = note: a at g.json:3:6, b at g.json:4:6\n"
        "found 1 error, 0 warnings\n");
  CHECK(printed(with(R"("n": {"type": "flip", "in": "l", "prob": "@chance"})",
                     R"("vars": {"chanse": 1},)")) ==
        "error[SL0205]: unknown variable \"@chance\"\n"
        "  --> g.json:3:42  (nodes.n.prob)\n"
        "   |\n"
        " 3 | \"n\": {\"type\": \"flip\", \"in\": \"l\", \"prob\": \"@chance\"}}}\n"
        "   |                                          ^^^^^^^^^ did you mean \"@chanse\"?\n"
        "found 1 error, 0 warnings\n");
  CHECK(printed(with(R"("n": {"type": "flip", "in": "l", "prob": true})")) ==
        "error[SL0222]: \"prob\": expected float, found true (bool)\n"
        "  --> g.json:3:42  (nodes.n.prob)\n"
        "   |\n"
        " 3 | \"n\": {\"type\": \"flip\", \"in\": \"l\", \"prob\": true}}}\n"
        "   |                                          ^^^^\n"
        "found 1 error, 0 warnings\n");
}

// ---- a name that is one letter off --------------------------------------------------------------

// Every variant of a name with one letter changed, dropped, doubled or swapped with the next.
static std::vector<std::string> typos(const std::string& name) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    std::string changed = name, doubled = name, swapped = name;
    changed[i] = changed[i] == 'z' ? 'q' : 'z';
    doubled.insert(i, 1, name[i]);
    out.push_back(changed);
    out.push_back(doubled);
    out.push_back(name.substr(0, i) + name.substr(i + 1));
    if (i + 1 < name.size() && name[i] != name[i + 1]) {
      std::swap(swapped[i], swapped[i + 1]);
      out.push_back(swapped);
    }
  }
  return out;
}

TEST_CASE("A letter wrong in any name gets the right suggestion") {
  // What stands in the file around a name, so that one use of it is changed and not another.
  struct Case {
    std::string before, name, after;
  };
  const std::vector<Case> cases{
      {"\"", "desc", "\": \"everything"},
      {"\"", "epochs", "\": 3"},
      {"\"", "checkpoint", "\":"},
      {"\"", "at_least", "\":"},
      {"\"", "max_bad", "\": 4"},
      {"\"", "weights", "\":"},
      {"\"type\": \"", "unet", "\""},
      {"\"", "channels", "\":"},
      {"{ \"type\": \"", "crop", "\""},
      {"{ \"type\": \"", "batch", "\""},
      {"\"type\": \"", "split", "\""},
      {"\"", "num_samples", "\":"},
      {"\"", "shuffle", "\":"},
      {"\"", "on_error", "\":"},
      {"\"on_error\": \"", "quarantine", "\""},
      {"\"", "disabled", "\":"},
      {"\"in\": \"", "train", "\""},
      {"\"in\": \"", "batch", "\""},
      {"\"in\": \"", "crop", "\""},
      {"\"label\": \"parts.", "label", "\""},
      {"\"label\": \"", "parts", ".label"},
      {"{\"", "label", "\": \"parts"},
      {"\"part\": \"", "prepare", "\", \"in\": \"val"},
      {"\"after\": \"", "step", "\""},
      {"\"net\": \"", "net", "\", \"lr\""},
      {"\"split\": \"", "validation", "\""},
      {"\"@", "depth", "\""},
      {"\"size\": \"@", "patch", "\""},
      {"\"keys\": \"@", "keys", "\""},
      {"\"train\", \"", "keys", "\": [\"image\", \"label"},
  };
  int tried = 0;
  for (const Case& c : cases) {
    const std::string text = whole_graph;
    const auto at = text.find(c.before + c.name + c.after);
    REQUIRE_MESSAGE(at != std::string::npos, c.name);
    for (const std::string& typo : typos(c.name)) {
      std::string changed = text;
      changed.replace(at + c.before.size(), c.name.size(), typo);
      const auto loaded = load(changed);
      bool suggested = false;
      for (const auto& d : loaded.diagnostics.all())
        suggested |= d.hint.find("did you mean \"" + c.name + "\"?") != std::string::npos ||
                     d.hint.find("did you mean \"@" + c.name + "\"?") != std::string::npos;
      CHECK_MESSAGE(suggested, c.name << " as " << typo << ":\n" << faults(loaded.diagnostics));
      ++tried;
    }
  }
  CHECK(tried > 600);
}

// ---- --set --------------------------------------------------------------------------------------

TEST_CASE("--set changes variables, settings and parameters, with types from the value") {
  const auto loaded = load(whole_graph, {{"vars.root", "/elsewhere"},
                                         {"nodes.step.lr", "3e-4"},
                                         {"nodes.crop.size", "[1,2,3]"},
                                         {"nodes.batch.drop_last", "true"},
                                         {"nodes.train.split", "validation"},
                                         {"models.net.channels.1", "99"},
                                         {"run.epochs", "9"},
                                         {"run.stop.at_least", "0.5"},
                                         {"run.step_threads", "2"},
                                         {"run.threads", "3"},
                                         {"run.io_threads", "4"},
                                         {"parts.prepare.params.keys", "[\"pet\"]"},
                                         {"nodes.vpre/load.keys", "[\"mri\"]"},
                                         {"nodes.off.disabled", "false"},
                                         {"name", "renamed"}});
  REQUIRE_MESSAGE(loaded.graph, faults(loaded.diagnostics));
  const Graph& g = *loaded.graph;
  const auto params = [&](const char* path) {
    return g.nodes[static_cast<std::size_t>(g.find(path))].params.dump();
  };
  CHECK(params("train") == R"({"root":"/elsewhere","split":"validation","shuffle":true})");
  CHECK(params("step") == R"({"net":"net","lr":0.0003})");
  CHECK(params("crop") == R"({"size":[1,2,3],"num_samples":2})");
  CHECK(params("batch") == R"({"size":2,"drop_last":true})");
  CHECK(params("pre/load") == R"({"keys":["image","label"]})");
  CHECK(params("vpre/load") == R"({"keys":["mri"]})");
  CHECK(g.models[0].params["channels"].dump() == "[8,99]");
  CHECK(g.run.epochs == 9);
  CHECK(g.run.stop->at_least == 0.5);
  CHECK(g.run.step_threads == 2);
  CHECK(g.run.threads == 3);
  CHECK(g.run.io_threads == 4);
  CHECK(g.name == "renamed");
  CHECK(g.find("off") >= 0);
}

TEST_CASE("--set may add the run object") {
  const auto loaded = load(with(R"("n": {"type": "dice", "in": "l"})"),
                           {{"run.epochs", "5"}, {"run.checkpoint.keep", "2"}});
  REQUIRE_MESSAGE(loaded.graph, faults(loaded.diagnostics));
  CHECK(loaded.graph->run.epochs == 5);
  CHECK(loaded.graph->run.checkpoint_keep == 2);
}

TEST_CASE("A wrong value of --set is reported at the option") {
  CHECK(faults(whole_graph, {{"nodes.step.lr", "x"}}) ==
        "SL0222 --set nodes.step.lr=x nodes.step.lr\n");
  CHECK(faults(whole_graph, {{"nodes.step.rl", "1"}}) ==
        "SL0221 --set nodes.step.rl=1 nodes.step.rl\n");
  CHECK(hint(whole_graph, {{"nodes.step.rl", "1"}}) == "did you mean \"lr\"?");
  CHECK(faults(whole_graph, {{"nodes.vpre/load.keys", "3"}}) ==
        "SL0222 --set nodes.vpre/load.keys=3 nodes.vpre/load.keys\n");
  CHECK(faults(whole_graph, {{"run.epochs", "99999999999999999999"}}).starts_with("SL0107 --set"));
  const auto loaded = load(whole_graph, {{"vars.seed", "1.5"}});
  CHECK(faults(loaded.diagnostics) == "SL0228 4:33 run.seed\n");
  CHECK(loaded.diagnostics.all()[0].notes ==
        std::vector<std::string>{"the value comes from vars.seed at --set vars.seed=1.5"});
}

TEST_CASE("A wrong path of --set gets a suggestion") {
  CHECK(faults(whole_graph, {{"nodes.setp.lr", "1"}}) ==
        "SL0501 --set nodes.setp.lr=1 nodes.setp.lr\n");
  CHECK(hint(whole_graph, {{"nodes.setp.lr", "1"}}) == "did you mean nodes.step.lr?");
  CHECK(hint(whole_graph, {{"node.step.lr", "1"}}) == "did you mean nodes.step.lr?");
  CHECK(hint(whole_graph, {{"vars.rot", "1"}}) == "did you mean vars.root?");
  CHECK(hint("{ \"nodes\": {} }", {{"vars.root", "1"}}) ==
        "it has nodes: a run's graph has values in the places of variables, set those; "
        "--set +vars.root=... adds a variable");
  CHECK(hint(whole_graph, {{"parts.prepare.nodes.laod.keys", "1"}}) ==
        "did you mean parts.prepare.nodes.load.keys?");
  CHECK(hint(whole_graph, {{"nodes.vpre/laod.keys", "[]"}}) ==
        "did you mean nodes.vpre/load.keys?");
  CHECK(hint(whole_graph, {{"nodes.crop.size.0", "1"}}) == "set vars.patch.0 instead");
  CHECK(faults(whole_graph, {{"models.net.channels.2", "1"}}).starts_with("SL0512"));
  CHECK(faults(whole_graph, {{"nodes..lr", "1"}}).starts_with("SL0502"));
  CHECK(load(whole_graph, {{"nodes.step.lr.x", "1"}}).diagnostics.all()[0].message ==
        "nodes.step.lr is 1 (int) and has no \"x\"");
  CHECK(faults(whole_graph, {{"vars.root", "\xC3\x28"}}).starts_with("SL0502"));
}
