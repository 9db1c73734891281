#include "tools/live/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "engine/base/utf8.h"

namespace sluice::live {
namespace {

struct Range {
  std::uint32_t from, to;
};
constexpr std::array<Range, 7> zero{{{0x300, 0x36F},
                                     {0x483, 0x489},
                                     {0x200B, 0x200F},
                                     {0x202A, 0x202E},
                                     {0x20D0, 0x20FF},
                                     {0xFE00, 0xFE0F},
                                     {0xFE20, 0xFE2F}}};
constexpr std::array<Range, 8> wide{{{0x1100, 0x115F},
                                     {0x2E80, 0xA4CF},
                                     {0xAC00, 0xD7A3},
                                     {0xF900, 0xFAFF},
                                     {0xFE30, 0xFE6F},
                                     {0xFF00, 0xFF60},
                                     {0x1F300, 0x1FAFF},
                                     {0x20000, 0x3FFFD}}};

template <std::size_t N>
bool in(const std::array<Range, N>& ranges, std::uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](Range r) { return code >= r.from && code <= r.to; });
}

int width_of(Character c) {
  if (c.bytes == 0) return 1;
  return in(zero, c.code) ? 0 : in(wide, c.code) ? 2 : 1;
}

std::string form(const char* format, double value) {
  char out[64];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

// The longest front of `text` with at most `width` columns.
std::string_view front(std::string_view text, int width) {
  std::size_t at = 0;
  for (int used = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    used += width_of(c);
    if (used > width) break;
    at += std::max<std::size_t>(c.bytes, 1);
  }
  return text.substr(0, at);
}

}  // namespace

int columns(std::string_view text) {
  int n = 0;
  while (!text.empty()) {
    const Character c = first_character(text);
    n += width_of(c);
    text.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  return n;
}

std::string cut(std::string_view text, int width, bool utf8, bool middle) {
  if (columns(text) <= width) return std::string(text);
  if (width <= 0) return "";
  const std::string mark = utf8 ? "…" : "~";
  const int left = middle ? (width - 1) / 2 : width - 1;
  std::string out = std::string(front(text, left)) + mark;
  if (!middle) return out;
  std::string_view rest = text;
  while (columns(rest) > width - 1 - left)
    rest.remove_prefix(std::max<std::size_t>(first_character(rest).bytes, 1));
  return out + std::string(rest);
}

std::string padded(std::string text, int width) {
  const int missing = width - columns(text);
  return missing > 0 ? text + std::string(static_cast<std::size_t>(missing), ' ') : text;
}

std::string right_aligned(std::string text, int width) {
  const int missing = width - columns(text);
  return missing > 0 ? std::string(static_cast<std::size_t>(missing), ' ') + text : text;
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const auto t = static_cast<long long>(std::min(seconds, 1e12) + 0.5);
  char out[64];
  if (t < 60)
    std::snprintf(out, sizeof out, "%lld s", t);
  else if (t < 3600)
    std::snprintf(out, sizeof out, "%lld min %02lld s", t / 60, t % 60);
  else if (t < 48 * 3600)
    std::snprintf(out, sizeof out, "%lld h %02lld min", t / 3600, t / 60 % 60);
  else
    std::snprintf(out, sizeof out, "%lld d %lld h", t / 86400, t / 3600 % 24);
  return out;
}

std::string figure(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  return form(size < 9.995 ? "%.2f" : size < 99.95 ? "%.1f" : size < 1e6 ? "%.0f" : "%.2g", value);
}

std::string score(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return size != 0 && size < 1e-3 ? form("%.2g", value)
         : size < 10              ? form("%.4f", value)
                                  : figure(value);
}

std::string milliseconds(double ms) {
  if (!std::isfinite(ms)) return "-";
  return ms < 999.5 ? figure(ms) + " ms" : figure(ms / 1e3) + " s";
}

}  // namespace sluice::live
