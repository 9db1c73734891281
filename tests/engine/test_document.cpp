#include <doctest/doctest.h>

#include "engine/base/diagnostic.h"
#include "engine/base/document.h"
#include "tests/temporary_folder.h"
#include "toy_graph.h"

using namespace sluice;
using sluice::toys::faults;

static std::string wrong(const std::string& text) {
  Diagnostics diagnostics;
  parse_document("g.json", text, diagnostics);
  return faults(diagnostics);
}

static Mark value_at(const std::string& text, const std::string& pointer) {
  Diagnostics diagnostics;
  auto document = parse_document("g.json", text, diagnostics);
  REQUIRE(diagnostics.ok());
  return Place{document, pointer}.mark();
}

static std::string str(Mark m) {
  return std::to_string(m.line) + ":" + std::to_string(m.column) + "+" + std::to_string(m.length);
}

TEST_CASE("Every value and key has a line, a column and a length") {
  const std::string text = "{\n  \"a\": [1, true,\n    -2.5e3],\n\t\"b\": {\"c\": \"xy\"}\n}";
  CHECK(str(value_at(text, "")) == "1:1+1");
  CHECK(str(value_at(text, "/a")) == "2:8+1");
  CHECK(str(value_at(text, "/a/0")) == "2:9+1");
  CHECK(str(value_at(text, "/a/1")) == "2:12+4");
  CHECK(str(value_at(text, "/a/2")) == "3:5+6");
  CHECK(str(value_at(text, "/b/c")) == "4:13+4");
  CHECK(str(value_at(text, "/none")) == "0:0+1");
  Diagnostics diagnostics;
  auto document = parse_document("g.json", text, diagnostics);
  CHECK(Place{document, "/b/c"}.key().mark().column == 8);
  CHECK(Place{document, "/b/c"}.key().str() == "g.json:4:8");
}

TEST_CASE("Comments, escapes, a byte order mark and wide characters do not shift places") {
  CHECK(str(value_at("// one, \"two\"\n{ /* : */ \"a\": /* {[ \n */ 1 }", "/a")) == "3:5+1");
  CHECK(str(value_at(R"({"a\"\\": "\"", "b": 1})", "/b")) == "1:22+1");
  CHECK(str(value_at("\xEF\xBB\xBF{\"a\": 1}", "/a")) == "1:7+1");
  CHECK(str(value_at("{\"ä€𝄞\": \"ö\", \"b\": 1}", "/b")) == "1:19+1");
  CHECK(str(value_at("{\r\n\"a\":\r\n1}\r\n", "/a")) == "3:1+1");
}

TEST_CASE("Keys with slashes and tildes are escaped in pointers") {
  Diagnostics diagnostics;
  auto document = parse_document("g.json", R"({"pre/load": {"a~b": 1}})", diagnostics);
  CHECK(Place{document, ""}.child("pre/load").child("a~b").pointer == "/pre~1load/a~0b");
  CHECK(Place{document, ""}.child("pre/load").child("a~b").str() == "g.json:1:22");
}

TEST_CASE("A syntax error stands where the unexpected token begins") {
  CHECK(wrong("{\"a\": 1,}") == "SL0112 1:8 \n");
  CHECK(wrong("{\"a\": 1\n \"b\": 2}") == "SL0109 2:2 \n");
  CHECK(wrong("{\"a\": tru}") == "SL0111 1:7 \n");
  CHECK(wrong("{'a': 1}") == "SL0111 1:2 \n");
  CHECK(wrong("{\"a\": \"x\ny\"}") == "SL0102 1:7 \n");
  CHECK(wrong("{\"a\": [1, 2}") == "SL0102 1:12 \n");
  CHECK(wrong("") == "SL0110 1:1 \n");
  CHECK(wrong("{} {}") == "SL0102 1:4 \n");
  CHECK(wrong("{\"a\": ") == "SL0110 1:6 \n");
  CHECK(wrong("{ /* never closed") == "SL0110 1:3 \n");
}

TEST_CASE("A duplicate key is refused and the first one counts") {
  Diagnostics diagnostics;
  auto document =
      parse_document("g.json", "{\"a\": {\"x\": 1},\n \"b\": 2,\n \"a\": {\"y\": 3}}", diagnostics);
  CHECK(faults(diagnostics) == "SL0103 3:2 \n");
  CHECK(diagnostics.all()[0].hint == "the first one stands in line 1");
  REQUIRE(document);
  CHECK(document->root.dump() == R"({"a":{"x":1},"b":2})");
}

TEST_CASE("Numbers that do not fit are refused") {
  CHECK(wrong("{\"a\": 9223372036854775807, \"b\": -9223372036854775808}").empty());
  CHECK(wrong("{\"a\": 9223372036854775808}") == "SL0107 1:7 \n");
  CHECK(wrong("{\"a\": -9223372036854775809}") == "SL0107 1:7 \n");
  CHECK(wrong("[1,\n 123456789012345678901234567890]") == "SL0107 2:2 \n");
  CHECK(wrong("{\"a\": 1e999}") == "SL0107 1:7 \n");
  CHECK(wrong("{\"a\": 1e30}").empty());
}

TEST_CASE("Nesting of 64 levels is read and deeper nesting is refused") {
  CHECK(wrong(std::string(64, '[') + std::string(64, ']')).empty());
  CHECK(wrong(std::string(65, '[') + std::string(65, ']')) == "SL0104 1:65 \n");
  CHECK(wrong(std::string(5'000'000, '[')) == "SL0104 1:65 \n");
}

TEST_CASE("Too much text and too many values are refused") {
  CHECK(wrong(std::string((16 << 20) + 1, ' ')) == "SL0105 g.json \n");
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  CHECK(wrong(many + "]").starts_with("SL0105 1:"));
}

TEST_CASE("Invalid UTF-8 in a string is refused") {
  CHECK(wrong("{\"a\": \"x\xC3\x28\"}") == "SL0106 1:9 \n");
  CHECK(wrong("{\"a\": \"\xED\xA0\x80\"}") == "SL0106 1:8 \n");
  CHECK(wrong(std::string("\xFF\xFE{\0", 4)) == "SL0106 1:1 \n");  // UTF-16
  CHECK(wrong(std::string("{\0\"\0", 4)) == "SL0106 1:2 \n");
}

TEST_CASE("A control character in a string is a line's end only where it is one") {
  const auto hint = [](const std::string& text) {
    Diagnostics diagnostics;
    parse_document("g.json", text, diagnostics);
    return diagnostics.all().at(0).hint;
  };
  CHECK(hint("{\"a\": \"x\n\"}") == "a line ends inside a string; write \\n, or close the string");
  CHECK(hint("{\"a\": \"x\t\"}").empty());
}

TEST_CASE("A file that cannot be read is a diagnostic") {
  Diagnostics diagnostics;
  CHECK_FALSE(read_document("/no/such/file.json", diagnostics));
  CHECK_FALSE(read_document("/tmp", diagnostics));
  CHECK(faults(diagnostics) == "SL0101 /no/such/file.json \nSL0101 /tmp \n");
  CHECK(diagnostics.all()[0].message ==
        "cannot read /no/such/file.json: No such file or directory (no folder no in /)");

  const TemporaryFolder folder;
  const auto file =
      folder.write_text("long.json", "{\"a\": \"" + std::string(200'000, 'x') + "\"}");
  Diagnostics none;
  auto document = read_document(file.string(), none);
  REQUIRE(document);
  CHECK(document->root["a"].get<std::string>().size() == 200'000);
}

TEST_CASE("What is read is what nlohmann-json reads") {
  const std::string text =
      R"({"a": [1, -2, 3.5, "\u00e4\n", null, true, {}, []], "b": {"c": {"d": 1e-3}}})";
  Diagnostics diagnostics;
  CHECK(parse_document("g.json", text, diagnostics)->root == Json::parse(text));
}
