#include "engine/judge/timeline.h"

#include <algorithm>
#include <cmath>

namespace sluice {

Timeline::Timeline(const Plan& plan, Threads threads, double every_s, std::size_t most)
    : plan_(plan), threads_(threads), every_s_(every_s), most_(std::max<std::size_t>(most, 2)) {}

void Timeline::add(const std::vector<Reading>& now, double cpu_s, double bytes) {
  if (last_.size() != now.size()) {  // the first only says where the first stretch begins
    last_ = now;
    last_cpu_s_ = cpu_s;
    if (!now.empty()) first_ns_ = now.front().at_ns;
    return;
  }
  const Figures f = Figures::between(plan_, threads_, last_, now);
  Point p{static_cast<float>((cpu_s - last_cpu_s_) / std::max(f.wall_s, 1e-9)),
          static_cast<float>(bytes)};
  for (const NodeFigures& n : f.nodes)
    p.insert(p.end(), {static_cast<float>(n.busy), static_cast<float>(n.queue),
                       static_cast<float>(n.credits_out)});
  last_ = now;
  last_cpu_s_ = cpu_s;
  ++samples_;

  open_.resize(p.size(), 0);
  for (std::size_t i = 0; i < p.size(); ++i) open_[i] += p[i];
  if (++in_open_ < each_) return;
  for (float& v : open_) v /= static_cast<float>(in_open_);
  points_.push_back(std::move(open_));
  open_.clear();
  in_open_ = 0;
  if (points_.size() == most_) halve();
}

void Timeline::halve() {
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2) {
    Point& a = points_[i];
    for (std::size_t v = 0; v < a.size(); ++v) a[v] = (a[v] + points_[i + 1][v]) / 2;
    if (i > 0) points_[i / 2] = std::move(a);
  }
  if (points_.size() % 2 == 1) {  // begins the next point
    open_ = std::move(points_.back());
    for (float& v : open_) v *= static_cast<float>(each_);
    in_open_ = each_;
  }
  points_.resize(points_.size() / 2);
  each_ *= 2;
}

Json Timeline::to_json() const {
  // Few digits: the text is mostly these numbers.
  const auto column = [&](std::size_t at, double scale, double steps) {
    Json all = Json::array();
    for (const Point& p : points_) all.push_back(std::round(p[at] * scale * steps) / steps);
    return all;
  };
  Json nodes = Json::object();
  for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
    const std::size_t at = 2 + 3 * i;
    Json n = {{"busy", column(at, 1, 1000)}, {"queue", column(at + 1, 1, 10)}};
    if (plan_.nodes[i].credits > 0) {
      n["credits"] = column(at + 2, 1, 10);
      n["total"] = plan_.nodes[i].credits;
    }
    nodes[plan_.nodes[i].path()] = std::move(n);
  }
  double every_s = every_s_;
  if (samples_ > 0)
    every_s =
        static_cast<double>(last_.front().at_ns - first_ns_) * 1e-9 / static_cast<double>(samples_);
  return {{"interval_s", std::round(every_s * static_cast<double>(each_) * 1e4) / 1e4},
          {"cpu", column(0, 1, 100)},
          {"rss_mb", column(1, 1e-6, 1)},
          {"nodes", std::move(nodes)}};
}

}  // namespace sluice
