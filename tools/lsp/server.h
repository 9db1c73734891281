// The language server of graph files.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <ostream>
#include <string>

#include "tools/assist/analysis.h"
#include "tools/lsp/input.h"
#include "tools/lsp/lines.h"

namespace sluice::lsp {

class Server {
 public:
  Server(const Catalogue& catalogue, Stream& in, std::ostream& out, std::ostream& err)
      : catalogue_(catalogue), input_(in), out_(out), err_(err) {}

  // Until `exit`, or the end of the input. The process's exit code: 0 after `shutdown`, else 1.
  int serve();
  // Answers what waits, without waiting for more.
  void work();

 private:
  struct Open {
    std::string file, text;
    Json version;
    bool changed = true;  // since it was checked
    std::unique_ptr<assist::Analysis> analysis;
  };
  // An answer that is an error.
  struct Failure {
    int code;
    std::string message;
  };
  using Handler = Json (Server::*)(const Json&);

  // ---- messages ----
  void receive(bool wait);
  void handle(const Json& message);
  void request(const Json& id, const std::string& method, const Json& params);
  void notification(const std::string& method, const Json& params);
  bool was_cancelled(const Json& id) const;
  void send(const Json& message);
  void answer(const Json& id, Json result);
  void refuse(const Json& id, int code, const std::string& message);
  void notify(const std::string& method, Json params);

  // ---- documents ----
  void did_open(const Json& params);
  void did_change(const Json& params);
  void did_close(const Json& params);
  void touch(const Open* apart);  // others may read what has changed
  bool changes_again(const std::string& uri) const;
  void check(const std::string& uri, Open& open);
  void check_all();
  void publish(const std::string& uri, const Open& open);
  Open* find(const Json& params);  // null: not open, or no graph
  OpenFiles texts() const;
  Lines lines(const std::string& text) const { return {text, utf8_}; }
  Json diagnostic(const Diagnostic& d, const assist::Analysis& a, const Lines& l,
                  const assist::Bytes& bytes) const;

  // ---- requests ----
  Json initialize(const Json& params);
  Json shutdown(const Json& params);
  Json completion(const Json& params);
  Json hover(const Json& params);
  Json definition(const Json& params);
  Json references(const Json& params);
  Json highlight(const Json& params);
  Json prepare_rename(const Json& params);
  Json rename(const Json& params);
  Json code_action(const Json& params);
  Json symbols(const Json& params);
  Json inlay_hints(const Json& params);
  Json folding(const Json& params);
  Json lenses(const Json& params);
  Json formatting(const Json& params);

  Json location(const assist::Analysis& a, std::size_t source, const assist::Span& span) const;
  std::string uri_of(const std::string& file) const;

  const Catalogue& catalogue_;
  Input input_;
  std::ostream& out_;
  std::ostream& err_;
  std::deque<Json> waiting_;
  std::map<std::string, Open> documents_;  // by URI
  bool initialized_ = false, ends_ = false, done_ = false;
  // What the letters before the cursor are compared with: the protocol's text of the range that is
  // replaced, quotes and all; Neovim does so for labels alone, and Emacs knows words without
  // quotes.
  enum class Filter : std::uint8_t { text, label, word } filter_ = Filter::word;
  bool utf8_ = false, snippets_ = false, versioned_ = false, annotated_ = false;
};

// "/a/b c.json" for "file:///a/b%20c.json"; another scheme's URI as it is.
std::string file_of(const std::string& uri);

}  // namespace sluice::lsp
