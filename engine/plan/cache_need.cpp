#include "engine/plan/cache_need.h"

#include <algorithm>
#include <cstdio>

namespace sluice {
namespace {

std::uint64_t bytes_of(const std::string& dtype) {
  const auto digits = dtype.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::stoull(dtype.substr(digits)) / 8;
}

// Lower: an unknown number of channels counts as one. 0: not even that is known.
std::uint64_t bytes_of(const FieldInfo& f) {
  const bool volumes = f.form == Form::image || f.form == Form::batch;
  if (!volumes || f.maybe || f.extents.empty()) return 0;
  std::uint64_t bytes =
      bytes_of(f.dtype) * static_cast<std::uint64_t>(std::max<std::int64_t>(f.channels, 1));
  for (const std::int64_t extent : f.extents) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

// The least of the numbers that these parameters give, where they are numbers.
std::uint64_t least(const Json& params, std::initializer_list<const char*> names) {
  std::uint64_t n = 0;
  for (const char* name : names)
    if (params.contains(name) && params[name].is_number_integer()) {
      const auto value = params[name].get<std::uint64_t>();
      n = n == 0 ? value : std::min(n, value);
    }
  return n;
}

}  // namespace

bool keeps_for_later(const PlanNode& cache) {
  const std::string store = cache.graph->params.value("store", "memory");
  return store == "disk" || store == "auto";
}

PacketBytes packet_bytes(const Flow& flow) {
  PacketBytes all{.exact = !flow.open};
  for (const FieldInfo& f : flow.fields) {
    const std::uint64_t members =
        f.form != Form::batch ? 1 : static_cast<std::uint64_t>(flow.batch);
    const std::uint64_t bytes = bytes_of(f) * members;
    all.bytes += bytes;
    all.exact &= bytes > 0 && f.channels > 0;
  }
  return all;
}

CacheNeed cache_need(const Plan& plan, int cache) {
  const PlanNode& n = plan.nodes[static_cast<std::size_t>(cache)];
  CacheNeed need;
  need.narrow = n.narrow;
  const PacketBytes item = packet_bytes(n.flow);
  need.item_bytes = item.bytes;
  need.exact = item.exact;
  const auto stream = static_cast<std::size_t>(n.stream);
  const Json& source =
      plan.nodes[static_cast<std::size_t>(plan.streams[stream].source)].graph->params;
  need.items = least(n.graph->params, {"num", "cache_num"});
  const std::uint64_t listed = least(source, {"limit", "times"});
  if (listed > 0) need.items = need.items == 0 ? listed : std::min(need.items, listed);
  return need;
}

std::string in_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

std::string CacheNeed::text() const {
  if (item_bytes == 0) return "";
  const char* const bound = narrow ? (exact ? "at most " : "about ") : (exact ? "" : "at least ");
  std::string out = bound + in_bytes(static_cast<double>(item_bytes)) + " an item";
  if (items > 0)
    out +=
        ", " + in_bytes(static_cast<double>(item_bytes * items)) + " for " + std::to_string(items);
  return out;
}

}  // namespace sluice
