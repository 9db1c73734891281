// A trace in Chrome's JSON format (chrome://tracing), which the report draws too.
//
// Format: "Trace Event Format", Google; events "X" (a slice, ts and dur in us), "i", "M" (names).
#pragma once

#include <functional>
#include <limits>

#include "engine/graph/spec.h"
#include "engine/trace/trace_reader.h"

namespace sluice::cli {

struct Window {  // ns, as in the trace
  std::uint64_t begin = 0, end = std::numeric_limits<std::uint64_t>::max();
};

// Tells `each` of the traceEvents one by one, of the slices that begin in the window: there may be
// millions, which are not held at a time.
void chrome_events(const TraceData& data, const Window& window,
                   const std::function<void(const Json&)>& each);

// A window of about a second in the middle of the trace, shorter where that holds more than `most`
// slices.
Window middle_of(const TraceData& data, std::size_t most);

}  // namespace sluice::cli
