#include "tools/live/live_file.h"

#include <algorithm>
#include <cmath>

namespace sluice::live {
namespace {

Json rounded(double v) { return std::isfinite(v) ? Json(std::round(v * 1e4) / 1e4) : Json(); }
Json of(const std::optional<double>& v) { return v && std::isfinite(*v) ? Json(*v) : Json(); }

Json to_json(const View& v, const Json& process) {
  Json j = {{"epoch", v.epoch},
            {"epochs", v.epochs},
            {"validating", v.validating},
            {"steps", v.steps},
            {"bad", v.bad},
            {"share", of(v.share)},
            {"rate", of(v.rate)},
            {"loss", of(v.loss)},
            {"metric", v.metric},
            {"metric_mode", v.metric_mode},
            {"metric_last", of(v.metric_last)},
            {"metric_best", of(v.metric_best)},
            {"eta_s", of(v.eta_s)},
            {"state", v.state},
            {"bottleneck", v.bottleneck},
            {"advice", v.advice},
            {"nodes", Json::array()}};
  j.update(process);
  for (const NodeRow& r : v.rows)
    j["nodes"].push_back({{"path", r.path},
                          {"busy", rounded(r.busy)},
                          {"rate", rounded(r.rate)},
                          {"queue", r.queue},
                          {"room", r.room}});
  return j;
}

}  // namespace

std::string live_text(View view, const Json& process) {
  for (;;) {
    std::string text =
        to_json(view, process).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (text.size() <= most_live_bytes || view.rows.empty()) return text;
    std::vector<double> busy;
    for (const NodeRow& r : view.rows) busy.push_back(r.busy);
    const auto middle = busy.begin() + static_cast<std::ptrdiff_t>(busy.size() / 2);
    std::nth_element(busy.begin(), middle, busy.end());
    const std::size_t keep = busy.size() / 2;
    std::erase_if(view.rows, [&](const NodeRow& r) { return r.busy < *middle; });
    if (view.rows.size() > keep) view.rows.resize(keep);
  }
}

}  // namespace sluice::live
