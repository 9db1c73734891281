#include "engine/judge/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "engine/judge/dot_text.h"
#include "engine/judge/label.h"
#include "engine/judge/layered.h"

namespace sluice {
namespace {

constexpr double point = 72;  // an inch, in points
constexpr double arrow_length = 6, arrow_half = 2.1;

std::string num(double v) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f", v);
  std::string text = out;
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

// In a text or an attribute.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : dot::html(text)) out += c == '\n' ? std::string("&#10;") : std::string(1, c);
  return out;
}

struct Point {
  double x = 0, y = 0;
};
std::string at(Point p) { return num(p.x) + "," + num(p.y); }

class Drawing {
 public:
  explicit Drawing(const std::string& text) : graph_(read_dot(text)) {}

  std::string draw() {
    boxes_.resize(graph_.nodes.size());
    lines_.resize(graph_.edges.size());
    frames_.resize(graph_.clusters.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) measure(i);
    const Label title = label_of(graph_.attributes);
    const double pad = point * graph_.attributes.number("pad", 0.25);
    LayoutBox whole = place(-1);
    const double head = title.lines.empty() ? 0 : title.height() + 8;
    move_in(-1, {pad, pad + head});
    whole.width = std::max(whole.width, title.width() + 20);
    const double width = whole.width + 2 * pad, height = whole.height + head + 2 * pad;
    out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n<svg width=\"" +
           num(width) + "pt\" height=\"" + num(height) + "pt\" viewBox=\"0 0 " + num(width) + " " +
           num(height) +
           "\" xmlns=\"http://www.w3.org/2000/svg\" "
           "xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n<g id=\"graph0\" class=\"graph\">\n"
           "<title>" +
           escaped(graph_.name) + "</title>\n<rect fill=\"" +
           graph_.attributes.text("bgcolor", "white") + "\" width=\"" + num(width) +
           "\" height=\"" + num(height) + "\"/>\n";
    text(title, {pad, pad}, title.width(), true);
    for (std::size_t i = 0; i < graph_.clusters.size(); ++i) cluster(i);
    for (std::size_t i = 0; i < graph_.edges.size(); ++i) edge(i);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) node(i);
    return out_ + "</g>\n</svg>\n";
  }

 private:
  using Lines = std::vector<LayoutLine::Pass>;

  static Label label_of(const DotAttributes& a) {
    const auto it = a.all.find("label");
    if (it == a.all.end()) return {};
    return read_label(it->second, a.number("fontsize", 11), a.text("fontcolor", dot::ink));
  }

  // ---- sizes and places ----
  void measure(std::size_t i) {
    const DotAttributes& a = graph_.nodes[i].attributes;
    Label label = label_of(a);
    if (!a.all.contains("label")) label = read_label({graph_.nodes[i].name}, 11, dot::ink);
    const std::string margin = a.text("margin", "0.11,0.055");
    const double beside = point * std::atof(margin.c_str());
    const std::size_t comma = margin.find(',');
    const double above = comma == margin.npos ? beside : point * std::atof(&margin[comma + 1]);
    const bool round = a.text("shape") == "cylinder";
    boxes_[i].width = std::max(54.0, label.width() + 2 * beside);
    boxes_[i].height =
        std::max(point * a.number("height", 0.5), label.height() + 2 * above) + (round ? 8 : 0);
    labels_.push_back(std::move(label));
  }

  // The clusters from the outermost one to the innermost in which a node stands.
  std::vector<int> path(int node) const {
    std::vector<int> all;
    for (int c = graph_.nodes[static_cast<std::size_t>(node)].cluster; c >= 0;
         c = graph_.clusters[static_cast<std::size_t>(c)].parent)
      all.insert(all.begin(), c);
    return all;
  }

  // Places what stands in a cluster, counted from its inner upper left corner, and returns its
  // size.
  LayoutBox place(int cluster) {
    LayeredLayout layout;
    layout.row_gap = std::max(16.0, point * graph_.attributes.number("ranksep", 0.26));
    layout.box_gap = point * graph_.attributes.number("nodesep", 0.3);
    std::map<int, int> of_node, of_cluster;    // -> box
    std::vector<std::pair<int, int>> members;  // node or -1, cluster or -1
    const auto add = [&](const LayoutBox& box, int node, int inner) {
      members.emplace_back(node, inner);
      layout.boxes.push_back(box);
      return static_cast<int>(members.size()) - 1;
    };
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {  // in file order
      const auto around = path(n);
      const auto here =
          cluster < 0 ? around.begin() : std::find(around.begin(), around.end(), cluster);
      if (cluster >= 0 && here == around.end()) continue;
      const auto inner = cluster < 0 ? here : here + 1;
      if (inner == around.end())
        of_node[n] = add(boxes_[static_cast<std::size_t>(n)], n, -1);
      else if (!of_cluster.contains(*inner))
        of_cluster[*inner] = add(framed(*inner), -1, *inner);
      if (inner != around.end()) of_node[n] = of_cluster[*inner];
    }
    std::vector<std::size_t> edges;
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      const DotEdge& edge = graph_.edges[e];
      const auto from = of_node.find(edge.from), to = of_node.find(edge.to);
      if (from == of_node.end() || to == of_node.end() || from->second == to->second) continue;
      const bool weak = edge.attributes.number("weight", 1) == 0;
      layout.lines.push_back({from->second, to->second, weak, {}});
      edges.push_back(e);
    }
    layout.arrange();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto [n, inner] = members[i];
      (n >= 0 ? boxes_[static_cast<std::size_t>(n)] : frames_[static_cast<std::size_t>(inner)]) =
          layout.boxes[i];
    }
    for (std::size_t i = 0; i < edges.size(); ++i) {
      lines_[edges[i]] = layout.lines[i].passes;
      line_in_[edges[i]] = cluster;
    }
    return {layout.width, layout.height, 0, 0};
  }

  double margin(int cluster) const {
    return graph_.clusters[static_cast<std::size_t>(cluster)].attributes.number("margin", 8);
  }
  double head(int cluster) const {
    const Label label = label_of(graph_.clusters[static_cast<std::size_t>(cluster)].attributes);
    return label.lines.empty() || label.width() == 0 ? 0 : label.height() + 4;
  }
  LayoutBox framed(int cluster) {
    LayoutBox inner = place(cluster);
    const double m = margin(cluster);
    const Label label = label_of(graph_.clusters[static_cast<std::size_t>(cluster)].attributes);
    return {std::max(inner.width, label.width()) + 2 * m, inner.height + head(cluster) + 2 * m, 0,
            0};
  }

  // From places within their cluster to places in the picture.
  void move_in(int cluster, Point by) {
    for (std::size_t n = 0; n < boxes_.size(); ++n)
      if (graph_.nodes[n].cluster == cluster) boxes_[n].x += by.x, boxes_[n].y += by.y;
    for (std::size_t e = 0; e < lines_.size(); ++e)
      if (line_in_.contains(e) && line_in_[e] == cluster)
        for (auto& pass : lines_[e]) pass.x += by.x, pass.top += by.y, pass.bottom += by.y;
    for (std::size_t c = 0; c < frames_.size(); ++c) {
      if (graph_.clusters[c].parent != cluster) continue;
      const int i = static_cast<int>(c);
      frames_[c].x += by.x;
      frames_[c].y += by.y;
      move_in(i, {frames_[c].x + margin(i), frames_[c].y + margin(i) + head(i)});
    }
  }

  // ---- elements ----
  // A line is one element, so that it stays in the middle in fonts of other widths too.
  void text(const Label& label, Point corner, double width, bool left) {
    double y = corner.y;
    for (const LabelLine& line : label.lines) {
      out_ += "<text xml:space=\"preserve\" text-anchor=\"" +
              std::string(left ? "start" : "middle") + "\" x=\"" +
              num(corner.x + (left ? 0 : width / 2)) + "\" y=\"" + num(y + 0.8 * line.height()) +
              "\" font-family=\"Helvetica,Arial,sans-serif\">";
      for (const LabelRun& run : line.runs)
        out_ += std::string("<tspan") + (run.bold ? " font-weight=\"bold\"" : "") +
                " font-size=\"" + num(run.size) + "\" fill=\"" + escaped(run.color) + "\">" +
                escaped(run.text) + "</tspan>";
      out_ += "</text>\n";
      y += line.height();
    }
  }

  // <g> with id, class and title, and in it what a pointer sees.
  void open(const std::string& id, const char* kind, const std::string& title,
            const DotAttributes& a) {
    out_ += "<g id=\"" + escaped(id) + "\" class=\"" + kind + "\">\n<title>" + escaped(title) +
            "</title>\n<g id=\"a_" + escaped(id) + "\"><a";
    if (const std::string url = a.text("URL"); !url.empty())
      out_ += " xlink:href=\"" + escaped(url) + "\"";
    out_ += " xlink:title=\"" + escaped(a.text("tooltip", title)) + "\">\n";
  }
  void close() { out_ += "</a>\n</g>\n</g>\n"; }

  static std::string stroke(const DotAttributes& a, const std::string& color) {
    std::string out = " stroke=\"" + escaped(color) + "\"";
    if (const double w = a.number("penwidth", 1); w != 1) out += " stroke-width=\"" + num(w) + "\"";
    const std::string style = a.text("style");
    if (style.find("dashed") != style.npos) out += " stroke-dasharray=\"5,2\"";
    if (style.find("dotted") != style.npos) out += " stroke-dasharray=\"1,5\"";
    return out;
  }

  // A color, or "#aaa;0.30:#bbb": so much of the one from the left, then the other.
  std::string fill(const std::string& color, const std::string& id) {
    const std::size_t end = color.find(';'), colon = color.find(':');
    if (end == color.npos || colon == color.npos) return escaped(color);
    const std::string share = color.substr(end + 1, colon - end - 1);
    const auto stop = [&](const std::string& c) {
      return "<stop offset=\"" + share + "\" stop-color=\"" + escaped(c) + "\"/>";
    };
    out_ += "<defs><linearGradient id=\"fill_" + id + "\">" + stop(color.substr(0, end)) +
            stop(color.substr(colon + 1)) + "</linearGradient></defs>\n";
    return "url(#fill_" + id + ")";
  }

  static std::string rect(const LayoutBox& b, double grow, double radius) {
    return "<rect x=\"" + num(b.x - grow) + "\" y=\"" + num(b.y - grow) + "\" width=\"" +
           num(b.width + 2 * grow) + "\" height=\"" + num(b.height + 2 * grow) +
           (radius > 0 ? "\" rx=\"" + num(radius) : "") + "\"";
  }

  void cluster(std::size_t i) {
    const DotCluster& c = graph_.clusters[i];
    const bool filled = c.attributes.text("style").find("filled") != std::string::npos;
    open("clust" + std::to_string(i + 1), "cluster", c.name, c.attributes);
    out_ += rect(frames_[i], 0, 12) + " fill=\"" +
            (filled ? escaped(c.attributes.text("fillcolor", "none")) : "white") + "\"" +
            stroke(c.attributes, c.attributes.text("color", "black")) + "/>\n";
    const double m = margin(static_cast<int>(i));
    const Label label = label_of(c.attributes);
    text(label, {frames_[i].x + m, frames_[i].y + m}, label.width(), true);
    close();
  }

  void node(std::size_t i) {
    const DotNode& n = graph_.nodes[i];
    const DotAttributes& a = n.attributes;
    const LayoutBox& b = boxes_[i];
    const std::string id = a.text("id", "node" + std::to_string(i + 1)), shape = a.text("shape");
    open(id, "node", n.name, a);
    const std::string look = " fill=\"" + fill(a.text("fillcolor", "white"), id) + "\"" +
                             stroke(a, a.text("color", "black")) + "/>\n";
    const double right = b.x + b.width, bottom = b.y + b.height;
    if (shape == "folder") {
      out_ += "<polygon points=\"" + at({b.x, b.y}) + " " + at({right - 27, b.y}) + " " +
              at({right - 24, b.y - 4}) + " " + at({right - 3, b.y - 4}) + " " + at({right, b.y}) +
              " " + at({right, bottom}) + " " + at({b.x, bottom}) + "\"" + look;
    } else if (shape == "cylinder") {
      const std::string lid = num(b.width / 2) + ",4 0 0 ";
      out_ += "<path d=\"M" + at({b.x, b.y + 4}) + "A" + lid + "1 " + at({right, b.y + 4}) + "L" +
              at({right, bottom - 4}) + "A" + lid + "1 " + at({b.x, bottom - 4}) + "Z\"" + look;
      out_ += "<path d=\"M" + at({b.x, b.y + 4}) + "A" + lid + "0 " + at({right, b.y + 4}) +
              "\" fill=\"none\"" + stroke(a, a.text("color", "black")) + "/>\n";
    } else {
      const bool round = a.text("style").find("rounded") != std::string::npos;
      out_ += rect(b, 0, round ? 6 : 0) + look;
      if (a.number("peripheries", 1) > 1)
        out_ += rect(b, 4, round ? 8 : 0) + " fill=\"none\"" + stroke(a, a.text("color", "black")) +
                "/>\n";
    }
    const Label& label = labels_[i];
    const double shift = shape == "cylinder" ? 3 : 0;
    text(label, {b.x, b.y + (b.height - label.height()) / 2 + shift}, b.width, false);
    close();
  }

  // A head at `tip` that points along `towards`.
  void arrow(Point tip, Point towards, const std::string& color) {
    const double length = std::max(1e-9, std::hypot(towards.x, towards.y));
    const Point along{towards.x / length, towards.y / length};
    const Point base{tip.x - arrow_length * along.x, tip.y - arrow_length * along.y};
    const Point side{-arrow_half * along.y, arrow_half * along.x};
    out_ += "<polygon fill=\"" + color + "\" stroke=\"" + color + "\" points=\"" +
            at({base.x + side.x, base.y + side.y}) + " " + at(tip) + " " +
            at({base.x - side.x, base.y - side.y}) + "\"/>\n";
  }

  // How far from the middle a line stands where several have the same ends.
  double beside(std::size_t i, double width) const {
    int before = 0, all = 0;
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      if (graph_.edges[e].from != graph_.edges[i].from || graph_.edges[e].to != graph_.edges[i].to)
        continue;
      before += e < i;
      ++all;
    }
    return (before - (all - 1) / 2.0) * std::min(36.0, (width - 16) / all);
  }

  void edge(std::size_t i) {
    const DotEdge& e = graph_.edges[i];
    const DotAttributes& a = e.attributes;
    const LayoutBox &from = boxes_[static_cast<std::size_t>(e.from)],
                    &to = boxes_[static_cast<std::size_t>(e.to)];
    const std::string title = graph_.nodes[static_cast<std::size_t>(e.from)].name + "->" +
                              graph_.nodes[static_cast<std::size_t>(e.to)].name;
    const std::string color = escaped(a.text("color", "black"));
    const bool back = a.text("dir") == "back";
    const bool head = !back && a.text("arrowhead") != "none";
    const double twice =
        graph_.nodes[static_cast<std::size_t>(e.from)].attributes.number("peripheries", 1) > 1 ? 4
                                                                                               : 0;
    const double shift = beside(i, std::min(from.width, to.width));
    const Point begin{from.x + from.width / 2 + shift, from.y + from.height + twice};
    const bool up = to.y < from.y + from.height;
    // A weak line into the middle of a column comes from the side.
    const double middle = to.x + to.width / 2 + shift;
    const bool aside = a.number("weight", 1) == 0 && lines_[i].empty() &&
                       std::abs(begin.x - middle) > to.width / 2 + 12;
    const double outer =
        graph_.nodes[static_cast<std::size_t>(e.to)].attributes.number("peripheries", 1) > 1 ? 4
                                                                                             : 0;
    Point end{middle, up ? to.y + to.height : to.y - outer};
    Point into{0, up ? -1.0 : 1.0};
    if (aside) {
      const bool from_right = begin.x > middle;
      end = {from_right ? to.x + to.width + outer : to.x - outer, to.y + to.height / 2};
      into = {from_right ? -1.0 : 1.0, 0};
    }
    const Point tip = end;
    if (head) end = {end.x - arrow_length * into.x, end.y - arrow_length * into.y};
    const Point start{begin.x, begin.y + (back ? arrow_length : 0)};
    std::string d = "M" + at(start);
    Point last = start;
    const auto curve = [&](Point next) {
      const double half = (next.y - last.y) / 2;
      d += "C" + at({last.x, last.y + half}) + " " + at({next.x, next.y - half}) + " " + at(next);
      last = next;
    };
    for (const auto& pass : lines_[i]) {
      curve({pass.x, pass.top});
      d += "L" + at({pass.x, pass.bottom});
      last = {pass.x, pass.bottom};
    }
    if (aside)
      d += "Q" + at({last.x, end.y}) + " " + at(end);
    else
      curve(end);
    open("edge" + std::to_string(i + 1), "edge", title, a);
    out_ += "<path fill=\"none\"" + stroke(a, color) + " d=\"" + d + "\"/>\n";
    if (head) arrow(tip, into, color);
    if (back) arrow(begin, {0, -1}, color);
    if (const Label label = label_of(a); !label.lines.empty())
      text(label,
           {(start.x + end.x) / 2 + (shift < 0 ? -2 - label.width() : 2),
            (start.y + end.y - label.height()) / 2},
           label.width(), true);
    close();
  }

  const DotGraph graph_;
  std::vector<LayoutBox> boxes_, frames_;  // of nodes and clusters
  std::vector<Lines> lines_;               // of edges: the rows that they cross
  std::map<std::size_t, int> line_in_;     // an edge's cluster: where its rows are
  std::vector<Label> labels_;
  std::string out_;
};

}  // namespace

std::string svg_of_dot(const std::string& dot) { return Drawing(dot).draw(); }

}  // namespace sluice
