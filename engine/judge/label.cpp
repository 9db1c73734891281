#include "engine/judge/label.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "engine/base/utf8.h"

namespace sluice {
namespace {

// Adobe's widths of Helvetica from U+0020 to U+007E, thousandths of the size.
constexpr std::array<short, 95> widths{
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};

std::string utf8(std::uint32_t code) {
  std::string out;
  if (code < 0x80) return {static_cast<char>(code)};
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array<unsigned, 4> first{0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(first[static_cast<std::size_t>(more)] | (code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  return out;
}

// "&amp;" or "&#9632;" at `at`, which moves behind it.
std::string entity(const std::string& text, std::size_t& at) {
  const std::size_t end = text.find(';', at);
  if (end == text.npos) return text.substr(at++, 1);
  const std::string name = text.substr(at + 1, end - at - 1);
  at = end + 1;
  if (name.starts_with('#'))
    return utf8(static_cast<std::uint32_t>(std::strtoul(name.c_str() + 1, nullptr, 10)));
  return name == "amp" ? "&" : name == "lt" ? "<" : name == "gt" ? ">" : "\"";
}

// The value of an attribute within a tag.
std::string within(const std::string& tag, const std::string& name) {
  const std::size_t at = tag.find(name + "=\"");
  if (at == tag.npos) return "";
  const std::size_t begin = at + name.size() + 2;
  return tag.substr(begin, tag.find('"', begin) - begin);
}

Label read_markup(const std::string& text, LabelRun plain) {
  Label label{{{}}};
  std::vector<LabelRun> style{plain};  // of the elements that are open
  const auto add = [&](const std::string& piece) {
    auto& runs = label.lines.back().runs;
    const LabelRun& now = style.back();
    if (runs.empty() || runs.back().size != now.size || runs.back().bold != now.bold ||
        runs.back().color != now.color)
      runs.push_back(now);
    runs.back().text += piece;
  };
  const auto new_line = [&] {
    if (!label.lines.back().runs.empty()) label.lines.emplace_back();
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      add(entity(text, at));
    } else if (text[at] != '<') {
      add(text.substr(at++, 1));
    } else {
      const std::size_t end = std::min(text.find('>', at), text.size());
      const std::string tag = text.substr(at + 1, end - at - 1);
      at = end + 1;
      if (tag == "b" || tag.starts_with("font")) {
        style.push_back(style.back());
        if (tag == "b") style.back().bold = true;
        if (const auto size = within(tag, "point-size"); !size.empty())
          style.back().size = std::strtod(size.c_str(), nullptr);
        if (const auto color = within(tag, "color"); !color.empty()) style.back().color = color;
      } else if (tag == "/b" || tag == "/font") {
        if (style.size() > 1) style.pop_back();
      } else if (tag.starts_with("br") || tag == "tr") {
        new_line();
      }
    }
  }
  if (label.lines.back().runs.empty()) label.lines.pop_back();
  return label;
}

}  // namespace

double LabelRun::width() const {
  double thousandths = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const Character c = first_character(rest);
    const bool known = c.code >= 32 && c.code < 127;
    thousandths += known ? widths[c.code - 32] : 600;
    rest.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  constexpr double room = 1.08;  // what stands for Helvetica is often wider
  return thousandths * size / 1000 * (bold ? 1.07 : 1) * room;
}

double LabelLine::width() const {
  double all = 0;
  for (const LabelRun& run : runs) all += run.width();
  return all;
}

double LabelLine::height() const {
  double most = 0;
  for (const LabelRun& run : runs) most = std::max(most, run.size);
  return 1.15 * most;
}

double Label::width() const {
  double most = 0;
  for (const LabelLine& line : lines) most = std::max(most, line.width());
  return most;
}

double Label::height() const {
  double all = 0;
  for (const LabelLine& line : lines) all += line.height();
  return all;
}

Label read_label(const DotValue& value, double size, const std::string& color) {
  const LabelRun plain{"", size, color, false};
  if (value.is_html) return read_markup(value.text, plain);
  Label label;
  for (std::size_t at = 0; at < value.text.size();) {
    const std::size_t end = std::min(value.text.find('\n', at), value.text.size());
    LabelRun run = plain;
    run.text = value.text.substr(at, end - at);
    label.lines.push_back({{run}});
    at = end + 1;
  }
  return label;
}

}  // namespace sluice
