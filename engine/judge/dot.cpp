#include "engine/judge/dot.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "engine/graph/networks_of.h"
#include "engine/judge/dot_text.h"
#include "engine/judge/verdict.h"
#include "engine/plan/cache_need.h"

namespace sluice {
namespace {

using namespace dot;

// What a part holds: its own nodes and the parts in it.
struct Part;
struct Box {
  std::vector<int> nodes;
  std::vector<Part> parts;
  Box& part(const std::string& name);
};
struct Part {
  std::string name;
  Box box;
};

Box& Box::part(const std::string& name) {
  for (Part& p : parts)
    if (p.name == name) return p.box;
  parts.push_back({name, Box{}});
  return parts.back().box;
}

class Picture {
 public:
  Picture(const Plan& plan, const DotOptions& options) : plan_(plan), options_(options) {
    if (options.figures.nodes.size() == plan.nodes.size()) figures_ = &options.figures;
    if (figures_ && !figures_->known()) figures_ = nullptr;
    if (!figures_) return;
    if (options.judge) verdict_ = judge(plan, *figures_);
    for (const NodeFigures& f : figures_->nodes)
      at_rest_ &= f.queue == 0 && f.credits_out == 0 && f.running == 0;
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
  const NodeFigures* measured(int i) const {
    if (!figures_ || !figures_->nodes[static_cast<std::size_t>(i)].known) return nullptr;
    return &figures_->nodes[static_cast<std::size_t>(i)];
  }
  static std::string tab(int depth) {
    return std::string(static_cast<std::size_t>(2 * depth), ' ');
  }

  // ---- the whole ----
  void head() {
    const std::string font = "fontname=\"Helvetica,Arial,sans-serif\"";
    out_ << "digraph " << quote(plan_.graph->name) << " {\n  graph [rankdir=TB, " << font
         << ", fontsize=11, fontcolor=\"" << ink
         << "\", nodesep=0.3, ranksep=0.26, pad=0.25, labelloc=t, labeljust=l, bgcolor=white,\n"
         << "    label=<" << title() << ">];\n"
         << "  node [shape=box, style=\"rounded,filled\", " << font << ", fontsize=11, fontcolor=\""
         << ink << "\", margin=\"0.14,0.05\", height=0.38];\n"
         << "  edge [" << font << ", fontsize=8, fontcolor=\"" << faint << "\", color=\"" << edge
         << "\", arrowsize=0.6];\n";
  }

  static std::string row(const std::string& content) {
    return "<tr><td align=\"left\" balign=\"left\">" + content + "</td></tr>";
  }
  static std::string lines(const std::string& text, const char* color) {
    std::string out;
    for (const auto& line : wrapped(text, 72)) out += small(html(line), color) + "<br/>";
    return out;
  }

  // The graph's name, what it is for, the colours that occur, and what limits.
  std::string title() const {
    std::string name = "<b><font point-size=\"15\">" + html(plan_.graph->name) + "</font></b>";
    if (!options_.state.empty())
      name += "   <font color=\"" + std::string(alarm) + "\">" + html(options_.state) + "</font>";
    std::string out = "<table border=\"0\" cellspacing=\"0\" cellpadding=\"1\">" + row(name);
    if (!plan_.graph->desc.empty()) out += row(lines(plan_.graph->desc, faint));
    out += row(legend());
    if (!options_.note.empty()) out += row(lines(options_.note, alarm));
    if (!verdict_.text.empty())
      out += row(lines(verdict_.text, verdict_.node >= 0 ? alarm : faint));
    return out + "<tr><td><font point-size=\"6\"> </font></td></tr></table>";
  }

  std::string legend() const {
    std::string out;
    for (LaneKind lane : {LaneKind::compute, LaneKind::io, LaneKind::step, LaneKind::copy}) {
      if (std::none_of(plan_.nodes.begin(), plan_.nodes.end(),
                       [&](const PlanNode& n) { return n.lane == lane; }))
        continue;
      out += "<font color=\"" + std::string(style_of(lane).line) + "\">&#9632;</font> " +
             small(style_of(lane).name) + "   ";
    }
    if (figures_) {
      std::ostringstream text;
      text.precision(figures_->wall_s < 10 ? 1 : 0);
      text << std::fixed << figures_->wall_s << " s, " << figures_->threads.compute
           << (figures_->threads.compute == 1 ? " thread" : " threads");
      out += small(text.str() + (at_rest_ ? "; q: most that waited" : "; q: what waits"));
    }
    return out;
  }

  // ---- boxes ----
  void contents(const Box& box, int depth) {
    std::map<int, std::vector<int>> pieces;  // of segments, by their first node
    std::map<int, int> first;
    for (int i : box.nodes) {
      const int at = first.try_emplace(node(i).segment, i).first->second;
      pieces[at].push_back(i);
    }
    // A part that lies within one segment needs no second box.
    const bool alone = depth > 1 && pieces.size() == 1 && box.parts.empty();
    for (const auto& [at, nodes] : pieces) segment(nodes, depth, !alone && nodes.size() > 1);
    for (const auto& [name, part] : box.parts) {
      out_ << tab(depth) << "subgraph cluster_" << clusters_++ << " {\n"
           << tab(depth + 1) << "graph [label=<<b>" << html(name)
           << "</b>>, style=\"rounded,filled\", color=\"#CBD2D9\", fillcolor=\"#FAFBFC\", "
              "fontsize=11, margin=8, labeljust=l, tooltip="
           << quote("part " + name) << "];\n";
      contents(part, depth + 1);
      out_ << tab(depth) << "}\n";
    }
  }

  // The nodes of one segment.
  void segment(const std::vector<int>& nodes, int depth, bool boxed) {
    if (boxed) {
      const PlanNode& gate = node(node(nodes.front()).segment);
      out_ << tab(depth) << "subgraph cluster_" << clusters_++ << " {\n"
           << tab(depth + 1) << "graph [label=\"\", style=\""
           << (gate.training ? "rounded,dotted,filled" : "rounded,dotted")
           << "\", color=\"#9AA5B1\", " << (gate.training ? "fillcolor=\"#F5FBF7\", " : "")
           << "margin=7, tooltip="
           << quote((gate.training ? "the training region, from " : "the segment that begins at ") +
                    gate.path() + ": " + credits(gate) + ", needs " + std::to_string(gate.need) +
                    " (" + gate.why + ")")
           << "];\n";
    }
    for (int i : nodes) box(i, depth + boxed);
    if (boxed) out_ << tab(depth) << "}\n";
  }

  static std::string credits(const PlanNode& n) {
    return std::to_string(n.credits) + (n.credits == 1 ? " credit" : " credits");
  }

  void box(int i, int depth) {
    const PlanNode& n = node(i);
    const LaneStyle& style = style_of(n.lane);
    const bool limits = options_.fault >= 0 ? i == options_.fault : limits_here(i);
    out_ << tab(depth) << quote(n.path()) << " [id=\"node" << i << "\", label=<" << label(i)
         << ">, color=\"" << (limits ? alarm : style.line) << "\", fillcolor=\"" << fill(i) << "\"";
    if (limits) out_ << ", penwidth=2.4";
    if (n.is_source()) out_ << ", shape=folder, style=filled";
    if (!n.is_source() && n.is_sink()) out_ << ", peripheries=2";
    out_ << ", tooltip=" << quote(tooltip(i)) << link(n.graph->place) << "];\n";
  }

  bool limits_here(int i) const {
    if (verdict_.node < 0) return false;
    const auto all = done_with(plan_, *figures_, verdict_.node);
    return std::find(all.begin(), all.end(), i) != all.end();
  }

  std::string busy(int i) const {
    const NodeFigures& f = *measured(i);
    const int in = done_in(plan_, *figures_, i);
    if (in >= 0) return "in the pass of " + node(in).path();
    std::string text = percent(f.busy) + " busy";
    if (done_with(plan_, *figures_, i).size() > 1)
      text = names_done_with(plan_, *figures_, i) + ": " + text;
    return text;
  }

  std::string label(int i) const {
    const PlanNode& n = node(i);
    const std::string name = n.path().substr(n.path().rfind('/') + 1);
    std::string out = "<b>" + html(name) + "</b>";
    std::string more = n.spec->name == name ? "" : html(n.spec->name);
    for (const std::string& word : {ratio(n), n.credits > 0 ? credits_text(i) : ""})
      if (!word.empty()) more += (more.empty() ? "" : ", ") + word;
    if (!more.empty()) out += "<br/>" + small(more);
    if (!n.graph->after.empty()) out += "<br/>" + small(html(turn(*n.graph)));
    if (const NodeFigures* f = measured(i)) {
      std::string text = html(busy(i));
      if (f->running > 0) text += ", " + std::to_string(f->running) + " running";
      if (f->fired > 0 && f->p99_ms >= 0.1) text += ", p99 " + milliseconds(f->p99_ms);
      out += "<br/>" + small(text, ink);
    } else if (!n.is_sink()) {
      for (const auto& line : changed_fields(plan_, i, 3))
        out += "<br/><font point-size=\"8\" color=\"" + std::string(edge) + "\">" + html(line) +
               "</font>";
    }
    return out;
  }

  // "1:4", "8:1"
  static std::string ratio(const PlanNode& n) {
    if (n.spec->arity == Arity::expand) return n.count > 0 ? "1:" + std::to_string(n.count) : "1:n";
    return n.spec->arity == Arity::gather && n.count > 1 ? std::to_string(n.count) + ":1" : "";
  }

  // As the run left them, else the most that were out at once.
  std::string credits_text(int i) const {
    const NodeFigures* f = measured(i);
    if (!f) return credits(node(i));
    return std::to_string(at_rest_ ? f->credits_most : f->credits_out) + "/" + credits(node(i));
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
    const LaneStyle& style = style_of(node(i).lane);
    const NodeFigures* f = measured(i);
    if (!f) return style.fill;
    const double busy = std::clamp(f->busy, 0.0, 1.0);
    const std::string full = busy >= 0.9 ? "#F2B8B0" : busy >= 0.6 ? "#F7DCA4" : style.busy;
    if (busy < 0.01) return style.fill;
    if (busy > 0.99) return full;
    std::ostringstream share;
    share.precision(2);
    share << std::fixed << busy;
    return full + ";" + share.str() + ":" + style.fill;
  }

  std::string link(const Place& place) const {
    const Mark mark = place.mark();
    const Place origin = place.origin();
    if (!mark.line || !origin.document) return "";
    std::error_code ignored;
    std::string file = origin.document->file;
    if (!options_.base.empty()) {
      const std::string from = std::filesystem::proximate(file, options_.base, ignored).string();
      if (!from.empty()) file = from;
    }
    return ", URL=" + quote(url(file) + "#L" + std::to_string(mark.line));
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
    if (const std::string need = n.spec->is_cache ? cache_need(plan_, i).text() : ""; !need.empty())
      out += "\nkeeps " + need;
    if (n.credits > 0)
      out += "\n" + credits(n) + ", needs " + std::to_string(n.need) + " (" + n.why + ")";
    if (const NodeFigures* f = measured(i))
      out += "\nbusy " + percent(f->busy) + ", starved " + percent(f->starved) + ", blocked " +
             percent(f->blocked) + "\n" + rate(f->rate) + "/s, p50 " + milliseconds(f->p50_ms) +
             ", p99 " + milliseconds(f->p99_ms);
    return out;
  }

  // ---- lines ----
  void edges() {
    for (int i = 0; i < static_cast<int>(plan_.nodes.size()); ++i)
      for (const GraphInput& in : node(i).inputs) {
        out_ << "  " << quote(node(in.from).path()) << " -> " << quote(node(i).path()) << " [";
        std::string label = ports(in, node(i));
        if (node(in.from).leaves != Leaves::nothing) label = label.empty() ? "+" : "+  " + label;
        if (measured(i)) label += (label.empty() ? "" : "  ") + traffic(i);
        if (!label.empty()) out_ << "label=" << quote("  " + label + "  ") << ", ";
        if (node(in.from).leaves != Leaves::nothing) out_ << "arrowhead=none, ";
        if (const NodeFigures* f = measured(i)) out_ << "penwidth=" << width(*f) << ", ";
        out_ << "tooltip=" << quote(edge_tooltip(in, i)) << "];\n";
      }
  }

  // "image", "to label"
  std::string ports(const GraphInput& in, const PlanNode& to) const {
    const PlanNode& from = node(in.from);
    std::vector<std::string> words;
    const std::string out = from.spec->outs[static_cast<std::size_t>(in.from_port)].name;
    const std::string port = to.spec->ins[static_cast<std::size_t>(in.port)].name;
    if (from.spec->outs.size() > 1) words.push_back(out);
    if (to.spec->ins.size() > 1 && (words.empty() || port != out))
      words.push_back((words.empty() ? "" : "to ") + port);
    std::string label;
    for (const auto& word : words) label += (label.empty() ? "" : ", ") + word;
    return label;
  }

  // "41.8/s  q 3/8"
  std::string traffic(int to) const {
    const NodeFigures& f = *measured(to);
    const int room = queue_room(plan_, to);
    const double each = node(to).spec->arity == Arity::gather ? gathered(plan_, node(to)) : 1;
    return rate(f.rate * each) + "/s  q " + std::to_string(at_rest_ ? f.queue_max : f.queue) +
           (room > 0 ? "/" + std::to_string(room) : "");
  }

  // The wider, the less the reader waits for input.
  static std::string width(const NodeFigures& reader) {
    std::ostringstream out;
    out.precision(1);
    out << std::fixed << 0.7 + 3.5 * (1 - std::clamp(reader.starved, 0.0, 1.0));
    return out.str();
  }

  std::string edge_tooltip(const GraphInput& in, int to) const {
    std::string out = node(in.from).path() + " to " + node(to).path();
    if (node(in.from).leaves != Leaves::nothing)
      out += "\ndone together: " + text(plan_, plan_.runs[static_cast<std::size_t>(node(to).run)]);
    if (const NodeFigures* f = measured(to))
      out += "\n" + node(to).path() + " waits for input " + percent(f->starved) +
             " of the time; at most " + std::to_string(f->queue_max) + " waited";
    return out + all_fields(node(in.from).flow);
  }

  void networks() {
    for (std::size_t i = 0; i < plan_.graph->models.size(); ++i) {
      const GraphModel& m = plan_.graph->models[i];
      out_ << "  " << quote("network " + m.name) << " [id=\"network" << i << "\", label=<<b>"
           << html(m.name) << "</b>";
      if (m.spec) out_ << "<br/>" << small(html(m.spec->name));
      out_ << ">, shape=cylinder, style=\"filled,dashed\", color=\"" << network
           << "\", fillcolor=\"#FBF3EA\", margin=\"0.12,0.06\", tooltip="
           << quote("network " + m.name + "\n" + short_json(m.params)) << link(m.place) << "];\n";
    }
    for (const PlanNode& n : plan_.nodes) {
      if (n.spec->access == Access::none) continue;
      // Drawn from the network in both cases, so that it stands above its users.
      const bool reads = n.spec->access == Access::read;
      for (const std::string& name : networks_of(*n.graph))
        out_ << "  " << quote("network " + name) << " -> " << quote(n.path())
             << " [style=dashed, weight=0, color=\"" << network << "\", arrowsize=0.5"
             << (reads ? "" : ", dir=back, penwidth=1.4")
             << ", tooltip=" << quote(n.path() + (reads ? " reads " : " updates ") + name)
             << "];\n";
    }
  }

  const Plan& plan_;
  const DotOptions& options_;
  const Figures* figures_ = nullptr;
  Verdict verdict_;
  bool at_rest_ = true;  // nothing waits any more: the run was measured to its end
  int clusters_ = 0;
  std::ostringstream out_;
};

}  // namespace

std::string to_dot(const Plan& plan, const DotOptions& options) {
  return Picture(plan, options).draw();
}

}  // namespace sluice
