// An editor that talks to a server in its own process, message by message.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/types.h"
#include "tools/lsp/server.h"

namespace client {

using sluice::Json;

class Feed final : public sluice::lsp::Stream {
 public:
  std::string bytes;
  std::size_t read(char* to, std::size_t most) override {
    const std::size_t n = bytes.copy(to, most);
    bytes.erase(0, n);
    return n;
  }
  bool waiting() override { return !bytes.empty(); }
};

inline std::string framed(const std::string& text) {
  return "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
}

class Client {
 public:
  Feed feed;
  std::ostringstream out, err;
  sluice::lsp::Server server{types::real(), feed, out, err};
  std::vector<Json> notices;
  std::map<std::string, Json> published;  // by URI: the last publishDiagnostics

  Client() : Client(Json::object()) {}
  explicit Client(const Json& capabilities) {
    if (capabilities.is_null()) return;  // says nothing yet
    ask("initialize", {{"capabilities", capabilities}});
    tell("initialized", Json::object());
  }
  Client(const Client&) = delete;

  static Json message(const std::string& method, Json params) {
    return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
  }
  // Sent with the next call that works.
  void queue(const Json& m) { feed.bytes += framed(m.dump()); }
  int queue_request(const std::string& method, Json params) {
    Json m = message(method, std::move(params));
    m["id"] = ++last_;
    queue(m);
    return last_;
  }
  void tell(const std::string& method, Json params) {
    queue(message(method, std::move(params)));
    work();
  }
  // The whole answer, with "result" or "error".
  Json answer(const std::string& method, Json params) {
    const int id = queue_request(method, std::move(params));
    work();
    return answers.count(id) ? answers.at(id) : Json();
  }
  Json ask(const std::string& method, Json params) {
    const Json a = answer(method, std::move(params));
    INFO(a.dump());
    REQUIRE(a.is_object());
    REQUIRE(a.contains("result"));
    return a["result"];
  }

  void work() {
    server.work();
    collect();
  }
  void collect() {
    const std::string text = out.str();
    out.str("");
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find("\r\n\r\n", at);
      REQUIRE(end != std::string::npos);
      const std::size_t length = std::stoul(text.substr(at + 16, end - at - 16));
      Json m = Json::parse(text.substr(end + 4, length));
      at = end + 4 + length;
      if (m.contains("method")) {
        if (m["method"] == "textDocument/publishDiagnostics")
          published[m["params"]["uri"].get<std::string>()] = m["params"];
        notices.push_back(std::move(m));
      } else {
        const int id = m["id"].is_number_integer() ? m["id"].get<int>() : -1;
        answers[id] = std::move(m);
      }
    }
  }

  // ---- documents ----
  void open(const std::string& uri, const std::string& text) {
    tell("textDocument/didOpen",
         {{"textDocument",
           {{"uri", uri}, {"languageId", "json"}, {"version", ++version}, {"text", text}}}});
  }
  void replace(const std::string& uri, const std::string& text) {
    tell("textDocument/didChange", {{"textDocument", {{"uri", uri}, {"version", ++version}}},
                                    {"contentChanges", Json::array({{{"text", text}}})}});
  }
  Json diagnostics(const std::string& uri) { return published[uri]["diagnostics"]; }
  std::vector<std::string> codes(const std::string& uri) {
    std::vector<std::string> found;
    for (const Json& d : diagnostics(uri)) found.push_back(d["code"]);
    return found;
  }

  std::map<int, Json> answers;  // -1: of those without an id
  int version = 0;

 private:
  int last_ = 0;
};

// The position of the first `what` in a text of ASCII, or `shift` bytes after it.
inline Json position(const std::string& text, const std::string& what, std::size_t shift = 0) {
  const std::size_t found = text.find(what);
  REQUIRE_MESSAGE(found != std::string::npos, what);
  const std::size_t at = found + shift, line = text.rfind('\n', at == 0 ? 0 : at - 1);
  const auto before = text.substr(0, at);
  return {{"line", std::count(before.begin(), before.end(), '\n')},
          {"character", line == std::string::npos || line >= at ? at : at - line - 1}};
}
inline Json at(const std::string& uri, const std::string& text, const std::string& what,
               std::size_t shift = 0) {
  return {{"textDocument", {{"uri", uri}}}, {"position", position(text, what, shift)}};
}

// A text with edits as an editor makes them.
inline std::string applied(std::string text, Json edits) {
  std::vector<Json> all(edits.begin(), edits.end());
  std::sort(all.begin(), all.end(), [](const Json& a, const Json& b) {
    const auto key = [](const Json& e) {
      return std::pair(e["range"]["start"]["line"].get<int>(),
                       e["range"]["start"]["character"].get<int>());
    };
    return key(a) > key(b);
  });
  for (const Json& e : all) {
    const sluice::lsp::Lines lines(text, false);
    const auto span = lines.span(e["range"]);
    text.replace(span.begin, span.end - span.begin, e["newText"].get<std::string>());
  }
  return text;
}

// Shipped graphs: names below graphs/ and their texts.
inline std::vector<std::pair<std::string, std::string>> shipped() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char* folder : {"", "networks", "datasets", "parts"})
    for (const auto& e :
         shell::fs::directory_iterator(shell::fs::path(SLUICE_SOURCE_DIR) / "graphs" / folder)) {
      if (e.path().extension() != ".json" || e.path().filename() == "graph.schema.json") continue;
      std::ifstream in(e.path());
      all.emplace_back(e.path().string(), std::string{std::istreambuf_iterator<char>(in), {}});
    }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace client
