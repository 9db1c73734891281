// `sluice cache list` and `sluice cache prune`: what the folder of disk caches holds, and room in
// it.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "engine/cache/cache_folder.h"
#include "tools/cli/cli.h"
#include "tools/cli/shape.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr double day_ns = 24 * 3600 * 1e9;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string in_bytes(std::uint64_t n) {
  static constexpr const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(n);
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

// What one chain of nodes left.
struct Row {
  std::uint64_t entries = 0, bytes = 0;
  std::int64_t used_ns = 0;
};

Json json_of(const std::map<std::string, Row>& rows) {
  Json all = Json::array();
  for (const auto& [nodes, row] : rows)
    all.push_back({{"nodes", nodes},
                   {"entries", row.entries},
                   {"bytes", row.bytes},
                   {"days_unused", static_cast<double>(now_ns() - row.used_ns) / day_ns}});
  return all;
}

int list(const fs::path& folder, const Options& o) {
  std::map<std::string, Row> rows;
  std::uint64_t entries = 0, bytes = 0;
  std::vector<std::string> damaged;
  for (const CachedFile& f : cached_files(folder)) {
    const auto header = read_header(f.path);
    const auto key = CacheKey::from_hex(f.path.filename().string());
    const bool bad = !header || (o.verify && !read_entry(f.path, *key));
    if (bad) damaged.push_back(f.path.string());
    Row& row = rows[bad ? "damaged" : header->value("nodes", std::string())];
    ++row.entries;
    row.bytes += f.bytes;
    row.used_ns = std::max(row.used_ns, f.used_ns);
    ++entries;
    bytes += f.bytes;
  }
  if (o.json) {
    std::cout << dump({{"folder", folder.string()},
                       {"entries", entries},
                       {"bytes", bytes},
                       {"damaged", damaged},
                       {"made_by", json_of(rows)}});
    return damaged.empty() ? code(Exit::done) : code(Exit::data);
  }
  std::printf("%s: %llu entries, %s\n", folder.c_str(), static_cast<unsigned long long>(entries),
              in_bytes(bytes).c_str());
  if (!rows.empty()) std::printf("  entries      bytes  days unused  what stands in front\n");
  for (const auto& [nodes, row] : rows)
    std::printf("  %7llu %10s %12.1f  %s\n", static_cast<unsigned long long>(row.entries),
                in_bytes(row.bytes).c_str(), static_cast<double>(now_ns() - row.used_ns) / day_ns,
                nodes.c_str());
  std::fflush(stdout);
  for (const auto& file : damaged) print_error(file + ": not as it was written");
  return damaged.empty() ? code(Exit::done) : code(Exit::data);
}

int prune(const fs::path& folder, const Options& o) {
  const bool kept = is_cache_folder(folder);
  Pruned bad;
  if (o.verify && kept)
    for (const CachedFile& f : cached_files(folder)) {
      const auto key = CacheKey::from_hex(f.path.filename().string());
      if (read_entry(f.path, *key) || ::unlink(f.path.c_str()) != 0) continue;
      ++bad.entries;
      bad.bytes += f.bytes;
    }
  std::optional<std::int64_t> since;
  if (o.days) since = now_ns() - static_cast<std::int64_t>(*o.days * day_ns);
  Pruned done = kept ? prune_cache(folder, o.budget, since) : Pruned();
  done.entries += bad.entries;
  done.bytes += bad.bytes;
  if (o.json)
    std::cout << dump({{"folder", folder.string()},
                       {"removed", {{"entries", done.entries}, {"bytes", done.bytes}}},
                       {"damaged", bad.entries},
                       {"left", {{"entries", done.left_entries}, {"bytes", done.left_bytes}}}});
  else
    std::printf("removed %llu entries, %s; %llu are left, %s\n",
                static_cast<unsigned long long>(done.entries), in_bytes(done.bytes).c_str(),
                static_cast<unsigned long long>(done.left_entries),
                in_bytes(done.left_bytes).c_str());
  return code(Exit::done);
}

}  // namespace

int cache(const Options& o) {
  if (o.name != "list" && o.name != "prune") {
    const std::string hint = did_you_mean(o.name, {"list", "prune"});
    print_error("cache can list and prune, not " + o.name + (hint.empty() ? "" : "; " + hint));
    return code(Exit::usage);
  }
  if (o.name == "prune" && !o.budget && !o.days && !o.verify) {
    print_error("cache prune: --budget, --days or --verify says what to remove");
    return code(Exit::usage);
  }
  const fs::path folder = o.data.empty() ? default_cache_folder() : fs::path(o.data);
  if (!is_cache_folder(folder) && !o.data.empty()) {
    print_error(folder.string() + " is no folder of a cache");
    return code(Exit::usage);
  }
  if (!is_cache_folder(folder) && !o.json) {
    std::printf("%s: no cache has been kept there yet\n", folder.c_str());
    return code(Exit::done);
  }
  return o.name == "list" ? list(folder, o) : prune(folder, o);
}

}  // namespace sluice::cli
