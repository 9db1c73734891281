// What it takes to keep a stream's whole data where a cache stands: in memory, in files or on the
// GPU, each at a price that is measured here and now.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/judge/advice.h"

namespace sluice {

struct WholeData {
  struct Store {
    std::uint64_t room = 0;  // bytes that it may take there
    double ms_a_sample = 0;  // memory: to read it; files: to read one that no page cache holds;
                             // GPU: to copy it there, once
  };
  std::string cache, source;
  std::int64_t samples = 0;
  double bytes_each = 0;
  double made_ms = 0;  // a sample: the bodies between source and cache
  Store memory, disk;
  std::optional<Store> gpu;  // nullopt: there is none

  double bytes() const { return bytes_each * static_cast<double>(samples); }
  // "memory", "disk" or "none": the cheapest that holds all and costs less than to make it anew.
  std::string best() const;
};

// Of each cache that kept samples, `bytes_kept` each, in the graph's order. Writes and removes a
// file of one sample's size in the caches' folder.
std::vector<WholeData> whole_data(const Plan& plan, const Figures& figures,
                                  const std::map<std::string, double>& bytes_kept,
                                  const Room& room);

void print_whole_data(const std::vector<WholeData>& all);
Json to_json(const std::vector<WholeData>& all);

}  // namespace sluice
