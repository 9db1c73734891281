#include "engine/judge/dot_reader.h"

#include <cctype>
#include <cstdlib>

#include "engine/base/error.h"

namespace sluice {

std::string DotAttributes::text(const std::string& name, const std::string& otherwise) const {
  const auto it = all.find(name);
  return it == all.end() ? otherwise : it->second.text;
}

double DotAttributes::number(const std::string& name, double otherwise) const {
  const auto it = all.find(name);
  return it == all.end() ? otherwise : std::strtod(it->second.text.c_str(), nullptr);
}

namespace {

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  DotGraph read() {
    expect("digraph");
    if (!sees('{')) graph_.name = value().text;
    DotAttributes nodes, edges;
    body(-1, nodes, edges, graph_.attributes);
    return std::move(graph_);
  }

 private:
  // What stands between { and }. Defaults hold from where they stand to the end of their body.
  void body(int cluster, DotAttributes nodes, DotAttributes edges, DotAttributes& own) {
    expect("{");
    while (!takes('}')) {
      if (at_ >= text_.size()) fail("}");
      const bool is_name = sees('"');  // a node may be called "edge"
      const DotValue first = value();
      const std::string word = is_name ? "" : first.text;
      if (word == "subgraph") {
        const int inner = static_cast<int>(graph_.clusters.size());
        graph_.clusters.push_back({value().text, {}, cluster});
        DotAttributes of_it;
        body(inner, nodes, edges, of_it);
        graph_.clusters[static_cast<std::size_t>(inner)].attributes = std::move(of_it);
      } else if (word == "graph") {
        attributes(own);
      } else if (word == "node") {
        attributes(nodes);
      } else if (word == "edge") {
        attributes(edges);
      } else if (takes('=')) {
        own.all[first.text] = value();
      } else if (takes("->")) {
        DotEdge edge{node(first.text, cluster, nodes), node(value().text, cluster, nodes), edges};
        attributes(edge.attributes);
        graph_.edges.push_back(std::move(edge));
      } else {
        const int i = node(first.text, cluster, nodes);
        attributes(graph_.nodes[static_cast<std::size_t>(i)].attributes);
      }
      takes(';');
    }
  }

  int node(const std::string& name, int cluster, const DotAttributes& defaults) {
    const auto [it, is_new] = known_.try_emplace(name, static_cast<int>(graph_.nodes.size()));
    if (is_new) graph_.nodes.push_back({name, defaults, cluster});
    return it->second;
  }

  void attributes(DotAttributes& to) {
    if (!takes('[')) return;
    while (!takes(']')) {
      if (at_ >= text_.size()) fail("]");
      const std::string name = value().text;
      expect("=");
      to.all[name] = value();
      if (!takes(',')) takes(';');
    }
  }

  // A name, a number, "text" or <markup>.
  DotValue value() {
    space();
    if (sees('"')) return {quoted(), false};
    if (sees('<')) return {markup(), true};
    const std::size_t begin = at_;
    const auto belongs = [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
             (c == '-' && at_ == begin);
    };
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    if (at_ == begin) fail("a name");
    return {text_.substr(begin, at_ - begin), false};
  }

  std::string quoted() {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escaped) ++at_;
      out += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_++ >= text_.size()) fail("\"");
    return out;
  }

  std::string markup() {
    const std::size_t begin = ++at_;
    for (int depth = 1; at_ < text_.size(); ++at_) {
      depth += text_[at_] == '<' ? 1 : text_[at_] == '>' ? -1 : 0;
      if (depth == 0) return text_.substr(begin, at_++ - begin);
    }
    fail(">");
  }

  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool sees(char c) {
    space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool takes(char c) {
    if (!sees(c)) return false;
    ++at_;
    return true;
  }
  bool takes(const std::string& word) {
    space();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void expect(const std::string& word) {
    if (!takes(word)) fail(word);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Exit::usage,
                "this is no picture of ours: expected " + what + " at byte " + std::to_string(at_));
  }

  const std::string& text_;
  std::size_t at_ = 0;
  DotGraph graph_;
  std::map<std::string, int> known_;
};

}  // namespace

DotGraph read_dot(const std::string& text) { return Reader(text).read(); }

}  // namespace sluice
