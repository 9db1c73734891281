// A stamp names a packet's place in a run: which stream, which epoch, which ordinal, and which
// child of which 1:n node. It is the join key, the key of every random draw and the trace key.
//
// Invariant: on any edge, the stamps of one epoch are totally ordered and each one's successor is
// known from it alone, because a 1:n node marks its last child. So a reader of the edge can tell
// "the next one has not come yet" from "there is none", and nothing ever waits in vain.
//
//   source        (index 0)  (index 1)  (index 2)             depth 0
//   1:n of 2      (0.0) (0.1|)  (1.0) (1.1|)  ...             depth 1, | marks the last child
//   n:1 of 3      (0)                         (1) ...         depth 0 again, renumbered
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace sluice {

struct Stamp {
  static constexpr int max_depth = 4;

  std::uint32_t stream = 0;                     // ordinal of the source in the plan
  std::uint32_t epoch = 0;                      // dense from 0 within the stream
  std::uint64_t index = 0;                      // dense from 0 within stream and epoch
  std::array<std::uint32_t, max_depth> path{};  // child numbers, outermost first
  std::uint8_t depth = 0;                       // how many entries of path are in use
  std::uint8_t last = 0;                        // bit d: path[d] is the last child of its parent

  friend std::strong_ordering operator<=>(const Stamp& a, const Stamp& b) {
    if (auto c = a.stream <=> b.stream; c != 0) return c;
    if (auto c = a.epoch <=> b.epoch; c != 0) return c;
    if (auto c = a.index <=> b.index; c != 0) return c;
    return a.path <=> b.path;
  }
  friend bool operator==(const Stamp& a, const Stamp& b) { return (a <=> b) == 0; }

  // The first stamp of an epoch on an edge whose stamps have the given depth.
  static Stamp first(std::uint32_t stream, std::uint32_t epoch, int depth) {
    Stamp s;
    s.stream = stream;
    s.epoch = epoch;
    s.depth = static_cast<std::uint8_t>(depth);
    return s;
  }

  // The stamp that follows this one on the same edge and in the same epoch.
  Stamp next() const {
    Stamp s = *this;
    s.last = 0;
    for (int d = depth - 1; d >= 0; --d) {
      if (!((last >> d) & 1)) {
        ++s.path[d];
        return s;
      }
      s.path[d] = 0;
    }
    ++s.index;
    return s;
  }

  // The n-th child of this stamp, one level deeper.
  Stamp child(std::uint32_t n, bool is_last) const {
    Stamp s = *this;
    s.path[s.depth] = n;
    if (is_last) s.last = static_cast<std::uint8_t>(s.last | (1u << s.depth));
    ++s.depth;
    return s;
  }

  // "stream/epoch/index" with ".child" for each level, for messages and traces.
  std::string str() const {
    std::string s =
        std::to_string(stream) + "/" + std::to_string(epoch) + "/" + std::to_string(index);
    for (int d = 0; d < depth; ++d) {
      s += '.';
      s += std::to_string(path[d]);
    }
    return s;
  }
};

}  // namespace sluice
