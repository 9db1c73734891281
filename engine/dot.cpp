#include "engine/dot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

namespace sluice {
namespace {

// ---- colours and text ---------------------------------------------------------------------------

struct LaneStyle {
  const char *name, *line, *fill, *busy;  // busy: the part of the fill that a measured share takes
};
constexpr std::array<LaneStyle, 4> lanes{{
    {"compute", "#4A7FC9", "#E8F0FB", "#B5D0F2"},
    {"io", "#7B8794", "#F0F2F4", "#CBD2D9"},
    {"step", "#2F8F56", "#E3F4E9", "#A6DCB8"},
    {"copy", "#8B62BF", "#F1EAF9", "#D5C0EC"},
}};
const LaneStyle& style_of(const PlanNode& n) { return lanes[static_cast<std::size_t>(n.lane)]; }

constexpr const char* ink = "#1F2933";
constexpr const char* faint = "#7B8794";
constexpr const char* edge = "#52606D";
constexpr const char* network = "#A8662A";

std::string html(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A quoted DOT string. Line ends are written as \n.
std::string quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

std::string small(const std::string& text, const char* color = faint) {
  return "<font point-size=\"9\" color=\"" + std::string(color) + "\">" + text + "</font>";
}

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + "%"; }

// 0.83, 41.8, 336
std::string rate(double r) {
  std::ostringstream out;
  out.precision(r < 100 ? 1 : 0);
  if (r < 1) out.precision(2);
  out << std::fixed << r;
  return out.str();
}

std::string short_json(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t most = 120;
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// ---- the picture --------------------------------------------------------------------------------

// What a part holds: its own nodes and the parts in it.
struct Box {
  std::string title;
  std::vector<int> nodes;
  std::vector<std::pair<std::string, Box>> parts;

  Box& part(const std::string& name) {
    for (auto& [key, box] : parts)
      if (key == name) return box;
    parts.push_back({name, Box{name, {}, {}}});
    return parts.back().second;
  }
};

class Picture {
 public:
  Picture(const Plan& plan, const Json& profile) : plan_(plan), bottleneck_(-1) {
    if (profile.is_object() && profile.contains("nodes")) measured_ = profile["nodes"];
    double most = 0.5;  // nothing below half of the time is called a bottleneck
    for (int i = 0; i < static_cast<int>(plan.nodes.size()); ++i)
      if (const double b = share(i, "busy"); b > most) {
        most = b;
        bottleneck_ = i;
      }
  }

  std::string draw() {
    head();
    Box root;
    for (int i = 0; i < static_cast<int>(plan_.nodes.size()); ++i) {
      Box* box = &root;
      const std::string& path = node(i).path();
      std::size_t start = 0;
      for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', start)) {
        box = &box->part(path.substr(start, slash - start));
        start = slash + 1;
      }
      box->nodes.push_back(i);
    }
    contents(root, 1);
    networks();
    edges();
    out_ << "}\n";
    return out_.str();
  }

 private:
  const PlanNode& node(int i) const { return plan_.nodes[static_cast<std::size_t>(i)]; }
  const Json* profile(int i) const {
    if (!measured_.is_object() || !measured_.contains(node(i).path())) return nullptr;
    const Json& found = measured_[node(i).path()];
    return found.is_object() ? &found : nullptr;
  }
  double share(int i, const char* key) const {
    const Json* p = profile(i);
    return p && p->contains(key) && (*p)[key].is_number() ? (*p)[key].get<double>() : 0;
  }
  static std::string tab(int depth) {
    return std::string(static_cast<std::size_t>(2 * depth), ' ');
  }

  void head() {
    out_
        << "digraph " << quote(plan_.graph->name) << " {\n"
        << "  graph [rankdir=LR, fontname=\"Helvetica,Arial,sans-serif\", fontsize=11, fontcolor=\""
        << ink
        << "\", nodesep=0.28, ranksep=0.42, pad=0.25, labelloc=t, labeljust=l, "
           "bgcolor=white,\n    label=<"
        << title() << ">];\n"
        << "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica,Arial,sans-serif\", "
           "fontsize=11, "
           "fontcolor=\""
        << ink << "\", margin=\"0.14,0.07\", height=0.45];\n"
        << "  edge [fontname=\"Helvetica,Arial,sans-serif\", fontsize=9, fontcolor=\"" << faint
        << "\", color=\"" << edge << "\", arrowsize=0.65];\n";
  }

  // The graph's name, what it is for, and the colours that occur.
  std::string title() const {
    std::string out =
        "<table border=\"0\" cellspacing=\"0\" cellpadding=\"1\"><tr><td "
        "align=\"left\"><b><font point-size=\"15\">" +
        html(plan_.graph->name) + "</font></b>";
    if (!plan_.graph->desc.empty())
      out += "   <font color=\"" + std::string(faint) + "\">" + html(plan_.graph->desc) + "</font>";
    out += "</td></tr><tr><td align=\"left\">";
    std::string legend;
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const bool occurs =
          std::any_of(plan_.nodes.begin(), plan_.nodes.end(),
                      [&](const PlanNode& n) { return static_cast<std::size_t>(n.lane) == l; });
      if (!occurs) continue;
      if (!legend.empty()) legend += "   ";
      legend += "<font color=\"" + std::string(lanes[l].line) + "\">&#9632;</font> " +
                small(lanes[l].name);
    }
    return out + legend + "</td></tr><tr><td> </td></tr></table>";
  }

  void contents(const Box& box, int depth) {
    std::map<int, std::vector<int>> pieces;  // of segments, by their first node
    std::map<int, int> first;
    for (int i : box.nodes) {
      const int at = first.try_emplace(node(i).segment, i).first->second;
      pieces[at].push_back(i);
    }
    for (const auto& [at, nodes] : pieces) segment(nodes, depth);
    for (const auto& [name, part] : box.parts) {
      out_ << tab(depth) << "subgraph cluster_" << clusters_++ << " {\n"
           << tab(depth + 1) << "graph [label=<<b>" << html(name)
           << "</b>>, style=\"rounded,filled\", color=\"#CBD2D9\", fillcolor=\"#FAFBFC\", "
              "fontsize=11, margin=10, labeljust=l];\n";
      contents(part, depth + 1);
      out_ << tab(depth) << "}\n";
    }
  }

  // The nodes of one segment in one box; the credits stand where the segment begins.
  void segment(const std::vector<int>& nodes, int depth) {
    const int gate = node(nodes.front()).segment;
    std::string label;
    if (std::find(nodes.begin(), nodes.end(), gate) != nodes.end() && node(gate).credits > 0)
      label =
          std::to_string(node(gate).credits) + (node(gate).credits == 1 ? " credit" : " credits");
    out_ << tab(depth) << "subgraph cluster_" << clusters_++ << " {\n"
         << tab(depth + 1) << "graph [label=" << quote(label)
         << ", style=\"rounded,dotted\", color=\"#B0BAC5\", fontsize=8, fontcolor=\"#9AA5B1\", "
            "margin=7, labeljust=l, tooltip="
         << quote(label.empty() ? "the segment that begins at " + node(gate).path()
                                : node(gate).path() + ": " + label + ", needs " +
                                      std::to_string(node(gate).need) + " (" + node(gate).why + ")")
         << "];\n";
    for (int i : nodes) box(i, depth + 1);
    out_ << tab(depth) << "}\n";
  }

  void box(int i, int depth) {
    const PlanNode& n = node(i);
    const LaneStyle& style = style_of(n);
    const std::string name = n.path().substr(n.path().rfind('/') + 1);
    out_ << tab(depth) << quote(n.path()) << " [label=<<b>" << html(name) << "</b>";
    if (n.spec->name != name) out_ << "<br/>" << small(html(n.spec->name));
    if (!n.graph->after.empty()) out_ << "<br/>" << small(html(turn(*n.graph)));
    if (profile(i)) out_ << "<br/>" << small(measure(i), ink);
    out_ << ">, color=\"" << (i == bottleneck_ ? "#C0392B" : style.line) << "\", fillcolor=\""
         << fill(i) << "\"";
    if (i == bottleneck_) out_ << ", penwidth=2.4";
    if (n.is_source()) out_ << ", shape=cds, style=filled, margin=\"0.2,0.1\"";
    if (!n.is_source() && n.is_sink()) out_ << ", peripheries=2";
    out_ << ", tooltip=" << quote(tooltip(i));
    if (const std::string place = url(n.graph->place); !place.empty())
      out_ << ", URL=" << quote(place);
    out_ << "];\n";
  }

  // When a stream that waits for an updater runs. In words, since an edge back would cross half of
  // the picture.
  static std::string turn(const GraphNode& source) {
    const int every = source.every_epochs;
    return "after " + source.after +
           (every > 1 ? ", every " + std::to_string(every) + " epochs" : "");
  }

  // A hard stop between two colours makes the box a bar of the busy share.
  std::string fill(int i) const {
    const LaneStyle& style = style_of(node(i));
    if (!profile(i)) return style.fill;
    const double busy = std::clamp(share(i, "busy"), 0.0, 1.0);
    const std::string full = busy >= 0.9 ? "#F2B8B0" : busy >= 0.6 ? "#F7DCA4" : style.busy;
    if (busy < 0.01) return style.fill;
    if (busy > 0.99) return full;
    std::ostringstream share;
    share.precision(2);
    share << std::fixed << busy;
    return full + ";" + share.str() + ":" + style.fill;
  }

  std::string measure(int i) const {
    return percent(share(i, "busy")) + " busy, " + rate(share(i, "rate")) + "/s";
  }

  static std::string url(const Place& place) {
    const Mark mark = place.mark();
    return mark.line ? place.origin().document->file + ":" + std::to_string(mark.line) : "";
  }

  std::string tooltip(int i) const {
    const PlanNode& n = node(i);
    std::string out = n.path() + " (" + n.spec->name + ")";
    if (!n.graph->desc.empty()) out += ": " + n.graph->desc;
    for (const auto& name : n.graph->given) {
      const ParamSpec* p = n.spec->find_param(name);
      if (!p || !n.graph->params.contains(name)) continue;
      const Json& value = n.graph->params[name];
      if (p->required || value != p->fallback) out += "\n" + name + " = " + short_json(value);
    }
    if (profile(i))
      out += "\nbusy " + percent(share(i, "busy")) + ", starved " + percent(share(i, "starved")) +
             ", blocked " + percent(share(i, "blocked"));
    return out;
  }

  // ---- edges and networks -----------------------------------------------------------------------

  void edges() {
    for (int i = 0; i < static_cast<int>(plan_.nodes.size()); ++i)
      for (const GraphInput& in : node(i).inputs) {
        const PlanNode &from = node(in.from), &to = node(i);
        out_ << "  " << quote(from.path()) << " -> " << quote(to.path());
        std::vector<std::string> words;
        const std::string out = from.spec->outs[static_cast<std::size_t>(in.from_port)].name;
        const std::string port = to.spec->ins[static_cast<std::size_t>(in.port)].name;
        if (from.spec->outs.size() > 1) words.push_back(out);
        if (to.spec->ins.size() > 1 && (words.empty() || port != out))
          words.push_back((words.empty() ? "" : "to ") + port);
        if (from.spec->arity == Arity::expand)
          words.push_back(from.count > 0 ? "1:" + std::to_string(from.count) : "1:n");
        if (to.spec->arity == Arity::gather && to.count > 1)
          words.push_back(std::to_string(to.count) + ":1");
        std::string label;
        for (const auto& word : words) label += (label.empty() ? "" : ", ") + word;
        if (!label.empty()) out_ << " [label=" << quote(label) << "]";
        out_ << ";\n";
      }
  }

  void networks() {
    for (const GraphModel& m : plan_.graph->models) {
      out_ << "  " << quote("network " + m.name) << " [label=<<b>" << html(m.name) << "</b>";
      if (m.spec) out_ << "<br/>" << small(html(m.spec->name));
      out_ << ">, shape=cylinder, style=\"filled,dashed\", color=\"" << network
           << "\", fillcolor=\"#FBF3EA\", margin=\"0.12,0.08\", tooltip="
           << quote("network " + m.name + "\n" + short_json(m.params));
      if (const std::string place = url(m.place); !place.empty()) out_ << ", URL=" << quote(place);
      out_ << "];\n";
    }
    for (const PlanNode& n : plan_.nodes) {
      if (n.spec->access == Access::none) continue;
      // Drawn from the network in both cases, so that it stands in front of its users.
      const bool reads = n.spec->access == Access::read;
      out_ << "  " << quote("network " + name_of_network(n)) << " -> " << quote(n.path())
           << " [style=dashed, weight=0, color=\"" << network << "\", arrowsize=0.5"
           << (reads ? "" : ", dir=back, penwidth=1.4") << ", tooltip="
           << quote(n.path() + (reads ? " reads " : " updates ") + name_of_network(n)) << "];\n";
    }
  }

  static std::string name_of_network(const PlanNode& n) {
    const Json& params = n.graph->params;
    const std::string& key = n.spec->network_param;
    return params.contains(key) && params[key].is_string() ? params[key].get<std::string>() : "";
  }

  const Plan& plan_;
  Json measured_;
  int bottleneck_;
  int clusters_ = 0;
  std::ostringstream out_;
};

}  // namespace

std::string to_dot(const Plan& plan, const Json& profile) { return Picture(plan, profile).draw(); }

}  // namespace sluice
