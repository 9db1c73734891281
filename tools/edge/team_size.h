// How many threads the kernels of this program may use.
#pragma once

namespace sluice::edge {

void set_team_size(int threads);

}  // namespace sluice::edge
