// What the server answers: completion, hover, names, fixes, symbols, hints, layout.
#include "tests/lsp/client.h"
#include "tools/assist/format.h"

using client::applied;
using client::at;
using client::Client;
using sluice::Json;

namespace {

const std::string uri = "file:///graphs/g.json";
const std::string graph = R"({
  // A small graph.
  "vars": { "patch": [16, 16, 16], "unusual": 3 },
  "models": {
    "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
             "channels": [4, 8], "strides": [2] }
  },
  "parts": {
    "prepare": {
      "in": "cases", "out": "norm", "params": { "keys": ["image", "label"] },
      "nodes": {
        "load": { "type": "load_image", "in": "cases", "keys": "@keys" },
        "norm": { "type": "normalize_intensity", "in": "load" }
      }
    }
  },
  "nodes": {
    "train": { "type": "decathlon", "root": "data", "split": "training" },
    "pre":   { "part": "prepare", "in": "train" },
    "crop":  { "type": "rand_spatial_crop", "in": "pre", "keys": ["image", "label"],
               "roi_size": "@patch", "random_size": false },
    "batch": { "type": "batch", "in": "crop", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_loss", "in": "fwd", "softmax": true, "to_onehot_y": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.001 }
  }
}
)";

std::vector<std::string> labels(const Json& completion) {
  std::vector<std::string> all;
  for (const Json& item : completion["items"]) all.push_back(item["label"]);
  return all;
}
bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// `graph` with one text in the place of another.
std::string with(const std::string& what, const std::string& other) {
  std::string text = graph;
  const auto found = text.find(what);
  REQUIRE_MESSAGE(found != std::string::npos, what);
  return text.replace(found, what.size(), other);
}

std::vector<std::string> complete(const std::string& text, const std::string& before,
                                  std::size_t shift) {
  Client c;
  c.open(uri, text);
  return labels(c.ask("textDocument/completion", at(uri, text, before, shift)));
}

Json range_of(const std::string& text, const std::string& what) {
  return {{"start", client::position(text, what)}, {"end", client::position(text, what)}};
}

Json actions(Client& c, const std::string& text, const std::string& what) {
  return c.ask("textDocument/codeAction", {{"textDocument", {{"uri", uri}}},
                                           {"range", range_of(text, what)},
                                           {"context", {{"diagnostics", Json::array()}}}});
}

}  // namespace

TEST_CASE("lsp: the graph of these tests is right but for what nothing uses") {
  Client c;
  c.open(uri, graph);
  CHECK(c.codes(uri) == std::vector<std::string>{"SL0237"});
  CHECK(c.diagnostics(uri)[0]["tags"] == Json{1});
  CHECK(c.published[uri]["version"] == 1);
}

TEST_CASE("lsp: types, networks and choices are completed where they stand") {
  const auto types = complete(with("\"dice_loss\"", "\"\""), "\"loss\":  { \"type\": \"", 20);
  CHECK(has(types, "dice_loss"));
  CHECK(has(types, "rand_flip"));
  CHECK_FALSE(has(types, "unet"));
  const auto networks = complete(with("\"unet\"", "\"\""), "\"net\": { \"type\": \"", 18);
  CHECK(has(networks, "unet"));
  CHECK_FALSE(has(networks, "dice_loss"));
  const auto splits =
      complete(with("\"split\": \"training\"", "\"split\": \"\""), "\"split\": \"", 10);
  CHECK(has(splits, "validation"));
}

TEST_CASE(
    "lsp: layers of a network are completed by their types, their neighbours and their norms") {
  const auto network = [](const std::string& layers) {
    return with("\"type\": \"unet\"", "\"type\": \"layers\", \"layers\": { " + layers + " }");
  };
  const auto types = complete(network(R"("stem": { "type": "" })"), "\"stem\": { \"type\": \"", 19);
  CHECK(has(types, "convolution"));
  CHECK_FALSE(has(types, "unet"));
  const std::string two = network(R"("stem": { "type": "conv", "in": "image" },
      "last": { "type": "norm", "in": "", "norm": "" })");
  const auto neighbours = complete(two, "\"norm\", \"in\": \"", 15);
  CHECK(has(neighbours, "stem"));
  CHECK(has(neighbours, "image"));
  CHECK_FALSE(has(neighbours, "last"));
  CHECK_FALSE(has(neighbours, "crop"));
  CHECK(has(complete(two, "\"norm\": \"", 9), "instance"));
}

TEST_CASE("lsp: parameters that are there already are not offered again") {
  const std::string text = with("\"lr\": 0.001 }", "\"lr\": 0.001, \"\" }");
  const auto keys = complete(text, "\"lr\": 0.001, \"", 14);
  CHECK(has(keys, "weight_decay"));
  CHECK(has(keys, "lr_schedule"));
  CHECK(has(keys, "lane"));
  CHECK_FALSE(has(keys, "lr"));
  CHECK_FALSE(has(keys, "in"));
}

TEST_CASE("lsp: a string that was begun is completed, and what stands after it is kept") {
  for (const std::string half :
       {"\"in\": \"cr\n", "\"in\": \"cr", "\"in\": \"cr, \"size\": 2 },\n"}) {
    CAPTURE(half);
    const std::string text = with("\"in\": \"crop\", \"size\": 2 },\n", half);
    Client c;
    c.open(uri, text);
    const Json found = c.ask("textDocument/completion", at(uri, text, "\"in\": \"cr", 9));
    REQUIRE(has(labels(found), "crop"));
    for (const Json& item : found["items"])
      if (item["label"] == "crop") {
        const std::string after = applied(text, Json::array({item["textEdit"]}));
        CHECK(after.find("\"in\": \"crop\"") != std::string::npos);
        CHECK(after.size() == text.size() + 3);
      }
  }
}

TEST_CASE("lsp: references complete to nodes, models, variables and fields that arrive") {
  const auto nodes =
      complete(with("\"in\": \"crop\"", "\"in\": \"\""), "\"batch\", \"in\": \"", 16);
  CHECK(has(nodes, "crop"));
  CHECK(has(nodes, "pre"));
  CHECK_FALSE(has(nodes, "batch"));
  CHECK_FALSE(has(nodes, "load"));  // of a part
  const auto inner =
      complete(with("\"in\": \"load\"", "\"in\": \"\""), "normalize_intensity\", \"in\": \"", 29);
  CHECK(has(inner, "load"));
  CHECK(has(inner, "cases"));
  CHECK_FALSE(has(inner, "crop"));
  const auto models = complete(with("\"net\": \"net\", \"lr\"", "\"net\": \"\", \"lr\""),
                               "\"net\": \"\", \"lr\"", 8);
  CHECK(has(models, "net"));
  const auto values = complete(with("\"@patch\"", "\"@\""), "\"roi_size\": \"@", 14);
  CHECK(has(values, "@patch"));
  const auto fields = complete(with("[\"image\", \"label\"],\n", "[\"\"],\n"), "[\"\"],", 2);
  CHECK(has(fields, "image"));
  CHECK(has(fields, "label"));
}

TEST_CASE("lsp: what a snippet for a type brings is what the type requires") {
  const std::string text = with("\"batch\": {", "\"new\": { \"type\": \"\" },\n    \"batch\": {");
  Client c{
      Json({{"textDocument", {{"completion", {{"completionItem", {{"snippetSupport", true}}}}}}}})};
  c.open(uri, text);
  bool found = false;
  const Json all = c.ask("textDocument/completion", at(uri, text, "{ \"type\": \"\"", 11));
  for (const Json& item : all["items"])
    if (item["label"] == "rand_flip") {
      found = true;
      CHECK(item["insertTextFormat"] == 2);
      CHECK(item["textEdit"]["newText"] == "\"rand_flip\", \"in\": \"${1:node}\"");
    }
  CHECK(found);
}

TEST_CASE("lsp: what an editor compares with the letters before its cursor is what it knows") {
  const std::string text = with("\"in\": \"crop\"", "\"in\": \"\"");
  const auto first = [&](const Json& info) -> Json {
    Client c{Json()};
    c.ask("initialize", {{"capabilities", Json::object()}, {"clientInfo", info}});
    c.open(uri, text);
    const Json items =
        c.ask("textDocument/completion", at(uri, text, "\"batch\", \"in\": \"", 16))["items"];
    REQUIRE_FALSE(items.empty());
    return items[0];
  };
  const Json code = first({{"name", "Visual Studio Code"}}), neovim = first({{"name", "Neovim"}}),
             emacs = first(nullptr);
  CHECK(code["label"] == "train");
  CHECK(code["filterText"] == "\"train\"");
  CHECK(neovim["label"] == "\"train\"");
  CHECK_FALSE(neovim.contains("filterText"));
  CHECK(emacs["label"] == "train");
  CHECK_FALSE(emacs.contains("filterText"));
  for (const Json& item : {code, neovim, emacs})
    CHECK(applied(text, Json::array({item["textEdit"]})) ==
          with("\"in\": \"crop\"", "\"in\": \"train\""));
}

TEST_CASE("lsp: nothing is offered in comments and around the graph") {
  CHECK(complete(graph, "A small", 3).empty());
  CHECK(complete(graph, "{", 0).empty());
}

TEST_CASE("lsp: hovering tells types, parameters, what flows and who uses a variable") {
  Client c;
  c.open(uri, graph);
  const auto page = [&](const std::string& what, std::size_t shift) -> std::string {
    const Json found = c.ask("textDocument/hover", at(uri, graph, what, shift));
    return found.is_null() ? "" : found["contents"]["value"].get<std::string>();
  };
  CHECK(page("rand_spatial_crop", 3).find("roi_size") != std::string::npos);
  CHECK(page("\"lr\"", 2).find("float") != std::string::npos);
  CHECK(page("\"crop\":", 2).find("[") != std::string::npos);
  CHECK(page("\"in\": \"crop\"", 8).find("16, 16, 16") != std::string::npos);
  CHECK(page("\"@patch\"", 3).find("[16, 16, 16]") != std::string::npos);
  CHECK(page("\"patch\"", 3).find("nodes.crop.roi_size") != std::string::npos);
  CHECK(page("\"vars\"", 2).find("@name") != std::string::npos);
  CHECK(page("A small", 2).empty());
}

TEST_CASE("lsp: names are found where they are defined and wherever they are used") {
  Client c;
  c.open(uri, graph);
  const auto target = [&](const std::string& what, std::size_t shift) -> Json {
    const Json found = c.ask("textDocument/definition", at(uri, graph, what, shift));
    return found.is_null() ? Json() : found["range"]["start"];
  };
  CHECK(target("\"in\": \"crop\"", 8) == client::position(graph, "\"crop\":", 1));
  CHECK(target("\"@patch\"", 3) == client::position(graph, "\"patch\"", 1));
  CHECK(target("\"@keys\"", 3) == client::position(graph, "\"keys\": [\"image\"", 1));
  CHECK(target("\"part\": \"prepare\"", 10) == client::position(graph, "\"prepare\":", 1));
  CHECK(target("\"net\": \"net\" }", 9) == client::position(graph, "\"net\": {", 1));
  CHECK(target("\"in\": \"cases\", \"keys\"", 8) ==
        client::position(graph, "\"cases\", \"out\"", 1));
  Json asked = at(uri, graph, "\"net\": {", 2);
  asked["context"] = {{"includeDeclaration", true}};
  CHECK(c.ask("textDocument/references", asked).size() == 3);
  CHECK(c.ask("textDocument/documentHighlight", at(uri, graph, "\"crop\":", 2)).size() == 2);
}

TEST_CASE("lsp: renaming a name there and back gives the file byte for byte") {
  struct Try {
    std::string what, from, to;
  };
  for (const Try& t : {Try{"\"crop\":", "crop", "cut"}, Try{"\"net\": {", "net", "unet_a"},
                       Try{"\"patch\"", "patch", "size"}, Try{"\"prepare\":", "prepare", "ready"},
                       Try{"\"load\":", "load", "read"}, Try{"\"cases\"", "cases", "files"},
                       Try{"\"pre\":", "pre", "before"}}) {
    CAPTURE(t.from);
    Client c;
    c.open(uri, graph);
    Json params = at(uri, graph, t.what, 2);
    params["newName"] = t.to;
    const std::string renamed =
        applied(graph, c.ask("textDocument/rename", params)["changes"][uri]);
    CHECK(renamed != graph);
    c.replace(uri, renamed);
    CHECK(c.codes(uri) == std::vector<std::string>{"SL0237"});
    Json back = at(uri, renamed, "\"" + t.to + "\"", 2);
    back["newName"] = t.from;
    CHECK(applied(renamed, c.ask("textDocument/rename", back)["changes"][uri]) == graph);
  }
}

TEST_CASE("lsp: a name that is taken, ill or another's is refused with the reason") {
  Client c;
  c.open(uri, graph);
  const auto refused = [&](const std::string& what, const std::string& to) -> std::string {
    Json params = at(uri, graph, what, 2);
    params["newName"] = to;
    const Json a = c.answer("textDocument/rename", params);
    REQUIRE(a.contains("error"));
    CHECK(a["error"]["code"] == -32803);
    return a["error"]["message"];
  };
  CHECK(refused("\"crop\":", "batch") == "there is a node \"batch\" already");
  CHECK(refused("\"crop\":", "a b").find("cannot be a name") != std::string::npos);
  CHECK(refused("\"image\", \"label\"] }", "t1").find("itself") != std::string::npos);
}

TEST_CASE("lsp: renaming a node that draws says that results will be others") {
  Client plain;
  plain.open(uri, graph);
  Json params = at(uri, graph, "\"crop\":", 2);
  params["newName"] = "cut";
  plain.ask("textDocument/rename", params);
  CHECK(plain.notices.back()["method"] == "window/showMessage");
  params = at(uri, graph, "\"pre\":", 2);  // nothing in it draws
  params["newName"] = "ready";
  plain.notices.clear();
  plain.ask("textDocument/rename", params);
  CHECK(plain.notices.empty());
  const std::string random = with("\"normalize_intensity\"", "\"rand_flip\"");
  plain.replace(uri, random);
  params = at(uri, random, "\"pre\":", 2);
  params["newName"] = "ready";
  plain.ask("textDocument/rename", params);
  CHECK(plain.notices.back()["method"] == "window/showMessage");
  params = at(uri, graph, "\"crop\":", 2);
  params["newName"] = "cut";
  Client modern{
      Json({{"workspace",
             {{"workspaceEdit",
               {{"documentChanges", true}, {"changeAnnotationSupport", Json::object()}}}}}})};
  modern.open(uri, graph);
  const Json edit = modern.ask("textDocument/rename", params);
  CHECK(edit["changeAnnotations"]["draws"]["needsConfirmation"] == true);
  CHECK(edit["documentChanges"][0]["edits"][0]["annotationId"] == "draws");
}

TEST_CASE("lsp: renaming a field writes it where a default named it") {
  const std::string text = R"({
  "nodes": {
    "files": { "type": "file_patterns", "root": "data", "patterns": { "image": "*.nii.gz" } },
    "load":  { "type": "load_image", "in": "files", "keys": "image" },
    "norm":  { "type": "normalize_intensity", "in": "load" },
    "out":   { "type": "preview", "in": "norm" }
  }
}
)";
  Client c;
  c.open(uri, text);
  CHECK(c.codes(uri).empty());
  Json params = at(uri, text, "\"image\": \"*", 2);
  params["newName"] = "t1";
  const std::string renamed = applied(text, c.ask("textDocument/rename", params)["changes"][uri]);
  INFO(renamed);
  c.replace(uri, renamed);
  CHECK(c.codes(uri).empty());
  CHECK(renamed.find("\"in\": \"load\", \"keys\": [\"t1\"] }") != std::string::npos);
  CHECK(renamed.find("\"in\": \"norm\", \"image_key\": \"t1\" }") != std::string::npos);
}

TEST_CASE("lsp: the fixes of diagnostics leave the file right") {
  struct Try {
    std::string right, wrong, at;
  };
  for (const Try& t :
       {Try{"\"dice_loss\"", "\"dice_los\"", "dice_los"},
        Try{"\"in\": \"crop\"", "\"in\": \"corp\"", "corp"},
        Try{"\"@patch\"", "\"@ptach\"", "@ptach"},
        Try{"\"lr\": 0.001", "\"lr\": \"0.001\"", "\"0.001\""},
        Try{"\"lr\": 0.001", "\"lr\": 0.001,", ", }"},
        Try{"\"softmax\": true", "\"sofmax\": true", "\"sofmax"},
        Try{"\"softmax\": true", "\"softmax\": True", "True"},
        Try{"\"in\": \"loss\", \"net\"", "\"in\": \"loss\" \"net\"", "\"net\": \"net\", \"lr\""},
        Try{"\"size\": 2", "\"size\" 2", "2 },\n    \"fwd\""},
        Try{"\"training\"", "'training'", "'training'"},
        Try{"\"split\": \"training\"", "\"split\": \"trainig\"", "\"trainig\""}}) {
    CAPTURE(t.wrong);
    const std::string text = with(t.right, t.wrong);
    Client c;
    c.open(uri, text);
    REQUIRE(c.codes(uri) != std::vector<std::string>{"SL0237"});
    const Json found = actions(c, text, t.at);
    REQUIRE_FALSE(found.empty());
    const std::string fixed = applied(text, found[0]["edit"]["changes"][uri]);
    INFO(fixed);
    c.replace(uri, fixed);
    CHECK(c.codes(uri) == std::vector<std::string>{"SL0237"});
  }
}

TEST_CASE("lsp: what nothing uses can be removed with its comma") {
  Client c;
  c.open(uri, graph);
  const Json found = actions(c, graph, "\"unusual\"");
  REQUIRE(found.size() >= 1);
  const std::string fixed = applied(graph, found[0]["edit"]["changes"][uri]);
  CHECK(fixed.find("\"vars\": { \"patch\": [16, 16, 16] },") != std::string::npos);
  c.replace(uri, fixed);
  CHECK(c.codes(uri).empty());
}

TEST_CASE("lsp: the outline holds every node and what flows stands beside it") {
  Client c;
  c.open(uri, graph);
  const Json params = {{"textDocument", {{"uri", uri}}}};
  const Json outline = c.ask("textDocument/documentSymbol", params);
  REQUIRE(outline.size() == 4);
  CHECK(outline[3]["name"] == "nodes");
  CHECK(outline[3]["children"].size() == 7);
  CHECK(outline[2]["children"][0]["children"].size() == 2);
  Json all = params;
  all["range"] = {{"start", {{"line", 0}, {"character", 0}}},
                  {"end", {{"line", 1000}, {"character", 0}}}};
  const auto text_of = [&](const Json& hints) {
    std::string text;
    for (const Json& h : hints) text += h["label"].get<std::string>() + "\n";
    return text;
  };
  const std::string hints = text_of(c.ask("textDocument/inlayHint", all));
  INFO(hints);
  CHECK(hints.find("16") != std::string::npos);
  CHECK(c.ask("textDocument/codeLens", params)[0]["command"]["title"] == "8 nodes, 1 stream");
  CHECK(c.ask("textDocument/foldingRange", params).size() > 5);
  // While something is wrong, those of the last text that was right.
  c.replace(uri, with("\"dice_loss\"", "\"dice_lo"));
  CHECK(text_of(c.ask("textDocument/inlayHint", all)).find("16") != std::string::npos);
}

TEST_CASE("lsp: formatting changes spaces alone, and shipped graphs not at all") {
  for (const auto& [file, text] : client::shipped()) {
    CAPTURE(file);
    CHECK(sluice::assist::formatted(text) == text);
    std::string flat;  // without indents
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      flat += line.substr(std::min(line.find_first_not_of(' '), line.size())) + "  \n";
    CHECK(sluice::assist::formatted(flat) == text);
  }
}

TEST_CASE("lsp: formatting ends all lines as the first one is ended, those of comments too") {
  const std::string lf = "{\n  // one\n  \"a\": 1, /* two\n     three */\n  \"b\": 2\n}\n";
  std::string crlf;
  for (const char c : lf) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  CHECK(sluice::assist::formatted(crlf) == crlf);
  std::string mixed = crlf, other = lf;
  mixed.erase(mixed.find("three") - 7, 1);
  mixed.erase(mixed.rfind("\r\n"), 1);
  CHECK(sluice::assist::formatted(mixed) == crlf);
  other.insert(other.find("three") - 6, "\r");
  other.insert(other.rfind('\n'), "\r\r");
  CHECK(sluice::assist::formatted(other) == lf);
}

TEST_CASE("lsp: formatting twice is formatting once, and what is no JSON stays") {
  const std::string ugly =
      "{\"vars\":{\"a\":1,\"b\" : [1,\n2]} , // a note  \n\t\"nodes\":{\n"
      "\"x\":{\"type\":\"batch\",\n\"size\":\"@a\"}\n}\n}\n\n";
  const std::string nice =
      "{\"vars\": {\"a\": 1, \"b\": [1,\n                        2]}, // a note\n"
      " \"nodes\": {\n   \"x\": {\"type\": \"batch\",\n         \"size\": \"@a\"}\n "
      "}\n}\n";
  Client c;
  c.open(uri, ugly);
  const Json params = {{"textDocument", {{"uri", uri}}}};
  const std::string once = applied(ugly, c.ask("textDocument/formatting", params));
  CHECK(once == nice);
  CHECK(Json::parse(once, nullptr, true, true) == Json::parse(ugly, nullptr, true, true));
  c.replace(uri, once);
  CHECK(c.ask("textDocument/formatting", params).empty());
  c.replace(uri, "{\"nodes\": {\"a  b}  }");
  CHECK(c.ask("textDocument/formatting", params).is_null());
}

TEST_CASE("sluice fmt indents files, names those that are not, and leaves what is no JSON") {
  shell::Folder folder;
  const std::string good = folder.write("good.json", "{\n  \"a\": 1 // note\n}\n"),
                    ugly = folder.write("ugly.json", "{\n\"a\":1 // note\n}"),
                    wrong = folder.write("wrong.json", "{\n\"a:1\n}");
  auto r = shell::run("$SLUICE fmt --check " + good + " " + ugly);
  CHECK(r.code == 2);
  CHECK(r.out == ugly + "\n");
  CHECK(shell::run("$SLUICE fmt " + good + " " + ugly).code == 0);
  CHECK(folder.read("ugly.json") == folder.read("good.json"));
  CHECK(shell::run("$SLUICE fmt --check " + good + " " + ugly).code == 0);
  const std::string crlf = folder.write("crlf.json", "{\r\n\"a\":1 // note\r\n}");
  CHECK(shell::run("$SLUICE fmt " + crlf).code == 0);
  CHECK(folder.read("crlf.json") == "{\r\n  \"a\": 1 // note\r\n}\r\n");
  CHECK(shell::run("$SLUICE fmt --check " + crlf).code == 0);
  r = shell::run("$SLUICE fmt " + wrong);
  CHECK(r.code == 2);
  CHECK(r.err.find("is no JSON") != std::string::npos);
  CHECK(folder.read("wrong.json") == "{\n\"a:1\n}");
}
