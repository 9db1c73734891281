// The wire: headers, ids, order, cancellation, positions, hostile input.
#include <sys/resource.h>

#include "tests/lsp/client.h"

using client::Client;
using client::framed;
using sluice::Json;

namespace {

const std::string uri = "file:///graphs/g.json";

// The exit code and what the server says where it reads nothing but `bytes`.
struct Session {
  int code = -1;
  std::string err;
  std::vector<Json> answers;

  explicit Session(const std::string& bytes) {
    Client c{Json()};
    c.feed.bytes = bytes;
    code = c.server.serve();
    err = c.err.str();
    c.collect();
    for (const auto& [id, answer] : c.answers) answers.push_back(answer);
  }
};

std::string request(int id, const std::string& method, Json params = Json::object()) {
  Json m = Client::message(method, std::move(params));
  m["id"] = id;
  return framed(m.dump());
}
std::string notice(const std::string& method) {
  return framed(Client::message(method, Json::object()).dump());
}

}  // namespace

TEST_CASE("lsp: a session that shuts down ends with 0, any other with 1") {
  const std::string begin = request(1, "initialize") + notice("initialized");
  CHECK(Session(begin + request(2, "shutdown") + notice("exit")).code == 0);
  CHECK(Session(begin + request(2, "shutdown")).code == 0);
  CHECK(Session(begin + notice("exit")).code == 1);
  CHECK(Session(begin).code == 1);
  CHECK(Session("").code == 1);
}

TEST_CASE("lsp: what cannot be answered is refused with the protocol's codes") {
  const auto code = [](const std::string& bytes) -> int {
    const Session s(bytes);
    REQUIRE_FALSE(s.answers.empty());
    INFO(s.answers.back().dump());
    REQUIRE(s.answers.back().contains("error"));
    return s.answers.back()["error"]["code"];
  };
  const std::string begin = request(1, "initialize");
  CHECK(code(request(1, "textDocument/hover")) == -32002);
  CHECK(code(begin + request(2, "textDocument/nothing")) == -32601);
  CHECK(code(begin + request(2, "initialize")) == -32600);
  CHECK(code(begin + request(2, "shutdown") + request(3, "textDocument/hover")) == -32600);
  CHECK(code(framed("{ nothing")) == -32700);
  CHECK(code(framed("\"\xff\"")) == -32700);
  CHECK(code(framed(R"({"jsonrpc":"2.0","id":1,"method":"\ud800"})")) == -32700);
  CHECK(code(framed("[]")) == -32600);
  CHECK(code(framed("[" + std::string(10000, '[') + std::string(10000, ']') + "]")) == -32600);
  CHECK(code(framed(R"({"jsonrpc":"2.0","id":null,"method":"shutdown"})")) == -32600);
  CHECK(code(framed(R"({"jsonrpc":"2.0","id":{},"method":"shutdown"})")) == -32600);
}

TEST_CASE("lsp: headers that are none end the server with a word and without waiting") {
  for (const std::string& bytes :
       {std::string("Content-Length: 2000000000\r\n\r\n{}"),
        std::string("Content-Length: -1\r\n\r\n{}"),
        std::string("Content-Length: 99999999999999999999999\r\n\r\n{}"),
        std::string("Content-Length: many\r\n\r\n{}"), std::string("Content-Type: text\r\n\r\n{}"),
        std::string("nothing\r\n\r\n{}"), std::string(100000, 'x'),
        std::string("Content-Length: 10\r\n\r\n{}"), std::string("\r\n\r\n\r\n\r\n")}) {
    CAPTURE(bytes.substr(0, 60));
    const Session s(bytes);
    CHECK(s.code == 1);
    CHECK(s.err.starts_with("sluice lsp: "));
    CHECK(std::count(s.err.begin(), s.err.end(), '\n') == 1);
  }
}

TEST_CASE("lsp: parameters of any type are answered") {
  Client c;
  c.open(uri, "{\"nodes\": {}}");
  for (const char* method :
       {"textDocument/completion", "textDocument/hover", "textDocument/definition",
        "textDocument/references", "textDocument/documentHighlight", "textDocument/prepareRename",
        "textDocument/rename", "textDocument/codeAction", "textDocument/documentSymbol",
        "textDocument/inlayHint", "textDocument/foldingRange", "textDocument/codeLens",
        "textDocument/formatting", "textDocument/didChange", "textDocument/didOpen",
        "textDocument/didClose"})
    for (const Json& params :
         {Json(), Json(1), Json::array(), Json::object(), Json{{"textDocument", 3}},
          Json{{"textDocument", {{"uri", uri}}}, {"position", "x"}, {"range", 1}},
          Json{{"textDocument", {{"uri", uri}}},
               {"position", {{"line", -5}, {"character", 1e300}}}},
          Json{{"textDocument", {{"uri", uri}}},
               {"position", {{"line", 1u << 31}, {"character", 1u << 31}}},
               {"contentChanges", {1, "x", {{"range", 3}}}}}}) {
      CAPTURE(method);
      CAPTURE(params.dump());
      const Json a = c.answer(method, params);
      const bool answered = a.is_object() && (a.contains("result") || a.contains("error"));
      CHECK(answered);
    }
}

TEST_CASE("lsp: a request that was cancelled while it waited is not answered") {
  Client c;
  c.open(uri, "{\"nodes\": {}}");
  const int first =
      c.queue_request("textDocument/documentSymbol", {{"textDocument", {{"uri", uri}}}});
  const int second =
      c.queue_request("textDocument/documentSymbol", {{"textDocument", {{"uri", uri}}}});
  c.queue(Client::message("$/cancelRequest", {{"id", first}}));
  c.queue(Client::message("$/setTrace", {{"value", "off"}}));
  c.work();
  CHECK(c.answers.at(first)["error"]["code"] == -32800);
  CHECK(c.answers.at(second).contains("result"));
}

TEST_CASE("lsp: only the last of several changes that wait is said to be wrong") {
  Client c;
  c.open(uri, "{\"nodes\": {}}");
  c.notices.clear();
  for (int i = 0; i < 20; ++i)
    c.queue(Client::message(
        "textDocument/didChange",
        {{"textDocument", {{"uri", uri}, {"version", 100 + i}}},
         {"contentChanges",
          Json::array({{{"text", i < 19 ? "{\"nodes\": 1}" : "{\"nodes\": {}, }"}}})}}));
  c.work();
  REQUIRE(c.notices.size() == 1);
  CHECK(c.published[uri]["version"] == 119);
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0112"});
}

TEST_CASE("lsp: marks go when a file is closed, and other JSON files have none") {
  Client c;
  c.open(uri, "{\"nodes\": 1}");
  CHECK_FALSE(c.diagnostics(uri).empty());
  c.tell("textDocument/didClose", {{"textDocument", {{"uri", uri}}}});
  CHECK(c.diagnostics(uri).empty());
  c.open("file:///package.json", "{\"scripts\": 1,, }");
  CHECK(c.diagnostics("file:///package.json").empty());
  CHECK(c.ask("textDocument/hover", client::at("file:///package.json", "{}", "{")).is_null());
}

TEST_CASE("lsp: positions count UTF-16 units, or bytes where the editor does") {
  // é: 1 unit, 2 bytes; 🧠: 2 units, 4 bytes
  const std::string text = "{\"desc\": \"é 🧠\", \"nods\": {}, \"nodes\": {}}";
  const auto begin = [&](const Json& capabilities) -> int {
    Client c{capabilities};
    c.open(uri, text);
    for (const Json& d : c.diagnostics(uri))
      if (d["code"] == "SL0202") return d["range"]["start"]["character"];
    return -1;
  };
  CHECK(begin(Json::object()) == 17);
  CHECK(begin({{"general", {{"positionEncodings", {"utf-8", "utf-16"}}}}}) == 20);
  // An edit after them, by units.
  Client c;
  c.open(uri, text);
  c.tell("textDocument/didChange",
         {{"textDocument", {{"uri", uri}, {"version", 2}}},
          {"contentChanges", Json::array({{{"range",
                                            {{"start", {{"line", 0}, {"character", 17}}},
                                             {"end", {{"line", 0}, {"character", 29}}}}},
                                           {"text", ""}}})}});
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0210"});
}

TEST_CASE(
    "lsp: a part's own file is checked as a part, and its faults show in graphs that name it") {
  shell::Folder folder;
  const std::string part = R"({ "in": "files", "out": "load",
  "nodes": { "load": { "type": "load_imag", "in": "files", "keys": "@keys" } } })";
  const std::string whole = R"({ "vars": { "keys": "image" }, "parts": { "p": "p.json" },
  "nodes": { "a": { "type": "file_list", "root": "x", "pattern": "*" }, "b": { "part": "p", "in": "a" },
             "c": { "type": "preview", "in": "b" } } })";
  folder.write("p.json", part);
  folder.write("g.json", whole);
  const std::string p = "file://" + (folder.path / "p.json").string(),
                    g = "file://" + (folder.path / "g.json").string();
  Client c;
  c.open(p, part);
  CHECK(c.codes(p) == std::vector<std::string>{"SL0203"});
  c.open(g, whole);
  INFO(c.diagnostics(g).dump(1));
  REQUIRE(c.codes(g) == std::vector<std::string>{"SL0203"});
  const Json d = c.diagnostics(g)[0];
  CHECK(d["range"]["start"] == client::position(whole, "\"p.json\""));
  CHECK(d["relatedInformation"][0]["location"]["uri"] == p);
  CHECK(d["relatedInformation"][0]["location"]["range"]["start"] ==
        client::position(part, "\"load_imag\""));
  // What the editor holds counts, not what the disk does.
  std::string mended = part;
  mended.replace(mended.find("load_imag"), 9, "load_image");
  c.replace(p, mended);
  CHECK(c.codes(p).empty());
  CHECK(std::find(c.codes(g).begin(), c.codes(g).end(), "SL0203") == c.codes(g).end());
  CHECK(c.ask("textDocument/definition", client::at(g, whole, "\"part\": \"p\"", 9))["uri"] == p);
  // A node of the part is renamed in its file.
  Json params = client::at(g, whole, "\"keys\":", 2);
  params["newName"] = "what";
  const Json edit = c.ask("textDocument/rename", params);
  CHECK(edit["changes"].size() == 2);
}

TEST_CASE("lsp: a file that is two parts is changed once by a rename") {
  shell::Folder folder;
  folder.write("p.json", R"({ "in": "x", "out": "n", "nodes": {
  "n": { "type": "scale_intensity", "in": "x", "minv": "@low" } } })");
  const std::string whole =
      R"({ "vars": { "low": 0.5 }, "parts": { "p": "p.json", "q": "./p.json" },
  "nodes": { "a": { "type": "synthetic", "spatial_size": [9, 9, 9], "num_samples": 1 },
             "b": { "part": "p", "in": "a" }, "c": { "part": "q", "in": "b" } } })";
  const std::string uri = "file://" + (folder.path / "g.json").string();
  const Json editor = {{"workspace", {{"workspaceEdit", {{"documentChanges", true}}}}}};
  Client c(editor);
  c.open(uri, whole);
  Json params = client::at(uri, whole, "\"low\"", 2);
  params["newName"] = "least";
  const Json edit = c.ask("textDocument/rename", params);
  INFO(edit.dump(1));
  CHECK(edit["documentChanges"].size() == 2);
  for (const Json& file : edit["documentChanges"]) CHECK(file["edits"].size() == 1);
}

TEST_CASE("lsp: a file that is only a difference is checked with what it says it differs from") {
  shell::Folder folder;
  const std::string base = R"({ "nodes": {
  "a": { "type": "file_list", "root": "x", "pattern": "*" },
  "b": { "type": "load_image", "in": "a", "keys": "image" },
  "c": { "type": "preview", "in": "b" } } })";
  const std::string over = R"({ "x-base": "base.json", "nodes": {
  "a": { "root": "y", "shufle": true },
  "d": { "type": "normalize_intensity", "in": "b" }, "c": { "in": "d" } } })";
  folder.write("base.json", base);
  const std::string uri = "file://" + (folder.path / "over.json").string();
  Client c;
  c.open(uri, over);
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0221"});
  CHECK(c.diagnostics(uri)[0]["range"]["start"] == client::position(over, "\"shufle\""));
  const Json found =
      c.ask("textDocument/completion", client::at(uri, over, "\"in\": \"b\"", 7))["items"];
  CHECK(std::any_of(found.begin(), found.end(), [](const Json& i) { return i["label"] == "a"; }));
  CHECK(c.ask("textDocument/definition", client::at(uri, over, "\"in\": \"b\"", 7))["uri"] ==
        "file://" + (folder.path / "base.json").string());
  std::string right = over;
  right.replace(right.find("shufle"), 6, "shuffle");
  c.replace(uri, right);
  CHECK(c.codes(uri).empty());
  Json params = client::at(uri, right, "\"in\": \"b\"", 7);
  params["newName"] = "read";
  CHECK(c.ask("textDocument/rename", params)["changes"].size() == 2);
  c.replace(uri, R"({ "x-base": "/dev/zero", "nodes": {} })");
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0101"});
}

TEST_CASE("lsp: a part that contains itself, also twice, is answered") {
  const std::string text = R"({ "parts": { "p": { "in": "x", "out": "a", "nodes": {
  "a": { "part": "p", "in": "x" }, "b": { "part": "p", "in": "a" } } } },
  "nodes": { "n": { "part": "p", "in": "n" } } })";
  Client c;
  c.open(uri, text);
  CHECK_FALSE(c.diagnostics(uri).empty());
  Json params = client::at(uri, text, "\"n\":", 2);
  params["newName"] = "m";
  CHECK(c.answer("textDocument/rename", params).contains("result"));
  for (const char* method : {"completion", "hover", "definition", "references"})
    CHECK(c.answer("textDocument/" + std::string(method), client::at(uri, text, "\"in\": \"n", 8))
              .contains("result"));
}

TEST_CASE("lsp: files that are no files, and very large ones, are answered") {
  Client c;
  const std::string too_long(300, 'x');
  for (const std::string file :
       {"/dev/zero", "/dev/null", "..", "/", "no such file", too_long.c_str()}) {
    c.open(uri, R"({"parts": {"p": ")" + file + R"("}, "nodes": {"a": {"part": "p"}}})");
    CHECK_FALSE(c.diagnostics(uri).empty());
  }
  c.open(uri, "{\"nodes\": {}}");
  c.replace(uri, "{\"nodes\": \"" + std::string(std::size_t{17} << 20, 'x') + "\"}");
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0105"});
  c.replace(uri, "{\"nodes\":" + std::string(100000, '['));
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0104"});
  c.ask("textDocument/documentSymbol", {{"textDocument", {{"uri", uri}}}});
  c.replace(uri, "{\"nodes\":" + std::string(100000, '{'));
  c.ask("textDocument/documentSymbol", {{"textDocument", {{"uri", uri}}}});
}

TEST_CASE("lsp: a check that the machine does not let through ends nothing") {
  shell::Folder folder;
  folder.write("p.json", R"({"in": "x", "nodes": {}})");
  const std::string text = R"({"parts": {"p": "p.json"}, "nodes": {}})";
  const std::string g = "file://" + (folder.path / "g.json").string();
  Client c;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  c.open(g, text);
  const Json answer = c.answer("textDocument/hover", client::at(g, text, "parts"));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(answer["result"].is_null());
  REQUIRE_FALSE(c.notices.empty());
  CHECK(c.notices.back()["method"] == "window/logMessage");
  const std::string said = c.notices.back()["params"]["message"];
  CHECK_MESSAGE(said.find("Too many open files") != std::string::npos, said);
  c.replace(g, text + " ");
  CHECK(c.published.count(g) == 1);
}

TEST_CASE("lsp: the binary speaks over pipes and says nothing else on stdout") {
  const std::string text = request(1, "initialize") + request(2, "shutdown") + notice("exit");
  shell::Folder folder;
  folder.write("in", text);
  const auto r = shell::run("$SLUICE lsp < " + (folder.path / "in").string());
  CHECK(r.code == 0);
  CHECK(r.err.empty());
  CHECK(r.out.starts_with("Content-Length: "));
  CHECK(r.out.ends_with("\"result\":null}"));
  CHECK(shell::run("printf 'Content-Length: 2000000000\\r\\n\\r\\n' | $SLUICE lsp").code == 1);
}
