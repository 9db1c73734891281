// More processes than shards of a step: said by who starts them, and by each that a launcher
// started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

// `shards`: run.shards; none: as many as processes. "" where each process has one.
inline std::string too_few_shards(const std::optional<std::int64_t>& shards, int processes) {
  if (!shards || *shards >= processes) return "";
  return "these are " + std::to_string(processes) + " processes, but run.shards is " +
         std::to_string(*shards) + ": at most one process a shard";
}

}  // namespace sluice
