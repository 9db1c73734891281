// Pictures without Graphviz: where boxes stand, and what is written of them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "engine/base/error.h"
#include "engine/judge/dot_reader.h"
#include "engine/judge/label.h"
#include "engine/judge/layered.h"
#include "engine/judge/svg.h"

using namespace sluice;

namespace {

const std::string golden = SLUICE_SOURCE_DIR "/tests/golden/";

std::string file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

double right(const LayoutBox& b) { return b.x + b.width; }
double bottom(const LayoutBox& b) { return b.y + b.height; }

LayeredLayout random_layout(std::mt19937& random) {
  const auto up_to = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  LayeredLayout layout;
  const int boxes = 1 + up_to(25);
  for (int i = 0; i < boxes; ++i)
    layout.boxes.push_back({20.0 + up_to(80), 10.0 + up_to(120), 0, 0});
  for (int i = up_to(40); i > 0 && boxes > 1; --i) {
    const int to = 1 + up_to(boxes - 1);
    layout.lines.push_back({up_to(to), to, up_to(4) == 0, {}});
  }
  return layout;
}

}  // namespace

TEST_CASE("boxes do not overlap, lines lead downwards, and none crosses a box of a row it passes") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    LayeredLayout l = random_layout(random);
    l.arrange();
    CAPTURE(round);
    for (std::size_t i = 0; i < l.boxes.size(); ++i) {
      const LayoutBox& a = l.boxes[i];
      REQUIRE(a.x >= -1e-6);
      REQUIRE(right(a) <= l.width + 1e-6);
      REQUIRE(bottom(a) <= l.height + 1e-6);
      for (std::size_t j = 0; j < i; ++j) {
        const LayoutBox& b = l.boxes[j];
        const bool apart =
            right(a) <= b.x || right(b) <= a.x || bottom(a) <= b.y || bottom(b) <= a.y;
        REQUIRE(apart);
      }
      for (const LayoutLine& line : l.lines)
        for (const auto& pass : line.passes) {
          const bool beside = pass.x <= a.x || pass.x >= right(a);
          const bool other_row = pass.bottom <= a.y || pass.top >= bottom(a);
          const bool passes = beside || other_row;
          REQUIRE(passes);
        }
    }
    for (const LayoutLine& line : l.lines) {
      if (line.weak) continue;  // may lead to another piece
      REQUIRE(bottom(l.boxes[static_cast<std::size_t>(line.from)]) <=
              l.boxes[static_cast<std::size_t>(line.to)].y);
    }
  }
}

TEST_CASE("a chain stands in one column") {
  LayeredLayout l;
  for (const double width : {40.0, 100.0, 60.0}) l.boxes.push_back({width, 20, 0, 0});
  l.lines = {{0, 1, false, {}}, {1, 2, false, {}}};
  l.arrange();
  for (const LayoutBox& b : l.boxes) CHECK(b.x + b.width / 2 == doctest::Approx(50));
  CHECK(l.width == doctest::Approx(100));
}

TEST_CASE("a circle of lines is drawn all the same") {
  LayeredLayout l;
  for (int i = 0; i < 3; ++i) l.boxes.push_back({40, 20, 0, 0});
  l.lines = {{0, 1, false, {}}, {1, 2, false, {}}, {2, 0, false, {}}};
  l.arrange();
  CHECK(l.boxes[2].y > l.boxes[1].y);
}

TEST_CASE("every picture of ours can be drawn, and markup in names stays text") {
  int drawn = 0;
  for (const auto& e : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/tests/golden")) {
    if (e.path().extension() != ".dot") continue;
    const std::string svg = svg_of_dot(file(e.path()));
    INFO(e.path().string());
    CHECK(svg.find("<g id=\"node0\" class=\"node\">") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    ++drawn;
  }
  CHECK(drawn > 0);
  const std::string evil = svg_of_dot(
      "digraph \"<i>\" { \"a<b>\" [label=<&lt;script&gt;<b>x</b>>, tooltip=\"\\\"onload\"]; "
      "\"a<b>\" -> c; }");
  CHECK(evil.find("<script") == std::string::npos);
  CHECK(evil.find("&lt;script&gt;") != std::string::npos);
  CHECK(evil.find("&quot;onload") != std::string::npos);
  CHECK(evil.find("a&lt;b&gt;-&gt;c") != std::string::npos);
}

// With SLUICE_UPDATE_GOLDEN=1 the files are written first: look at them in a browser then.
TEST_CASE("the pictures are those of the golden files") {
  for (const std::string name : {"hippocampus.measured", "shapes"}) {
    CAPTURE(name);
    const std::string svg = svg_of_dot(file(golden + name + ".dot"));
    if (std::getenv("SLUICE_UPDATE_GOLDEN")) std::ofstream(golden + name + ".svg") << svg;
    CHECK(svg == file(golden + name + ".svg"));
  }
}

TEST_CASE("letters are as wide as Helvetica's, bold ones wider, and others of a mean width") {
  std::string all;
  for (char c = ' '; c <= '~'; ++c) all += c;
  const auto width = [](const std::string& text, double size = 1000, bool bold = false) {
    return LabelRun{text, size, "", bold}.width() / 1.08;  // room for fonts that stand for it
  };
  CHECK(width("i") == doctest::Approx(222));
  CHECK(width("W") == doctest::Approx(944));
  CHECK(width("W", 10) == doctest::Approx(9.44));
  CHECK(width("W", 1000, true) == doctest::Approx(1.07 * 944));
  CHECK(width(all) == doctest::Approx(50'058));
  CHECK(width("\xc3\xa4") == doctest::Approx(600));
  CHECK(width("\x7f") == doctest::Approx(600));
  CHECK(width("\xff") == doctest::Approx(600));
}

TEST_CASE("a label of markup is lines of text, each in its own size and colour") {
  const Label label = read_label(
      {"<b>a</b>&amp;&lt;&gt;&quot;&#65;&#228;&#9632;&#128512;&<br/><br/>"
       "<font point-size=\"9\" color=\"red\">x<b>y</b></font>z<table><tr><td>t</td></tr></table>",
       true},
      11, "blue");
  std::string said;
  for (const LabelLine& line : label.lines) {
    for (const LabelRun& r : line.runs)
      said += r.text + " " + std::to_string(static_cast<int>(r.size)) + " " + r.color +
              (r.bold ? " bold; " : "; ");
    said += "\n";
  }
  CHECK(said ==
        "a 11 blue bold; &<>\"A\u00e4\u25a0\U0001f600& 11 blue; \n"
        "x 9 red; y 9 red bold; z 11 blue; \n"
        "t 11 blue; \n");
  CHECK(label.height() == doctest::Approx(3 * 1.15 * 11));
  CHECK(label.width() == label.lines[0].width());
  const Label plain = read_label({"ab\n\ncd"}, 9, "red");
  REQUIRE(plain.lines.size() == 3);
  CHECK(plain.lines[0].runs[0].text == "ab");
  CHECK(plain.lines[1].runs[0].text.empty());
  CHECK(plain.lines[2].runs[0].text == "cd");
  CHECK(read_label({"", true}, 11, "").lines.empty());
}

TEST_CASE("a node may be called like a word of Graphviz'") {
  const std::string svg = svg_of_dot(
      "digraph \"g\" { node [shape=box]; \"edge\" [id=\"node0\"]; \"graph\" [id=\"node1\"]; "
      "\"node\" [id=\"node2\"]; \"subgraph\" [id=\"node3\"]; \"edge\" -> \"graph\"; "
      "\"graph\" -> \"node\"; \"node\" -> \"subgraph\"; }");
  for (const char* title : {"edge", "graph", "node", "subgraph", "edge-&gt;graph", "graph-&gt;node",
                            "node-&gt;subgraph"})
    CHECK(svg.find("<title>" + std::string(title) + "</title>") != std::string::npos);
}

TEST_CASE("a text that is no picture is refused") {
  for (const char* text : {"", "graph {}", "digraph { a -> ", "digraph { a [label=\"x }",
                           "digraph { a [label=<<b>x }", "digraph { subgraph c { a }"})
    CHECK_THROWS_AS(svg_of_dot(text), Error);
}
