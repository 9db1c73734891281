// Shipped graphs, key stroke by key stroke and edited at random.
#include <malloc.h>

#include <chrono>
#include <random>

#include "tests/campaign.h"
#include "tests/lsp/client.h"

using client::Client;
using sluice::Json;

namespace {

// Diagnostics in order, a line each.
struct Said {
  std::vector<std::string> lines;
  void add(const Json& line, const Json& column, const std::string& code,
           const std::string& message) {
    lines.push_back(line.dump() + ":" + column.dump() + " " + code + " " + message);
  }
  std::string text() {
    std::sort(lines.begin(), lines.end());
    std::string out;
    for (const auto& line : lines) out += line + "\n";
    return out;
  }
};

// Columns of texts in ASCII are the editor's.
std::string as_said(const Json& diagnostics, bool columns) {
  Said all;
  for (const Json& d : diagnostics) {
    std::string message = d["message"];
    if (d.contains("hint")) message += "\n" + d["hint"].get<std::string>();
    for (const Json& note : d.value("notes", Json::array()))
      message += "\nnote: " + note.get<std::string>();
    all.add(d.value("line", 1) - 1, columns ? d.value("column", 1) - 1 : 0, d["code"], message);
  }
  return all.text();
}

// What `sluice check --json` says of a file.
std::string checked(const std::string& file, bool columns = true) {
  const Json graphs = Json::parse(shell::run("$SLUICE check --json '" + file + "'").out)["graphs"];
  return as_said(graphs[0]["diagnostics"], columns);
}

// The same in this process, of a text.
std::string checked_here(const std::string& file, const std::string& text, bool columns) {
  sluice::Diagnostics found;
  const auto document = sluice::read_graph_files({file}, found, &text);
  const auto graph = sluice::load_graph(document, types::real(), {}, found);
  if (graph) sluice::make_plan(*graph, {}, found);
  return as_said(found.to_json(), columns);
}

std::string published(Client& c, const std::string& uri, bool columns = true) {
  Said all;
  for (const Json& d : c.diagnostics(uri)) {
    const Json& start = d["range"]["start"];
    all.add(start["line"], columns ? start["character"].get<int>() : 0, d["code"], d["message"]);
  }
  return all.text();
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Json end_of(const std::string& text) {
  const auto line = text.rfind('\n');
  return {{"line", std::count(text.begin(), text.end(), '\n')},
          {"character", line == std::string::npos ? text.size() : text.size() - line - 1}};
}

double milliseconds(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since)
      .count();
}

// A change somewhere: letters, brackets, quotes, whole words gone, lines doubled, and characters of
// every length in UTF-8 and UTF-16.
struct Change {
  std::size_t begin, end;  // bytes, at the beginning of characters
  std::string text;
};
Change any_change(const std::string& text, std::mt19937& random) {
  static const std::vector<std::string> pieces{"\"",
                                               "{",
                                               "}",
                                               "[",
                                               "]",
                                               ",",
                                               ":",
                                               "\n",
                                               "\r\n",
                                               " ",
                                               "a",
                                               "@",
                                               "0",
                                               "-1",
                                               "é",
                                               "🧠",
                                               "\t",
                                               "//",
                                               "/*",
                                               "*/",
                                               "\\",
                                               "\"type\": ",
                                               "\"in\": \"",
                                               "null",
                                               "true",
                                               "\"x\": {\"type\": \"batch\"}, ",
                                               "\"nodes\"",
                                               "1e999",
                                               "\"\\ud83e\"",
                                               "'",
                                               ""};
  const auto begins = [&](std::size_t at) {
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    // Not between \r and \n: no editor's cursor stands there.
    if (at > 0 && at < text.size() && text[at] == '\n' && text[at - 1] == '\r') ++at;
    return at;
  };
  const std::size_t begin = begins(random() % (text.size() + 1));
  const std::size_t length = random() % 3 == 0 ? random() % 12 : 0;
  return {begin, begins(std::min(text.size(), begin + length)), pieces[random() % pieces.size()]};
}

}  // namespace

TEST_CASE("lsp: shipped graphs and golden messages are marked as check marks them") {
  std::vector<std::string> files;
  for (const auto& [file, text] : client::shipped())
    if (file.find("/parts/") == std::string::npos) files.push_back(file);
  for (const auto& e : shell::fs::directory_iterator(SLUICE_SOURCE_DIR "/tests/golden/messages")) {
    const std::string file = e.path().string();
    // toy: another catalogue's types. part: a part's file. SL0106: no UTF-8, which no editor sends.
    if (file.ends_with(".json") && file.find(".toy") == std::string::npos &&
        file.find(".part") == std::string::npos && file.find("SL0106") == std::string::npos)
      files.push_back(file);
  }
  REQUIRE(files.size() > 40);
  for (const auto& file : files) {
    CAPTURE(file);
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}}, uri = "file://" + file;
    Client c;
    c.open(uri, text);
    if (text.find("\"nodes\"") == std::string::npos && text.find("$schema") == std::string::npos)
      continue;  // no graph to the server
    CHECK(published(c, uri, is_ascii(text)) == checked(file, is_ascii(text)));
  }
}

TEST_CASE("lsp: shipped parts and differences are right on their own") {
  for (const auto& [file, text] : client::shipped()) {
    if (file.find("/parts/") == std::string::npos) continue;
    CAPTURE(file);
    Client c;
    c.open("file://" + file, text);
    CHECK(published(c, "file://" + file) == "");
  }
}

TEST_CASE("lsp: every beginning of a shipped graph is answered") {
  const auto all = client::shipped();
  const std::size_t step = std::size_t{campaign::at_length() ? 1u : 61u};
  double slowest = 0;
  for (const auto& [file, text] : all) {
    const std::string uri = "file://" + file;
    Client c;
    c.open(uri, "{\"nodes\":");
    for (std::size_t n = 1; n <= text.size(); n += step) {
      if (n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) continue;
      const std::string front = text.substr(0, n);
      const auto since = std::chrono::steady_clock::now();
      c.replace(uri, front);
      slowest = std::max(slowest, milliseconds(since));
      const Json params = {{"textDocument", {{"uri", uri}}}, {"position", end_of(front)}};
      for (const char* method : {"completion", "hover", "documentSymbol", "definition"}) {
        const Json a = c.answer("textDocument/" + std::string(method), params);
        CAPTURE(front);
        REQUIRE(a.contains("result"));
      }
    }
  }
  MESSAGE("slowest answer to a change: ", slowest, " ms");
  CHECK(slowest < 200);
}

TEST_CASE("lsp: after random edits the text is the editor's and the marks are those of check") {
  const auto all = client::shipped();
  std::mt19937 random(static_cast<std::uint32_t>(6 + campaign::seed()));
  shell::Folder folder;
  // 25 edits each.
  for (campaign::Cases documents("edited_documents", 24, 400); documents.next();) {
    const auto& [file, first] = all[random() % all.size()];
    if (file.find("/parts/") != std::string::npos) continue;
    // Beside the graphs that it names; the file on disk is written at the end.
    const std::string name = (folder.path / "g.json").string(), uri = "file://" + name;
    Client c;
    std::string text = first;
    c.open(uri, text);
    for (int i = 0; i < 25; ++i) {
      const Change change = any_change(text, random);
      const sluice::lsp::Lines lines(text, false);
      c.tell("textDocument/didChange",
             {{"textDocument", {{"uri", uri}, {"version", ++c.version}}},
              {"contentChanges", Json::array({{{"range", lines.range({change.begin, change.end})},
                                               {"text", change.text}}})}});
      text.replace(change.begin, change.end - change.begin, change.text);
      CHECK(c.published[uri]["version"] == c.version);
      CHECK(published(c, uri, is_ascii(text)) == checked_here(name, text, is_ascii(text)));
      if (i % 5 == 0) {
        const Json params = {{"textDocument", {{"uri", uri}}},
                             {"position", lines.position(change.begin)}};
        for (const char* method : {"completion", "hover", "documentSymbol", "references"})
          REQUIRE(c.answer("textDocument/" + std::string(method), params).contains("result"));
      }
      // Small steps back to a graph, so that not all of them are broken.
      if (i % 6 == 5) {
        text = first;
        c.replace(uri, text);
      }
    }
    // The same text at once says the same.
    const auto by_edits = published(c, uri);
    Client fresh;
    fresh.open(uri, "{\"nodes\": 1}");
    fresh.replace(uri, text);
    CAPTURE(text);
    CHECK(published(fresh, uri) == by_edits);
    folder.write("g.json", text);
    CHECK(published(c, uri, is_ascii(text)) == checked(name, is_ascii(text)));
  }
}

TEST_CASE("lsp: edits of a document leave no memory behind") {
  const auto [file, text] = client::shipped().front();
  const std::string uri = "file://" + file;
  std::mt19937 random(1);
  Client c;
  c.open(uri, text);
  const auto edit = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const Change change = any_change(text, random);
      c.replace(uri,
                std::string(text).replace(change.begin, change.end - change.begin, change.text));
      c.notices.clear();
    }
    return mallinfo2().uordblks;
  };
  const std::size_t before = edit(150), after = edit(600);
  CHECK(after < before + (256u << 10));
}

TEST_CASE("lsp: columns far out in a line are counted as near ones are") {
  std::string text = "{}\n";
  for (int i = 0; i < 3000; ++i) text += "a\xC3\xA9\xF0\x9F\x98\x80";  // of 1, 2 and 4 bytes
  text += "\n{}";
  for (const bool utf8 : {true, false}) {
    const sluice::lsp::Lines lines(text, utf8);
    for (std::size_t i = 0; i <= 3000; i += 7) {
      const Json at = {{"line", 1}, {"character", i * (utf8 ? 7 : 4)}};
      CHECK(lines.position(3 + 7 * i) == at);
      CHECK(lines.byte(at) == 3 + 7 * i);
    }
    CHECK(lines.position(text.size()) == Json{{"line", 2}, {"character", 2}});
  }
}

TEST_CASE("lsp: every node of every shipped graph is renamed there and back") {
  for (const auto& [file, text] : client::shipped()) {
    if (file.find("/parts/") != std::string::npos) continue;
    const Json root = Json::parse(text, nullptr, true, true);
    const std::string uri = "file://" + file;
    Client c;
    c.open(uri, text);
    for (const auto& [name, node] : root["nodes"].items()) {
      CAPTURE(file);
      CAPTURE(name);
      std::string from = text;
      const auto nodes = from.find("\"nodes\": {\n    \"");
      const auto key = from.rfind("\n    \"" + name + "\":");
      if (nodes == std::string::npos || key == std::string::npos) continue;
      const sluice::lsp::Lines lines(text, false);
      Json params = {{"textDocument", {{"uri", uri}}},
                     {"position", lines.position(key + 7)},
                     {"newName", name + "_2"}};
      const std::string there =
          client::applied(text, c.ask("textDocument/rename", params)["changes"][uri]);
      CHECK(there != text);
      const std::string before = published(c, uri, false);
      c.replace(uri, there);
      CHECK(published(c, uri, false) == before);
      params["newName"] = name;
      const std::string back =
          client::applied(there, c.ask("textDocument/rename", params)["changes"][uri]);
      CHECK(back == text);
      c.replace(uri, text);
    }
  }
}
