#include "engine/judge/dot_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "engine/base/message.h"

namespace sluice::dot {

const LaneStyle& style_of(LaneKind lane) {
  static constexpr std::array<LaneStyle, 4> lanes{{
      {"compute", "#4A7FC9", "#E8F0FB", "#B5D0F2"},
      {"io", "#7B8794", "#F0F2F4", "#CBD2D9"},
      {"step", "#2F8F56", "#E3F4E9", "#A6DCB8"},
      {"copy", "#8B62BF", "#F1EAF9", "#D5C0EC"},
  }};
  return lanes[static_cast<std::size_t>(lane)];
}

// ---- escaping -----------------------------------------------------------------------------------

std::string html(const std::string& text) {
  std::string out;
  for (char c : printable(text, true)) {
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

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (char c : printable(text, true)) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

// Also what XML may not hold, since Graphviz writes a URL as it is; and ":", before which a scheme
// would stand.
std::string url(const std::string& path) {
  static constexpr char digits[] = "0123456789ABCDEF", plain[] = "-._~/";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool stays = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::string_view(plain).find(c) != std::string_view::npos;
    if (stays)
      out += c;
    else
      out += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

std::string small(const std::string& text, const char* color) {
  return "<font point-size=\"9\" color=\"" + std::string(color) + "\">" + text + "</font>";
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(line);
      line = word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    at = end + 1;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

// ---- numbers ------------------------------------------------------------------------------------

static std::string form(const char* format, double value) {
  char out[64];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + "%"; }
std::string rate(double r) { return form(r < 1 ? "%.2f" : r < 100 ? "%.1f" : "%.0f", r); }
std::string milliseconds(double ms) {
  if (ms >= 999.5) return form("%.1f s", ms / 1e3);
  return form(ms < 0.995 ? "%.2f ms" : ms < 9.95 ? "%.1f ms" : "%.0f ms", ms);
}

std::string short_json(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t most = 120;
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// ---- fields -------------------------------------------------------------------------------------

// "float32 [4, 1, 64]" -> "f32 [4,1,64]"
static std::string terse(std::string text) {
  static const std::array<std::pair<const char*, const char*>, 9> names{{{"bfloat16", "bf16"},
                                                                         {"float16", "f16"},
                                                                         {"float32", "f32"},
                                                                         {"float64", "f64"},
                                                                         {"uint8", "u8"},
                                                                         {"int16", "i16"},
                                                                         {"int32", "i32"},
                                                                         {"int64", "i64"},
                                                                         {", ", ","}}};
  for (const auto& [from, to] : names) {
    const std::string word = from;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), to);
  }
  return text;
}

std::vector<std::string> changed_fields(const Plan& plan, int node, std::size_t most) {
  const PlanNode& n = plan.nodes[static_cast<std::size_t>(node)];
  const Flow* before = n.inputs.empty()
                           ? nullptr
                           : &plan.nodes[static_cast<std::size_t>(n.inputs.front().from)].flow;
  std::vector<std::pair<std::string, std::string>> kinds;  // what, of which fields
  for (const FieldInfo& f : n.flow.fields) {
    const std::string what = f.text(n.flow.batch);
    const FieldInfo* was = before ? before->find(f.name) : nullptr;
    if (was && was->text(before->batch) == what) continue;
    auto it = std::find_if(kinds.begin(), kinds.end(), [&](auto& k) { return k.first == what; });
    if (it == kinds.end())
      kinds.emplace_back(what, f.name);
    else
      it->second += ", " + f.name;
  }
  std::vector<std::string> lines;
  for (const auto& [what, names] : kinds) {
    if (lines.size() + 1 == most && kinds.size() > most) {
      lines.push_back("...");
      break;
    }
    std::string line = names;
    auto cut = line.rfind(',', 25);
    if (cut == line.npos) cut = line.find(',');
    if (line.size() > 28 && cut != line.npos) line = line.substr(0, cut) + ", ...";
    lines.push_back(line + (what.empty() ? "" : " " + terse(what)));
  }
  return lines;
}

std::string all_fields(const Flow& flow) {
  std::string out;
  for (const FieldInfo& f : flow.fields)
    out += "\n" + f.name + " " + f.text(flow.batch) + (f.maybe ? " (not in all)" : "");
  return out;
}

}  // namespace sluice::dot
