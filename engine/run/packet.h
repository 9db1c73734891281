// A packet is what moves along an edge: a sample, a Skip that stands for a sample that will not
// come, or a marker that ends an epoch or the stream.
//
// Invariant: every edge carries every stamp of its domain exactly once an epoch, as a sample or as
// a Skip, and then an EpochEnd with their number. So nothing waits for what will not come, and
// nothing depends on the order in which packets and markers overtake each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/stamp.h"
#include "engine/run/credit.h"
#include "engine/run/device.h"
#include "engine/run/node.h"

namespace sluice {

// A cache had the item when the source emitted it: nodes of its prefix pass the packet on.
struct Hit {
  int cache;  // plan index
  CacheStore::Entry entry;
};

struct Packet {
  enum class Kind : std::uint8_t { sample, skip, epoch_end, stream_end };

  static constexpr std::uint64_t no_item = ~0ull;

  Kind kind = Kind::sample;
  bool cut = false;  // epoch_end: cut short, so not flushed
  Stamp stamp;
  std::uint32_t weight = 1;  // how many samples it stands for: members of a batch
  std::uint64_t item = 0;    // the source's number for the data; no_item where it gave none
  std::uint64_t count = 0;   // epoch_end: packets sent; stream_end: epochs sent
  Credit credit;             // declared before the sample, so that it goes home after it
  Credit untaken;            // up to the next gate: its maker waits for it (Firing::emit_each)
  SamplePtr sample;
  const std::string* reason = nullptr;  // skip: interned, lives as long as the process
  std::shared_ptr<const std::vector<Hit>> hits;
  PointPtr ready;  // the device is done with the sample; null: the host made it

  bool is_skip() const { return kind == Kind::skip; }
  const Hit* hit(int cache) const {
    if (hits)
      for (const Hit& h : *hits)
        if (h.cache == cache) return &h;
    return nullptr;
  }
};

// One string object for each distinct reason, so that packets carry a pointer.
const std::string* intern_reason(const std::string& reason);

namespace reasons {
extern const std::string* const filtered;      // the node emitted nothing
extern const std::string* const quarantined;   // the node failed on it, and may
extern const std::string* const discarded;     // the run was cut
extern const std::string* const dropped_last;  // the rest of an epoch that fills no batch
extern const std::string* const elsewhere;     // another process computes it
extern const std::string* const no_sample;     // a shard of an epoch's last batch
extern const std::string* const replayed;      // a resume: already trained on before the cut
}  // namespace reasons

}  // namespace sluice
