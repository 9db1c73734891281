// Reads a run's traces back: slices by thread, and how samples flow through them.
//
// Invariant: whatever the file holds, reading ends; what is cut off at its end is left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice {

struct TraceSlice {
  std::uint64_t track = 0, begin = 0, end = 0;  // ns; end 0: not closed
  std::uint64_t took = 0;                       // without the passes in it that are slices too
  std::string name, sample;                     // sample: where a source names it
  std::string in;  // of a pass: the node in whose body `name`'s work was done
  std::uint64_t epoch = 0, index = 0, child = 0;
  std::vector<std::uint64_t> flows;  // the first goes on from here, the others end here
  bool is_instant = false;
};

struct TraceData {
  std::vector<std::pair<std::uint64_t, std::string>> threads;           // track -> name
  std::vector<TraceSlice> slices;                                       // by begin
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> of_flow;  // slices that name it
  std::map<std::string, std::vector<std::string>> inputs;  // node -> the nodes that it reads
  const std::string& thread(std::uint64_t track) const;
};

// Of a run's folder: rank 0's trace.pftrace, and those of other ranks' processes (ranks/N/). Of
// anything else: itself.
std::vector<std::string> trace_files(const std::filesystem::path& run);

// The run's one trace: the files' whole packets, one file's behind the other's. Throws IoError
// where one cannot be read, DataError where it is no trace.
std::string whole_trace(const std::vector<std::string>& files);
TraceData read_trace(const std::vector<std::string>& files);

// The slices that a sample goes through from `source` (an index of slices) on, in order; as long as
// the life takes, however long the trace is.
std::vector<std::size_t> life_of(const TraceData& data, std::size_t source);

// When the last of what a slice of a life works on had been sent to its node: the ends of the nodes
// that this one reads, whatever else the sample went through meanwhile. A source's, and a pass's
// within another body: its begin.
std::uint64_t ready_at(const TraceData& data, const std::vector<std::size_t>& life,
                       const TraceSlice& slice);

}  // namespace sluice
