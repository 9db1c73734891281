#include <doctest/doctest.h>

#include "tools/live/live_file.h"

using namespace sluice;

TEST_CASE("live.json holds the view, and of too many nodes the busiest") {
  live::View v;
  v.epoch = 2;
  v.epochs = 5;
  v.rate = 41.5;
  for (int i = 0; i < 4; ++i) {
    live::NodeRow row;
    row.path = "n" + std::to_string(i);
    row.busy = 0.25 * i;
    v.rows.push_back(row);
  }
  Json j = Json::parse(live::live_text(v, Json{{"pid", 7}}));
  CHECK(j["epoch"] == 2);
  CHECK(j["rate"] == 41.5);
  CHECK(j["loss"].is_null());
  CHECK(j["pid"] == 7);
  CHECK(j["nodes"].size() == 4);
  CHECK(j["nodes"][3]["busy"] == 0.75);
  for (int i = 0; i < 2000; ++i) v.rows.push_back(v.rows[static_cast<std::size_t>(i % 4)]);
  const std::string text = live::live_text(v, Json::object());
  CHECK(text.size() <= live::most_live_bytes);
  j = Json::parse(text);
  CHECK(j["nodes"].size() > 20);
  for (const Json& node : j["nodes"]) CHECK(node["busy"] == 0.75);
}
