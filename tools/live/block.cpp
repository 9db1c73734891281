#include "tools/live/block.h"

#include <algorithm>
#include <cmath>

#include "tools/live/text.h"

namespace sluice::live {
namespace {

constexpr int most_lines = 12;
constexpr int bar_width = 20, busy_width = 10;

// A piece of a line; the colour's codes take no columns.
struct Piece {
  std::string text;
  const char* color = "";
};
constexpr const char* bold = "1";
constexpr const char* dim = "2";
constexpr const char* good = "32";
constexpr const char* warn = "33";
constexpr const char* bad = "31";

class Line {
 public:
  explicit Line(const Style& style) : style_(style) {}
  int used() const { return used_; }
  int room() const { return style_.width - used_; }
  void add(const std::string& text, const char* color = "") {
    const std::string fits = cut(text, room(), style_.utf8);
    used_ += columns(fits);
    const bool colored = style_.color && *color && !fits.empty();
    out_ += colored ? "\033[" + std::string(color) + "m" + fits + "\033[0m" : fits;
  }
  std::string str() && { return std::move(out_); }

 private:
  Style style_;
  std::string out_;
  int used_ = 0;
};

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  return std::to_string(std::lround(100 * std::clamp(share, 0.0, 1.0))) + "%";
}

std::string repeated(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// ━━━━━━╸───
void progress_bar(Line& line, double share, const Style& style) {
  const double cells = std::clamp(std::isfinite(share) ? share : 0, 0.0, 1.0) * bar_width;
  const int full = static_cast<int>(cells);
  const bool half = cells - full >= 0.5 && full < bar_width;
  line.add(repeated(style.utf8 ? "━" : "=", full) + (half ? style.utf8 ? "╸" : ">" : ""), good);
  line.add(repeated(style.utf8 ? "─" : "-", bar_width - full - half), dim);
}

// ---- the head -----------------------------------------------------------------------------------

std::vector<Piece> head_pieces(const View& v) {
  std::vector<Piece> out;
  if (v.rate) out.push_back({figure(*v.rate) + " samples/s"});
  if (v.eta_s) out.push_back({"eta " + duration(*v.eta_s)});
  if (v.loss) out.push_back({"loss " + score(*v.loss), std::isfinite(*v.loss) ? "" : bad});
  if (v.metric_last) {
    std::string text = printable(v.metric) + " " + score(*v.metric_last);
    if (v.metric_best && *v.metric_best != *v.metric_last)
      text += " (best " + score(*v.metric_best) + ")";
    out.push_back({text});
  }
  if (v.bad > 0) out.push_back({"bad " + std::to_string(v.bad), warn});
  if (!v.state.empty()) out.push_back({v.state, warn});
  return out;
}

// The head takes a second line where the first has no room; what still has none is left out.
std::vector<std::string> head(const View& v, const Style& style) {
  std::vector<std::string> lines;
  Line line(style);
  line.add((v.validating ? "validation " : "epoch ") + std::to_string(v.epoch) + "/" +
               std::to_string(v.epochs),
           bold);
  if (v.share) {
    if (style.width >= 60) {
      line.add("  ");
      progress_bar(line, *v.share, style);
    }
    line.add("  " + right_aligned(percent(*v.share), 4));
  }
  bool second = false;
  for (const Piece& p : head_pieces(v)) {
    const int gap = line.used() > 2 ? 3 : 0;
    if (columns(p.text) + gap > line.room()) {
      if (second) continue;
      second = true;
      lines.push_back(std::move(line).str());
      line = Line(style);
      line.add("  ");
    }
    if (line.used() > 2) line.add("   ");
    line.add(p.text, p.color);
  }
  lines.push_back(std::move(line).str());
  return lines;
}

// ---- the nodes ----------------------------------------------------------------------------------

std::string queue_text(const NodeRow& r) {
  return std::to_string(r.queue) + (r.room > 0 ? "/" + std::to_string(r.room) : "");
}

struct Widths {
  int name = 4, rate = 0, p99 = 0, queue = 0;
};

// Columns as wide as their texts; where the terminal is too narrow the last ones go.
Widths widths(const View& v, const Style& style) {
  Widths w;
  for (const NodeRow& r : v.rows) {
    w.name = std::max(w.name, columns(printable(r.path)));
    w.rate = std::max(w.rate, columns(figure(r.rate)) + 2);
    w.p99 = std::max(w.p99, columns(milliseconds(r.p99_ms)));
    w.queue = std::max(w.queue, columns(queue_text(r)));
  }
  w.name = std::min(w.name, std::max(8, style.width - 52));
  const int bar = style.width >= 50 ? busy_width + 1 : 0;
  int room = style.width - 2 - w.name - 5 - bar;
  const auto keep = [&room](int& width, int more) {
    if (room >= width + more)
      room -= width + more;
    else
      width = 0;
  };
  keep(w.rate, 2);
  keep(w.queue, 4);
  keep(w.p99, 6);
  return w;
}

const char* busy_color(const NodeRow& r) { return r.limits ? bad : r.busy >= 0.6 ? warn : good; }

std::string row(const NodeRow& r, const Widths& w, const Style& style, const std::string& advice) {
  Line line(style);
  line.add("  ");
  line.add(padded(cut(printable(r.path), w.name, style.utf8, true), w.name), r.limits ? bold : "");
  line.add(right_aligned(percent(r.busy), 5), r.limits ? bold : "");
  if (style.width >= 50) {
    const double share = std::isfinite(r.busy) ? std::clamp(r.busy, 0.0, 1.0) : 0;
    const int full = static_cast<int>(std::lround(share * busy_width));
    line.add(" ");
    line.add(repeated(style.utf8 ? "■" : "#", full), busy_color(r));
    line.add(std::string(static_cast<std::size_t>(busy_width - full), ' '));
  }
  if (w.rate) line.add("  " + right_aligned(figure(r.rate) + "/s", w.rate));
  if (w.p99) {
    line.add("  p99 ", dim);
    line.add(right_aligned(milliseconds(r.p99_ms), w.p99));
  }
  if (w.queue) {
    line.add("  q ", dim);
    line.add(right_aligned(queue_text(r), w.queue));
  }
  if (!r.limits) return std::move(line).str();
  const std::string mark = style.utf8 ? "  ◀ " : "  < ";
  const bool whole = columns(mark + advice) <= line.room();
  line.add(mark + (whole && !advice.empty() ? advice : "limits"), bad);
  return std::move(line).str();
}

}  // namespace

std::vector<std::string> block(const View& view, const Style& style) {
  std::vector<std::string> lines = head(view, style);
  const int most = std::min(most_lines, style.height);
  const std::string advice = style.utf8 ? view.advice : [&] {
    std::string text = view.advice;
    for (auto at = text.find("→"); at != std::string::npos; at = text.find("→"))
      text.replace(at, std::string("→").size(), "->");
    return text;
  }();
  const Widths w = widths(view, style);
  bool told = advice.empty() || view.bottleneck.empty();
  for (const NodeRow& r : view.rows) {
    if (static_cast<int>(lines.size()) >= most) break;
    lines.push_back(row(r, w, style, advice));
    told |= lines.back().find(advice) != std::string::npos;
  }
  if (!told && static_cast<int>(lines.size()) < most) {
    Line line(style);
    line.add("  " + printable(view.bottleneck) + ": " + advice, bad);
    lines.push_back(std::move(line).str());
  }
  if (static_cast<int>(lines.size()) > most)
    lines.resize(static_cast<std::size_t>(std::max(most, 0)));
  return lines;
}

// ---- the plain line -----------------------------------------------------------------------------

// A value that ends at a blank: what holds one is quoted.
static std::string value(const std::string& text) {
  std::string safe = printable(text);
  std::replace(safe.begin(), safe.end(), '"', '\'');
  return safe.find_first_of(" =") == std::string::npos ? safe : "\"" + safe + "\"";
}

std::string plain_line(const View& v, const std::string& time) {
  std::string out = time + " epoch=" + std::to_string(v.epoch);
  if (v.validating) out += " phase=validation";
  if (v.steps > 0) out += " step=" + std::to_string(v.steps);
  if (v.rate) out += " samples_per_s=" + figure(*v.rate);
  if (v.loss) out += " loss=" + score(*v.loss);
  if (v.metric_last) out += " " + value(v.metric) + "=" + score(*v.metric_last);
  if (!v.bottleneck.empty()) out += " bottleneck=" + value(v.bottleneck);
  if (v.eta_s && std::isfinite(*v.eta_s)) {
    const double s = std::clamp(*v.eta_s, 0.0, 1e12);
    out += " eta_s=" + std::to_string(std::llround(s));
  }
  if (v.bad > 0) out += " bad=" + std::to_string(v.bad);
  return out;
}

}  // namespace sluice::live
