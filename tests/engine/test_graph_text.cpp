// Changes to a graph's text: what they ask for is there, and everything else is as it was.
#include "engine/graph/graph_text.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>

#include "engine/base/diagnostic.h"

using namespace sluice;

namespace {

DocumentPtr parse(const std::string& text) {
  Diagnostics diagnostics;
  auto document = parse_document("g.json", text, diagnostics);
  REQUIRE(document);
  REQUIRE(diagnostics.all().empty());
  return document;
}

const char* small = R"({
  // what it is for
  "run": { "epochs": 3, "threads": 1 },  // one thread
  "nodes": {
    "norm": { "type": "norm", "in": "load" },   /* scales */ "x": 1,
    "läuft": {"type": "a\"}b", "in": {"a": "norm"}},
    "last": { }
  }
})";

std::vector<std::string> members(const Json& j, const std::string& at = "") {
  std::vector<std::string> all;
  if (!j.is_object()) return all;
  for (const auto& [key, value] : j.items()) {
    const std::string pointer = Place{nullptr, at}.child(key).pointer;
    all.push_back(pointer);
    for (auto& inner : members(value, pointer)) all.push_back(inner);
  }
  return all;
}

}  // namespace

TEST_CASE("A value is replaced, and comments, order and spaces stay") {
  GraphText text(parse(small));
  text.set("/run/epochs", 30);
  text.set("/nodes/läuft/in/a", "cached");
  std::string wanted = small;
  wanted.replace(wanted.find("3,"), 1, "30");
  wanted.replace(wanted.rfind("\"norm\""), 6, "\"cached\"");
  CHECK(text.text() == wanted);
}

TEST_CASE("A new member goes into its object's line, or gets one") {
  GraphText text(parse(small));
  text.set("/run/seed", 7);
  text.set("/nodes/last/type", "sink");
  text.set("/vars/a", 1);
  const std::string out = text.text();
  CHECK(out.find(R"("run": { "epochs": 3, "threads": 1, "seed": 7 },  // one thread)") !=
        std::string::npos);
  CHECK(out.find(R"("last": { "type": "sink"  })") != std::string::npos);
  CHECK(out.find("  },\n  \"vars\": { \"a\": 1 }\n}") != std::string::npos);
  CHECK(parse(out)->root["vars"]["a"] == 1);
}

TEST_CASE("A member is removed with its comma, the last one with the comma in front") {
  GraphText text(parse(small));
  text.remove("/run/threads");
  text.remove("/nodes/norm/type");
  const std::string out = text.text();
  CHECK(out.find(R"("run": { "epochs": 3 },  // one thread)") != std::string::npos);
  CHECK(out.find(R"("norm": { "in": "load" },   /* scales */)") != std::string::npos);
}

TEST_CASE("A member that goes takes the spaces of its line, and stays of a line that it shares") {
  const auto without = [](const std::string& from, const std::string& pointer) {
    GraphText text(parse(from));
    text.remove(pointer);
    return text.text();
  };
  CHECK(without("{\n  \"a\": 1,\n  \"b\": 2\n}", "/a") == "{\n\n  \"b\": 2\n}");
  CHECK(without("{\r\n  \"a\": 1,  \r\n  \"b\": 2\r\n}", "/a") == "{\r\n\r\n  \"b\": 2\r\n}");
  CHECK(without("{\n  \"a\": 1,  \"b\": 2\n}", "/a") == "{\n  \"b\": 2\n}");
  CHECK(without("{\n  \"a\": 1,\n  \"b\": 2\n}", "/b") == "{\n  \"a\": 1\n}");
  CHECK(without("{\"a\": 1, /* why */ \"b\": 2}", "/b") == "{\"a\": 1 /* why */ }");
  CHECK(without("{\"a\" : [1, {\"b\": \"}\\\"\"}] , \"c\": 2}", "/a") == "{\"c\": 2}");
  CHECK(without("\xEF\xBB\xBF{\"ä\": 1, \"b\": 2}", "/b") == "\xEF\xBB\xBF{\"ä\": 1}");
}

TEST_CASE("A comment in front of a last member that goes does not swallow the brace") {
  const auto document = parse("{\"a\": 1, // why\n \"b\": 2 }");
  GraphText text(document);
  text.remove("/b");
  CHECK(text.text() == "{\"a\": 1 // why\n  }");
  const auto lone = parse("{ // why\n \"b\": 2 }");
  GraphText other(lone);
  other.remove("/b");
  CHECK(other.text() == "{ // why\n  }");
}

TEST_CASE("A member behind another stands on a line of its own, with its comment") {
  GraphText text(parse(small));
  text.add_behind("/nodes/norm", "cached", {{"type", "cache"}, {"in", "norm"}}, "kept");
  text.add_behind("/nodes/last", "end", {{"type", "sink"}});
  text.add_behind("/run", "more", 1, "behind a comment");
  text.comment("/nodes/läuft", "as it was");
  CHECK(text.text() == R"({
  // what it is for
  "run": { "epochs": 3, "threads": 1 },  // one thread
  // behind a comment
  "more": 1,
  "nodes": {
    "norm": { "type": "norm", "in": "load" },
    // kept
    "cached": { "type": "cache", "in": "norm" },
       /* scales */ "x": 1,
    // as it was
    "läuft": {"type": "a\"}b", "in": {"a": "norm"}},
    "last": { },
    "end": { "type": "sink" }
  }
})");
}

TEST_CASE("Lines that are added end as the file's do") {
  const auto changed = [](const std::string& from) {
    GraphText text(parse(from));
    text.add_behind("/nodes/norm", "cached", {{"type", "cache"}}, "kept");
    text.add_behind("/nodes/last", "end", {{"type", "sink"}});
    text.add_behind("/run", "more", 1, "behind a comment");
    text.comment("/nodes/läuft", "as it was");
    text.set("/vars", 1);
    text.remove("/nodes/norm/type");
    return text.text();
  };
  const auto crlf = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
    return out;
  };
  CHECK(changed(crlf(small)) == crlf(changed(small)));
}

TEST_CASE("What comes from elsewhere is not held") {
  auto over = std::make_shared<Document>(*parse(R"({"run": {"epochs": 4}})"));
  auto merged = std::make_shared<Document>(*parse(small));
  merged->origins["/run/epochs"] = Place{over, "/run/epochs"};
  const GraphText text(merged);
  CHECK_FALSE(text.holds("/run/epochs"));
  CHECK(text.holds("/run/threads"));
  CHECK_FALSE(text.holds("/run/none"));
}

TEST_CASE("Any one change of any shipped graph gives the JSON that it asks for") {
  std::mt19937 draw(1);
  int changes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(SLUICE_SOURCE_DIR "/graphs")) {
    if (entry.path().extension() != ".json") continue;
    Diagnostics diagnostics;
    const auto document = read_document(entry.path().string(), diagnostics);
    REQUIRE(document);
    for (const auto& pointer : members(document->root)) {
      const nlohmann::json_pointer<std::string> at(pointer);
      Json wanted = document->root;
      GraphText text(document);
      const Json value = draw() % 2 ? Json(17) : Json({{"a", "\"}"}, {"b", {1, 2}}});
      switch (draw() % 3) {
        case 0:
          text.set(pointer, value);
          wanted[at] = value;
          break;
        case 1:
          text.remove(pointer);
          wanted[at.parent_pointer()].erase(at.back());
          break;
        default:
          text.add_behind(pointer, "a new one", value, "why");
          text.comment(pointer, "this one");
          wanted[at.parent_pointer()]["a new one"] = value;
      }
      INFO(entry.path().string() << " " << pointer << "\n" << text.text());
      // Members' order differs where one was added in the middle: unordered JSON compares.
      CHECK(nlohmann::json(parse(text.text())->root) == nlohmann::json(wanted));
      ++changes;
    }
  }
  CHECK(changes > 500);
}
