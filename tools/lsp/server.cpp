#include "tools/lsp/server.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "engine/base/version.h"
#include "tools/assist/complete.h"
#include "tools/assist/edits.h"
#include "tools/assist/format.h"
#include "tools/assist/tell.h"

namespace sluice::lsp {
namespace {

constexpr std::size_t most_waiting = 256;

// Error codes of JSON-RPC and of the protocol.
enum Code {
  parse_error = -32700,
  invalid_request = -32600,
  unknown_method = -32601,
  invalid_params = -32602,
  not_initialized = -32002,
  cancelled = -32800,
  failed = -32803,
};

const Json& member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto at = object.find(key);
  return at == object.end() ? null : *at;
}

std::string text_of(const Json& object, const char* key) {
  const Json& v = member(object, key);
  return v.is_string() ? v.get<std::string>() : "";
}

bool is_set(const Json& object, std::initializer_list<const char*> keys) {
  const Json* at = &object;
  for (const char* key : keys) at = &member(*at, key);
  return at->is_boolean() && at->get<bool>();
}

std::string uri_in(const Json& params) { return text_of(member(params, "textDocument"), "uri"); }

Json markdown(const std::string& text) { return {{"kind", "markdown"}, {"value", text}}; }

}  // namespace

std::string file_of(const std::string& uri) {
  if (!uri.starts_with("file://")) return uri;
  const auto slash = uri.find('/', 7);
  std::string out;
  for (std::size_t i = std::min(slash, uri.size()); i < uri.size(); ++i) {
    const auto is_hex = [&](std::size_t at) {
      return at < uri.size() && std::isxdigit(static_cast<unsigned char>(uri[at]));
    };
    if (uri[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      out += static_cast<char>(std::stoi(uri.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += uri[i];
    }
  }
  return std::filesystem::path(out).lexically_normal().string();
}

std::string Server::uri_of(const std::string& file) const {
  const std::string normal = std::filesystem::path(file).lexically_normal().string();
  for (const auto& [uri, open] : documents_)
    if (open.file == normal) return uri;
  if (!normal.starts_with('/')) return normal;
  std::string out = "file://";
  for (const char c : normal) {
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("/-_.~").find(c) != std::string::npos) {
      out += c;
    } else {
      constexpr char digits[] = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

// ---- messages -----------------------------------------------------------------------------------

int Server::serve() {
  for (;;) {
    work();
    if (done_) break;
    receive(true);
    if (waiting_.empty()) break;
  }
  if (!input_.fault().empty()) {
    err_ << "sluice lsp: " << input_.fault() << '\n';
    return 1;
  }
  return ends_ ? 0 : 1;
}

void Server::work() {
  for (receive(false); !waiting_.empty() && !done_; receive(false)) {
    const Json message = std::move(waiting_.front());
    waiting_.pop_front();
    handle(message);
  }
  check_all();
}

void Server::receive(bool wait) {
  while (waiting_.size() < most_waiting) {
    const auto text = input_.next(wait && waiting_.empty());
    if (!text) return;
    Json message = Json::parse(*text, nullptr, false);
    if (message.is_discarded())
      refuse(nullptr, parse_error, "not JSON");
    else
      waiting_.push_back(std::move(message));
  }
}

void Server::handle(const Json& message) {
  const Json& id = member(message, "id");
  const Json& method = member(message, "method");
  const bool is_request = message.is_object() && message.contains("id");
  if (!message.is_object() ||
      (!method.is_string() && !message.contains("result") && !message.contains("error")))
    return refuse(nullptr, invalid_request, "not a message of JSON-RPC 2.0");
  if (!method.is_string()) return;  // an answer to what was never asked
  const Json& params = member(message, "params");
  try {
    if (is_request)
      request(id, method.get<std::string>(), params);
    else
      notification(method.get<std::string>(), params);
  } catch (const Failure& f) {
    if (is_request) refuse(id, f.code, f.message);
  } catch (const Json::exception& e) {
    if (is_request) refuse(id, invalid_params, e.what());
  } catch (const std::exception& e) {
    if (is_request) refuse(id, failed, e.what());
  }
}

bool Server::was_cancelled(const Json& id) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Json& m) {
    return text_of(m, "method") == "$/cancelRequest" && member(member(m, "params"), "id") == id;
  });
}

void Server::request(const Json& id, const std::string& method, const Json& params) {
  static const std::map<std::string, Handler> handlers{
      {"shutdown", &Server::shutdown},
      {"textDocument/completion", &Server::completion},
      {"textDocument/hover", &Server::hover},
      {"textDocument/definition", &Server::definition},
      {"textDocument/references", &Server::references},
      {"textDocument/documentHighlight", &Server::highlight},
      {"textDocument/prepareRename", &Server::prepare_rename},
      {"textDocument/rename", &Server::rename},
      {"textDocument/codeAction", &Server::code_action},
      {"textDocument/documentSymbol", &Server::symbols},
      {"textDocument/inlayHint", &Server::inlay_hints},
      {"textDocument/foldingRange", &Server::folding},
      {"textDocument/codeLens", &Server::lenses},
      {"textDocument/formatting", &Server::formatting},
  };
  if (!id.is_string() && !id.is_number_integer())
    return refuse(nullptr, invalid_request, "a request's id is a number or a text");
  if (method == "initialize") {
    if (initialized_) return refuse(id, invalid_request, "initialized already");
    return answer(id, initialize(params));
  }
  if (!initialized_) return refuse(id, not_initialized, "initialize comes first");
  if (ends_) return refuse(id, invalid_request, "the server is shut down");
  if (was_cancelled(id)) return refuse(id, cancelled, "cancelled");
  const auto handler = handlers.find(method);
  if (handler == handlers.end()) return refuse(id, unknown_method, "no method " + method);
  answer(id, (this->*handler->second)(params));
}

void Server::notification(const std::string& method, const Json& params) {
  if (method == "exit") {
    done_ = true;
    return;
  }
  if (!initialized_ || ends_) return;
  if (method == "textDocument/didOpen") did_open(params);
  if (method == "textDocument/didChange") did_change(params);
  if (method == "textDocument/didClose") did_close(params);
  if (method == "textDocument/didSave" || method == "workspace/didChangeWatchedFiles")
    touch(nullptr);
}

void Server::send(const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  out_ << "Content-Length: " << text.size() << "\r\n\r\n" << text << std::flush;
}

void Server::answer(const Json& id, Json result) {
  send({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
}

void Server::refuse(const Json& id, int code, const std::string& message) {
  send({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
}

void Server::notify(const std::string& method, Json params) {
  send({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}});
}

// ---- documents ----------------------------------------------------------------------------------

void Server::did_open(const Json& params) {
  const Json& document = member(params, "textDocument");
  const std::string uri = text_of(document, "uri");
  Open& open = documents_[uri];
  open.file = file_of(uri);
  open.text = text_of(document, "text");
  open.version = member(document, "version");
  open.changed = true;
  touch(&open);
}

void Server::did_change(const Json& params) {
  const auto at = documents_.find(uri_in(params));
  if (at == documents_.end()) return;
  Open& open = at->second;
  for (const Json& change : member(params, "contentChanges")) {
    std::string text = text_of(change, "text");
    if (const Json& range = member(change, "range"); range.is_object()) {
      const assist::Span span = lines(open.text).span(range);
      open.text.replace(span.begin, span.end - span.begin, text);
    } else {
      open.text = std::move(text);
    }
  }
  open.version = member(member(params, "textDocument"), "version");
  open.changed = true;
  touch(&open);
}

void Server::did_close(const Json& params) {
  const std::string uri = uri_in(params);
  if (documents_.erase(uri) == 0) return;
  notify("textDocument/publishDiagnostics", {{"uri", uri}, {"diagnostics", Json::array()}});
  touch(nullptr);
}

void Server::touch(const Open* apart) {
  for (auto& [uri, open] : documents_)
    if (&open != apart && (!open.analysis || open.analysis->tree().root.find("parts") ||
                           open.analysis->tree().root.find("x-base")))
      open.changed = true;
}

bool Server::changes_again(const std::string& uri) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Json& m) {
    const std::string method = text_of(m, "method");
    return (method == "textDocument/didChange" || method == "textDocument/didClose") &&
           uri_in(member(m, "params")) == uri;
  });
}

OpenFiles Server::texts() const {
  OpenFiles all;
  for (const auto& [uri, open] : documents_) all[open.file] = open.text;
  return all;
}

void Server::check(const std::string& uri, Open& open) {
  if (!open.changed) return;
  open.changed = false;
  try {
    open.analysis = assist::analyse(open.file, open.text, catalogue_, texts(), open.analysis.get());
    if (!changes_again(uri)) publish(uri, open);
  } catch (const std::exception& e) {  // nothing is known of the text until it changes again
    open.analysis = nullptr;
    notify("window/logMessage",
           {{"type", 1}, {"message", "cannot check " + open.file + ": " + e.what()}});
  }
}

void Server::check_all() {
  for (auto& [uri, open] : documents_) check(uri, open);
}

void Server::publish(const std::string& uri, const Open& open) {
  Json all = Json::array();
  const Lines l = lines(open.text);
  const assist::Bytes bytes(open.text);
  for (const Diagnostic& d : open.analysis->said.diagnostics.all())
    all.push_back(diagnostic(d, *open.analysis, l, bytes));
  Json params = {{"uri", uri}};
  if (open.version.is_number_integer()) params["version"] = open.version;
  params["diagnostics"] = std::move(all);
  notify("textDocument/publishDiagnostics", std::move(params));
}

Json Server::diagnostic(const Diagnostic& d, const assist::Analysis& a, const Lines& l,
                        const assist::Bytes& bytes) const {
  std::string message = d.message;
  if (!d.hint.empty()) message += "\n" + d.hint;
  for (const auto& note : d.notes) message += "\nnote: " + note;
  Json j = {{"range", l.range(span_of(d, a, bytes))},
            {"severity", d.severity == Severity::error     ? 1
                         : d.severity == Severity::warning ? 2
                                                           : 3},
            {"code", d.code},
            {"source", "sluice"},
            {"message", message}};
  if (d.code == "SL0237" || d.code == "SL0238" || d.code == "SL0239") j["tags"] = {1};
  if (!d.place.document) return j;
  const Place origin = d.place.origin();
  if (origin.document->file == a.main().file) return j;
  const auto span = assist::Bytes(origin.document->text).of(origin.mark());
  j["relatedInformation"] = Json::array({{{"location",
                                           {{"uri", uri_of(origin.document->file)},
                                            {"range", lines(origin.document->text).range(span)}}},
                                          {"message", "it stands here"}}});
  return j;
}

Server::Open* Server::find(const Json& params) {
  const auto at = documents_.find(uri_in(params));
  if (at == documents_.end()) return nullptr;
  check(at->first, at->second);
  const auto& analysis = at->second.analysis;
  return analysis && analysis->is_graph ? &at->second : nullptr;
}

// ---- requests -----------------------------------------------------------------------------------

Json Server::initialize(const Json& params) {
  initialized_ = true;
  const Json& client = member(params, "capabilities");
  const Json& text = member(client, "textDocument");
  for (const Json& encoding : member(member(client, "general"), "positionEncodings"))
    utf8_ |= encoding == "utf-8";
  snippets_ = is_set(text, {"completion", "completionItem", "snippetSupport"});
  const std::string editor = text_of(member(params, "clientInfo"), "name");
  const bool emacs = editor.empty() || editor == "Eglot" || editor == "Emacs";
  filter_ = editor == "Neovim" ? Filter::label : emacs ? Filter::word : Filter::text;
  const Json& edit = member(member(client, "workspace"), "workspaceEdit");
  versioned_ = is_set(edit, {"documentChanges"});
  annotated_ = versioned_ && member(edit, "changeAnnotationSupport").is_object();
  Json completion = {{"triggerCharacters", {"\"", "@", ".", ":"}}};
  return {{"capabilities",
           {{"positionEncoding", utf8_ ? "utf-8" : "utf-16"},
            {"textDocumentSync", {{"openClose", true}, {"change", 2}, {"save", true}}},
            {"completionProvider", std::move(completion)},
            {"hoverProvider", true},
            {"definitionProvider", true},
            {"referencesProvider", true},
            {"documentHighlightProvider", true},
            {"renameProvider", {{"prepareProvider", true}}},
            {"codeActionProvider", {{"codeActionKinds", {"quickfix", "source.fixAll"}}}},
            {"documentSymbolProvider", true},
            {"inlayHintProvider", true},
            {"foldingRangeProvider", true},
            {"codeLensProvider", {{"resolveProvider", false}}},
            {"documentFormattingProvider", true}}},
          {"serverInfo", {{"name", "sluice"}, {"version", version}}}};
}

Json Server::shutdown(const Json&) {
  ends_ = true;
  documents_.clear();
  return nullptr;
}

Json Server::completion(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  const auto found = assist::complete(*open->analysis, l.byte(member(params, "position")));
  // Neovim replaces up to its cursor alone: a quote that stands there stays.
  const std::size_t cursor = l.byte(member(params, "position"));
  const bool keeps_quote =
      filter_ == Filter::label && found.replaces.end == cursor + 1 && open->text[cursor] == '"';
  const Json range = l.range({found.replaces.begin, found.replaces.end - keeps_quote});
  Json items = Json::array();
  int order = 10000;
  for (const auto& c : found.candidates) {
    const bool snippet = snippets_ && !c.snippet.empty() && !keeps_quote;
    const std::string whole =
        c.kind == assist::Candidate::Kind::value ? c.text : Json(c.label).dump();
    Json item = {{"label", filter_ == Filter::label ? whole : c.label},
                 {"kind", static_cast<int>(c.kind)},
                 {"sortText", std::to_string(order++)},
                 {"insertTextFormat", snippet ? 2 : 1},
                 {"textEdit", {{"range", range}, {"newText", snippet ? c.snippet : c.text}}}};
    if (keeps_quote && whole.starts_with('"'))
      item["textEdit"]["newText"] = whole.substr(0, whole.size() - 1);
    if (filter_ == Filter::text) item["filterText"] = whole;
    if (!c.detail.empty()) item["detail"] = c.detail;
    if (!c.doc.empty()) item["documentation"] = markdown(c.doc);
    items.push_back(std::move(item));
  }
  return {{"isIncomplete", false}, {"items", std::move(items)}};
}

Json Server::hover(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  const auto page = assist::hover(*open->analysis, l.byte(member(params, "position")));
  if (!page) return nullptr;
  return {{"contents", markdown(page->markdown)}, {"range", l.range(page->span)}};
}

Json Server::location(const assist::Analysis& a, std::size_t source,
                      const assist::Span& span) const {
  const assist::Source& s = a.sources[source];
  return {{"uri", uri_of(s.file)}, {"range", lines(s.text).range(span)}};
}

Json Server::definition(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const assist::Analysis& a = *open->analysis;
  const std::size_t at = lines(open->text).byte(member(params, "position"));
  const auto names = assist::find_names(a);
  const assist::Occurrence* here = names.at(at);
  const auto path = assist::path_to(a.tree(), at);
  std::string part = here && here->of.thing == assist::Thing::part ? here->of.name : "";
  if (part.empty() && path.size() == 3 && path[1]->name == "parts") part = path[2]->name;
  for (std::size_t i = 1; i < a.sources.size(); ++i)
    if (!part.empty() && a.sources[i].part == part) return location(a, i, {0, 0});
  const assist::Occurrence* found = here ? names.definition(here->of) : nullptr;
  return found ? location(a, found->source, found->span) : Json();
}

Json Server::references(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const assist::Analysis& a = *open->analysis;
  const bool with_definition = is_set(params, {"context", "includeDeclaration"});
  const auto names = assist::find_names(a);
  const auto* here = names.at(lines(open->text).byte(member(params, "position")));
  Json all = Json::array();
  if (here)
    for (const auto& o : names.all)
      if (o.of == here->of && (with_definition || !o.defines))
        all.push_back(location(a, o.source, o.span));
  return all;
}

Json Server::highlight(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  const auto names = assist::find_names(*open->analysis);
  const auto* here = names.at(l.byte(member(params, "position")));
  Json all = Json::array();
  if (here)
    for (const auto& o : names.all)
      if (o.of == here->of && o.source == 0)
        all.push_back({{"range", l.range(o.span)}, {"kind", o.defines ? 3 : 2}});
  return all;
}

Json Server::prepare_rename(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  const auto names = assist::find_names(*open->analysis);
  const auto* here = names.at(l.byte(member(params, "position")));
  if (!here || here->of.thing == assist::Thing::type) return nullptr;
  return {{"range", l.range(here->span)}, {"placeholder", here->of.name}};
}

Json Server::rename(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const assist::Analysis& a = *open->analysis;
  const auto names = assist::find_names(a);
  const auto* here = names.at(lines(open->text).byte(member(params, "position")));
  if (!here) throw Failure{failed, "no name stands here"};
  const auto renamed = assist::rename(a, names, here->of, text_of(params, "newName"));
  if (!renamed.refused.empty()) throw Failure{failed, renamed.refused};
  std::map<std::size_t, Json> by_source;
  for (const auto& e : renamed.edits) {
    Json edit = {{"range", lines(a.sources[e.source].text).range(e.span)}, {"newText", e.text}};
    if (annotated_ && !renamed.warning.empty()) edit["annotationId"] = "draws";
    by_source.try_emplace(e.source, Json::array()).first->second.push_back(std::move(edit));
  }
  if (!annotated_ && !renamed.warning.empty())
    notify("window/showMessage", {{"type", 2}, {"message", renamed.warning}});
  Json out = Json::object();
  for (auto& [source, edits] : by_source) {
    const std::string uri = uri_of(a.sources[source].file);
    if (versioned_) {
      const auto at = documents_.find(uri);
      const Json version = at == documents_.end() ? Json() : at->second.version;
      out["documentChanges"].push_back(
          {{"textDocument", {{"uri", uri}, {"version", version}}}, {"edits", std::move(edits)}});
    } else {
      out["changes"][uri] = std::move(edits);
    }
  }
  if (annotated_ && !renamed.warning.empty())
    out["changeAnnotations"]["draws"] = {{"label", "Other random draws"},
                                         {"description", renamed.warning},
                                         {"needsConfirmation", true}};
  return out;
}

Json Server::code_action(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  const assist::Span wanted = l.span(member(params, "range"));
  const std::string uri = uri_in(params);
  const Json& only = member(member(params, "context"), "only");
  const auto is_wanted = [&](const std::string& kind) {
    return !only.is_array() || std::any_of(only.begin(), only.end(), [&](const Json& k) {
      return k.is_string() && (kind + ".").starts_with(k.get<std::string>() + ".");
    });
  };
  const auto edit_of = [&](const std::vector<assist::TextEdit>& edits) {
    Json list = Json::array();
    for (const auto& e : edits) list.push_back({{"range", l.range(e.span)}, {"newText", e.text}});
    Json edit;
    if (versioned_)
      edit["documentChanges"] = Json::array(
          {{{"textDocument", {{"uri", uri}, {"version", open->version}}}, {"edits", list}}});
    else
      edit["changes"][uri] = list;
    return edit;
  };
  Json all = Json::array();
  std::vector<assist::TextEdit> certain;
  std::set<const Diagnostic*> seen;
  const assist::Bytes bytes(open->text);
  for (const auto& fix : assist::fixes(*open->analysis)) {
    if (fix.certain && (certain.empty() || certain.back().span.end < fix.edit.span.begin))
      certain.push_back(fix.edit);
    const bool first = seen.insert(fix.of).second;
    const assist::Span at = span_of(*fix.of, *open->analysis, bytes);
    if (at.end < wanted.begin || at.begin > wanted.end || !is_wanted("quickfix")) continue;
    all.push_back({{"title", fix.title},
                   {"kind", "quickfix"},
                   {"diagnostics", Json::array({diagnostic(*fix.of, *open->analysis, l, bytes)})},
                   {"isPreferred", first},
                   {"edit", edit_of({fix.edit})}});
  }
  if (!certain.empty() && is_wanted("source.fixAll"))
    all.push_back({{"title", "mend all that is certain"},
                   {"kind", "source.fixAll"},
                   {"edit", edit_of(certain)}});
  return all;
}

Json Server::symbols(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  const auto to_json = [&](const auto& self, const std::vector<assist::Symbol>& symbols) -> Json {
    Json list = Json::array();
    for (const auto& s : symbols) {
      Json j = {{"name", s.name},
                {"kind", s.kind},
                {"range", l.range(s.span)},
                {"selectionRange", l.range(s.name_span)}};
      if (!s.detail.empty()) j["detail"] = s.detail;
      if (!s.members.empty()) j["children"] = self(self, s.members);
      list.push_back(std::move(j));
    }
    return list;
  };
  return to_json(to_json, assist::outline(*open->analysis));
}

Json Server::inlay_hints(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  Json all = Json::array();
  for (const auto& h : assist::hints(*open->analysis, l.span(member(params, "range"))))
    all.push_back({{"position", l.position(h.at)}, {"label", h.text}, {"paddingLeft", true}});
  return all;
}

Json Server::folding(const Json& params) {
  Open* open = find(params);
  if (!open) return nullptr;
  const Lines l = lines(open->text);
  Json all = Json::array();
  const auto fold = [&](const auto& self, const assist::Value& v) -> void {
    if (v.members.empty()) return;
    const Json from = l.position(v.span.begin)["line"], to = l.position(v.span.end)["line"];
    if (from.get<std::size_t>() < to.get<std::size_t>())
      all.push_back({{"startLine", from}, {"endLine", to}});
    for (const auto& m : v.members) self(self, m);
  };
  fold(fold, open->analysis->tree().root);
  return all;
}

Json Server::lenses(const Json& params) {
  Open* open = find(params);
  if (!open || open->analysis->nodes == 0) return Json::array();
  const assist::Value* nodes = open->analysis->tree().root.find("nodes");
  if (!nodes) return Json::array();
  const auto counted = [](std::size_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  const std::string title =
      counted(open->analysis->nodes, "node") + ", " + counted(open->analysis->streams, "stream");
  return Json::array({{{"range", lines(open->text).range(nodes->key)},
                       {"command", {{"title", title}, {"command", ""}}}}});
}

Json Server::formatting(const Json& params) {
  Open* open = find(params);
  if (!open || !assist::is_json(open->text)) return nullptr;
  const std::string text = assist::formatted(open->text);
  if (text == open->text) return Json::array();
  return Json::array(
      {{{"range", lines(open->text).range({0, open->text.size()})}, {"newText", text}}});
}

}  // namespace sluice::lsp
