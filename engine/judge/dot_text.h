// The words and colours of the picture (dot.h): escaping, numbers, what flows along an edge.
//
// Invariant: what comes from a graph file never ends a DOT string or an HTML label, and holds no
// control character, which no XML may have.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace sluice::dot {

struct LaneStyle {
  const char *name, *line, *fill, *busy;  // busy: the part of the fill that a measured share takes
};
const LaneStyle& style_of(LaneKind lane);

inline constexpr const char* ink = "#1F2933";
inline constexpr const char* faint = "#7B8794";
inline constexpr const char* edge = "#52606D";
inline constexpr const char* network = "#A8662A";
inline constexpr const char* alarm = "#C0392B";

std::string html(const std::string& text);   // escaped, for HTML-like labels
std::string quote(const std::string& text);  // a quoted DOT string; line ends are \n
std::string url(const std::string& path);    // of a file: what no URL may hold is %XX
std::string small(const std::string& text, const char* color = faint);  // `text` is HTML
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

std::string percent(double share);
std::string rate(double r);  // 0.83, 41.8, 336
std::string milliseconds(double ms);
std::string short_json(const Json& value);

// "image, label f32 [4,1,64,64,64]": the fields that leave a node and are not as they came, a line
// for each kind; at most `most` lines.
std::vector<std::string> changed_fields(const Plan& plan, int node, std::size_t most);
// All of them, "image float32 [4, 1, 64, 64, 64]".
std::string all_fields(const Flow& flow);

}  // namespace sluice::dot
