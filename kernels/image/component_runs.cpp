#include "kernels/image/component_runs.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/image/union_find.h"

namespace sluice {
namespace {

using Run = Components::Run;

// Rows [begin, end) of the runs, by row number.
std::vector<Run> runs_of(const std::uint8_t* mask, const Shape3& n,
                         std::vector<std::int32_t>& row_begin) {
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < n[0] * n[1]; ++row, mask += n[2]) {
    row_begin.push_back(static_cast<std::int32_t>(runs.size()));
    const auto next = [&](int value, std::int64_t from) {
      const void* at = std::memchr(mask + from, value, static_cast<std::size_t>(n[2] - from));
      return at ? static_cast<const std::uint8_t*>(at) - mask : n[2];
    };
    for (std::int64_t z = next(1, 0); z < n[2];) {
      const std::int64_t begin = z, end = next(0, begin);
      runs.push_back({row, begin, end, static_cast<std::int32_t>(runs.size())});
      z = next(1, end);
    }
  }
  row_begin.push_back(static_cast<std::int32_t>(runs.size()));
  return runs;
}

// Unites what touches between two rows; `slack` 1: also across a corner along z.
void join_rows(const std::vector<Run>& runs, std::int32_t a, std::int32_t a_end, std::int32_t b,
               std::int32_t b_end, std::int64_t slack, std::vector<std::int32_t>& parent) {
  while (a < a_end && b < b_end) {
    if (runs[b].begin < runs[a].end + slack && runs[a].begin < runs[b].end + slack)
      unite(parent, a, b);
    if (runs[a].end < runs[b].end)
      ++a;
    else
      ++b;
  }
}

}  // namespace

Components find_components(const std::uint8_t* mask, const Shape3& n, int connectivity) {
  Components found;
  std::vector<std::int32_t> row_begin;
  found.runs = runs_of(mask, n, row_begin);
  std::vector<std::int32_t> parent(found.runs.size());
  std::iota(parent.begin(), parent.end(), 0);
  // Rows before this one: their offsets in x and y, and in how many coordinates they differ.
  constexpr int before[][3] = {{0, -1, 1}, {-1, 0, 1}, {-1, -1, 2}, {-1, 1, 2}};
  for (std::int64_t x = 0; x < n[0]; ++x)
    for (std::int64_t y = 0; y < n[1]; ++y)
      for (const auto& [dx, dy, differing] : before) {
        if (differing > connectivity || x + dx < 0 || y + dy < 0 || y + dy >= n[1]) continue;
        const std::int64_t a = x * n[1] + y, b = (x + dx) * n[1] + y + dy;
        join_rows(found.runs, row_begin[a], row_begin[a + 1], row_begin[b], row_begin[b + 1],
                  differing < connectivity ? 1 : 0, parent);
      }
  std::vector<std::int32_t> number(found.runs.size());
  for (std::size_t i = 0; i < found.runs.size(); ++i) {
    const std::int32_t first = root(parent, static_cast<std::int32_t>(i));
    if (first == static_cast<std::int32_t>(i)) {
      number[i] = static_cast<std::int32_t>(found.size.size());
      found.size.push_back(0);
    }
    Run& r = found.runs[i];
    r.component = number[first];
    found.size[r.component] += r.end - r.begin;
  }
  return found;
}

std::vector<bool> Components::largest(std::int64_t count) const {
  std::vector<std::int32_t> order(size.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return size[a] != size[b] ? size[a] > size[b] : a > b;
  });
  std::vector<bool> kept(order.size());
  for (std::size_t i = 0; i < order.size() && static_cast<std::int64_t>(i) < count; ++i)
    kept[order[i]] = true;
  return kept;
}

}  // namespace sluice
