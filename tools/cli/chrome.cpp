#include "tools/cli/chrome.h"

#include <algorithm>

namespace sluice::cli {

static Json name_of(std::uint64_t track, const std::string& name) {
  return {
      {"ph", "M"}, {"pid", 1}, {"tid", track}, {"name", "thread_name"}, {"args", {{"name", name}}}};
}

static double us(std::uint64_t ns) { return static_cast<double>(ns) / 1e3; }

void chrome_events(const TraceData& data, const Window& window,
                   const std::function<void(const Json&)>& each) {
  for (const auto& [track, name] : data.threads) each(name_of(track, name));
  for (const TraceSlice& s : data.slices) {
    if (s.begin < window.begin || s.begin >= window.end) continue;
    Json args = {{"epoch", s.epoch}, {"index", s.index}, {"child", s.child}};
    if (!s.sample.empty()) args["sample"] = s.sample;
    Json j = {{"ph", s.is_instant ? "i" : "X"},
              {"pid", 1},
              {"tid", s.track},
              {"name", s.name},
              {"ts", us(s.begin)},
              {"args", args}};
    if (!s.is_instant) j["dur"] = s.end > s.begin ? us(s.end - s.begin) : 0;
    each(j);
  }
}

Window middle_of(const TraceData& data, std::size_t most) {
  if (data.slices.empty()) return {};
  const std::uint64_t middle = data.slices[data.slices.size() / 2].begin;
  const auto count = [&](const Window& w) {
    return static_cast<std::size_t>(
        std::count_if(data.slices.begin(), data.slices.end(),
                      [&](const TraceSlice& s) { return s.begin >= w.begin && s.begin < w.end; }));
  };
  Window w;
  for (std::uint64_t half = 500'000'000; half > 0; half /= 2) {
    w = {middle - std::min(middle, half), middle + half};
    if (count(w) <= most) break;
  }
  return w;
}

}  // namespace sluice::cli
