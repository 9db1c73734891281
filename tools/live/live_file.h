// live.json of a run folder: the view as JSON, once a second, for whoever watches from elsewhere.
//
// Invariant: at most 16 KB; where a graph has more nodes than that takes, the busiest are told.
#pragma once

#include <string>

#include "engine/base/json.h"
#include "tools/live/block.h"

namespace sluice::live {

constexpr std::size_t most_live_bytes = 16384;

// `process`: {"pid", "host", "rss_mb", "cores", "wall_s"}, which stand beside the view's.
std::string live_text(View view, const Json& process);

}  // namespace sluice::live
