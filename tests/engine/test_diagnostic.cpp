#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "engine/base/diagnostic.h"
#include "toy_graph.h"

using namespace sluice;

static std::string printed(const Diagnostics& diagnostics, bool color = false) {
  std::ostringstream out;
  diagnostics.print(out, color);
  return out.str();
}

static Place place_in(const std::string& text, const std::string& pointer) {
  Diagnostics none;
  return {parse_document("graphs/brain.json", text, none), pointer};
}

TEST_CASE("A diagnostic shows code, place, path, line, caret and hint") {
  const Place place = place_in("{\n  \"load\": { \"type\": \"load_imgae\" }\n}", "/load/type");
  Diagnostics diagnostics;
  diagnostics.error("SL0203", "unknown node type \"load_imgae\"", place, "nodes.load.type",
                    "did you mean \"load_image\"?");
  CHECK(printed(diagnostics) ==
        "error[SL0203]: unknown node type \"load_imgae\"\n"
        "  --> graphs/brain.json:2:21  (nodes.load.type)\n"
        "   |\n"
        " 2 |   \"load\": { \"type\": \"load_imgae\" }\n"
        "   |                     ^^^^^^^^^^^^ did you mean \"load_image\"?\n"
        "found 1 error, 0 warnings\n");
}

TEST_CASE("What is wrong in a part that is used twice is one diagnostic, with the other nodes") {
  const Place place = place_in("{\n  \"norm\": { \"keys\": \"imgae\" }\n}", "/norm/keys");
  Diagnostics d;
  for (const std::string part : {"pre/", "vpre/", "pre/"})
    d.error_of_node(part + "norm", "SL0601",
                    "\"" + part + "norm\" needs what \"" + part + "load\" does not give", place,
                    "nodes." + part + "norm.keys", "");
  REQUIRE(d.errors() == 1);
  CHECK(d.all()[0].message == "\"pre/norm\" needs what \"pre/load\" does not give");
  CHECK(d.all()[0].notes == std::vector<std::string>{"also in \"vpre/norm\""});
  d.error_of_node("vpre/norm", "SL0601", "\"vpre/norm\" needs more", place, "nodes.vpre/norm.keys",
                  "");
  CHECK(d.errors() == 2);
}

TEST_CASE("Diagnostics stand in file order, with notes, and the gutter fits the line number") {
  std::string text(99, '\n');  // not one sum: g++ 12 reports an overflow that there is not
  text += "{\"b\":\t\"ä\", \"c\": 1}";
  Diagnostics diagnostics;
  diagnostics.warning("SL0202", "second", place_in(text, "/c").key(), "c");
  diagnostics.error("SL0202", "first", place_in(text, "/b"), "b").notes = {"one", "two"};
  CHECK(printed(diagnostics) ==
        "error[SL0202]: first\n"
        "    --> graphs/brain.json:100:7  (b)\n"
        "     |\n"
        " 100 | {\"b\": \"ä\", \"c\": 1}\n"
        "     |       ^^^\n"
        "     = note: one\n"
        "     = note: two\n"
        "warning[SL0202]: second\n"
        "    --> graphs/brain.json:100:12  (c)\n"
        "     |\n"
        " 100 | {\"b\": \"ä\", \"c\": 1}\n"
        "     |            ^^^\n"
        "found 1 error, 1 warning\n");
}

TEST_CASE("Without a line the hint stands on a line of its own") {
  Diagnostics diagnostics;
  diagnostics.error("SL0501", "no such path", {}, "nodes.setp.lr", "did you mean nodes.step.lr?");
  CHECK(printed(diagnostics) ==
        "error[SL0501]: no such path\n"
        "  --> (nodes.setp.lr)\n"
        "   = help: did you mean nodes.step.lr?\n"
        "found 1 error, 0 warnings\n");
}

TEST_CASE("A long line is cut around the caret") {
  const std::string text = "{\"a\": \"" + std::string(300, 'x') + "\", \"b\": 7, \"c\": \"" +
                           std::string(300, 'y') + "\"}";
  Diagnostics diagnostics;
  diagnostics.error("SL0222", "wrong", place_in(text, "/b"), "b");
  std::istringstream lines(printed(diagnostics));
  std::string line, caret;
  for (int i = 0; i < 4; ++i) std::getline(lines, line);
  std::getline(lines, caret);
  CHECK(line.size() < 130);
  CHECK(line[caret.find('^')] == '7');
  CHECK(line.starts_with(" 1 | ...xxx"));
  CHECK(line.ends_with("yyy..."));
}

TEST_CASE("A line is whole up to 110 characters, and a longer one shows 40 before the caret") {
  const auto shown = [](std::size_t before, std::size_t length, std::size_t behind) {
    const std::string text = "{\"" + std::string(before - 5, 'a') + "\": \"" +
                             std::string(length - 2, 'x') + "\"" + std::string(behind - 1, ' ') +
                             "}";
    Diagnostics diagnostics;
    diagnostics.error("SL0222", "wrong", place_in(text, "/" + std::string(before - 5, 'a')), "b");
    std::istringstream lines(printed(diagnostics));
    std::string line, caret;
    for (int i = 0; i < 4; ++i) std::getline(lines, line);
    std::getline(lines, caret);
    const std::size_t at = caret.find('^');
    std::string out = std::to_string(line.size() - 5) + " caret " + std::to_string(at - 5) + "+" +
                      std::to_string(caret.rfind('^') - at + 1);
    if (line.substr(5, 3) == "...") out += " cut";
    if (line.ends_with("...")) out += " on";
    return out;
  };
  CHECK(shown(50, 10, 50) == "110 caret 50+10");
  CHECK(shown(50, 10, 51) == "113 caret 52+10 cut");      // the last 110
  CHECK(shown(50, 10, 200) == "116 caret 43+10 cut on");  // 40 in front of it
  CHECK(shown(40, 10, 200) == "113 caret 40+10 on");      // from the line's beginning
  CHECK(shown(41, 10, 200) == "116 caret 43+10 cut on");
  CHECK(shown(50, 100, 20) == "116 caret 43+70 cut on");  // no further than what is shown
  CHECK(shown(10, 300, 2) == "113 caret 10+100 on");
}

TEST_CASE("What would control the terminal is shown as a space, and what is no character as one") {
  const auto shown = [](const std::string& inside) {
    auto document = std::make_shared<Document>();
    document->file = "f";
    document->text = inside;
    document->values["/b"] = {1, 1, 1};
    Diagnostics diagnostics;
    diagnostics.error("SL0222", "wrong", {document, "/b"}, "");
    std::istringstream lines(printed(diagnostics));
    std::string line;
    for (int i = 0; i < 4; ++i) std::getline(lines, line);
    return line.substr(5);
  };
  CHECK(shown("a\tb\x1b[c") == "a b [c");
  CHECK(shown("a\x7f\xC2\x80\xC2\x9F"
              "b\xC2\xA0") == "a   b\xC2\xA0");
  CHECK(shown(" ~") == " ~");
  CHECK(shown("a\xC3(") == "a\xEF\xBF\xBD(");
  CHECK(shown("\xEF\xBB\xBF"
              "a") == "a");  // a byte order mark has no column
}

TEST_CASE("A hundred of a kind are all printed, and of more it is said how many more") {
  Diagnostics diagnostics;
  const auto add = [&](int i) { diagnostics.error("SL0222", std::to_string(i), {}, "p"); };
  for (int i = 0; i < 100; ++i) add(i);
  CHECK(printed(diagnostics).find("more of this kind") == std::string::npos);
  CHECK(printed(diagnostics).find("error[SL0222]: 99\n") != std::string::npos);
  add(100);
  CHECK(printed(diagnostics).find("error[SL0222]: and 1 more of this kind\n") != std::string::npos);
  CHECK(printed(diagnostics).find("error[SL0222]: 100\n") == std::string::npos);
}

TEST_CASE("Of places where the same is wrong three are named") {
  const auto document = place_in("{\"a\": [0,\n1,\n2,\n3,\n4,\n5]}", "").document;
  Diagnostics diagnostics;
  const auto say = [&](int i) {
    diagnostics.error_once("SL0205", "unknown", {document, "/a/" + std::to_string(i)}, "a", "hint");
  };
  for (const int i : {0, 1, 1, 0, 2, 3}) say(i);
  CHECK(diagnostics.errors() == 1);
  CHECK(diagnostics.all()[0].notes == std::vector<std::string>{"also at graphs/brain.json:2:1",
                                                               "also at graphs/brain.json:3:1",
                                                               "also at graphs/brain.json:4:1"});
  for (const int i : {4, 5, 1}) say(i);
  CHECK(diagnostics.all()[0].notes.size() == 4);
  CHECK(diagnostics.all()[0].notes.back() == "and at more places");
  diagnostics.error_once("SL0205", "unknown", {document, "/a/4"}, "a", "hint", "of another part");
  CHECK(diagnostics.errors() == 2);
}

TEST_CASE("A warning is yellow, a note is cyan, and neither is an error") {
  Diagnostics diagnostics;
  diagnostics.add({Severity::note, "", "told", {}, "", "", {}});
  diagnostics.warning("SL0452", "doubtful", {}, "");
  CHECK(diagnostics.ok());
  CHECK(printed(diagnostics).starts_with("note: told\nwarning[SL0452]: doubtful\nfound 0 errors"));
  CHECK(printed(diagnostics, true).starts_with("\x1b[1;36mnote\x1b[0m\x1b[1m: told\x1b[0m\n"));
  CHECK(printed(diagnostics, true).find("\x1b[1;33mwarning[SL0452]\x1b[0m") != std::string::npos);
  CHECK(diagnostics.to_json()[0].dump() == R"({"severity":"note","code":"","message":"told"})");
}

TEST_CASE("Colour is added and nothing else") {
  Diagnostics diagnostics;
  diagnostics.error("SL0222", "wrong", place_in("{\"b\": 7}", "/b"), "b", "hint");
  std::string text = printed(diagnostics, true);
  CHECK(text.find("\x1b[1;31merror[SL0222]\x1b[0m") != std::string::npos);
  for (auto at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b'))
    text.erase(at, text.find('m', at) - at + 1);
  CHECK(text == printed(diagnostics));
}

TEST_CASE("The same diagnostic at the same place is said once") {
  const Place place = place_in("{\"b\": 7}", "/b");
  Diagnostics diagnostics;
  diagnostics.error("SL0222", "wrong", place, "nodes.one/b");
  diagnostics.error("SL0222", "wrong", place, "nodes.two/b");
  diagnostics.error("SL0222", "wrong in another way", place, "nodes.two/b");
  CHECK(diagnostics.errors() == 2);
}

TEST_CASE("Diagnostics as JSON carry everything that is printed") {
  Diagnostics diagnostics;
  diagnostics.error("SL0222", "wrong", place_in("{\"b\": 70}", "/b"), "b", "hint").notes = {"n"};
  CHECK(diagnostics.to_json().dump() ==
        R"([{"severity":"error","code":"SL0222","message":"wrong","file":"graphs/brain.json",)"
        R"("place":"graphs/brain.json:1:7","line":1,"column":7,"length":2,"path":"b",)"
        R"("hint":"hint","notes":["n"]}])");
}

TEST_CASE("The nearest name is found across insertion, deletion, substitution and swap") {
  const std::vector<std::string> known{"load_image", "rand_flip", "rand_zoom", "spacing"};
  CHECK(nearest("load_imge", known) == "load_image");
  CHECK(nearest("load_imagee", known) == "load_image");
  CHECK(nearest("load_umage", known) == "load_image");
  CHECK(nearest("laod_imgae", known) == "load_image");
  CHECK(nearest("rand_floom", known) == "rand_zoom");
  CHECK(nearest("spcaing", known) == "spacing");
  CHECK(nearest("orientation", known) == "");
  CHECK(nearest("", known) == "");
  CHECK(nearest("ab", {"ac", "ad"}) == "ac");  // ties go to the first
  CHECK(nearest("unett", {"unest", "unet"}) == "unet");
  CHECK(did_you_mean("spaceing", known) == "did you mean \"spacing\"?");
  CHECK(did_you_mean("zzz", known) == "");
  // One letter of up to three, two of up to seven, three of up to eleven.
  CHECK(nearest("abc", {"xbc"}) == "xbc");
  CHECK(nearest("abc", {"xyc"}) == "");
  CHECK(nearest("abcd", {"xycd"}) == "xycd");
  CHECK(nearest("abcd", {"xyzd"}) == "");
  CHECK(nearest("abcdefg", {"xyzdefg"}) == "");
  CHECK(nearest("abcdefgh", {"xyzdefgh"}) == "xyzdefgh");
  CHECK(nearest("abcd", {"abcdef"}) == "abcdef");
  CHECK(nearest("abcd", {"abcdefg"}) == "");
  CHECK(nearest("abcdef", {"abcd"}) == "abcd");
  CHECK(nearest("abdc", {"abcde", "abcd"}) == "abcd");  // the swap is nearer
  const std::string longest(200, 'x');
  CHECK(nearest(longest, {longest.substr(1)}) == longest.substr(1));
  CHECK(nearest(longest + "x", {longest}) == "");
}

// tests/cli/test_agreement.cpp holds graphs with these mistakes against the schema.
TEST_CASE("The codes of files that the JSON Schema refuses too are these") {
  std::string by_schema;
  for (const CodeText& c : all_codes())
    if (c.by_schema) by_schema += std::string(c.code) + " ";
  CHECK(by_schema ==
        "SL0201 SL0202 SL0203 SL0204 SL0208 SL0209 SL0210 SL0212 SL0213 SL0216 SL0217 SL0218 "
        "SL0219 SL0221 SL0222 SL0223 SL0224 SL0226 SL0227 SL0228 SL0229 SL0230 SL0231 SL0232 "
        "SL0233 SL0303 SL0304 SL0305 SL0307 SL0310 SL0312 SL0316 ");
}

TEST_CASE("Every code is described once, in order, in lines that fit a terminal") {
  std::string last;
  for (const CodeText& c : all_codes()) {
    INFO(c.code);
    CHECK(std::string(c.code) > last);
    last = c.code;
    CHECK_FALSE(c.title.empty());
    CHECK_FALSE(c.title.ends_with('.'));
    CHECK(c.explanation.ends_with('.'));
    std::istringstream lines{std::string(c.explanation)};
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
  REQUIRE(find_code("SL0203"));
  CHECK(find_code("SL0203")->title == "unknown node type");
  CHECK_FALSE(find_code("SL9999"));
}
