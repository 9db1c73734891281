#include "engine/session/ranks.h"

#include <array>
#include <chrono>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/base/spans.h"
#include "engine/state/checkpoint.h"
#include "engine/state/gloo_wire.h"
#include "engine/state/packed_state.h"

namespace sluice {

const World& this_world() {
  static const World world =
      find_world(own_variable, [](const std::string& text) { tell("note: " + text); });
  return world;
}

void join(Ranks& ranks, const RunSettings& run, std::function<int()> signal,
          std::function<void(const std::string&)> lost) {
  static Wire* wire = nullptr;
  ranks.world = this_world();
  if (ranks.world.alone()) return;
  if (wire) throw Error(Exit::usage, "one run a process: its wire is at its end");
  wire = ranks.wire = join_gloo(ranks.world, {.join_timeout_s = run.join_timeout_s,
                                              .peer_timeout_s = run.peer_timeout_s,
                                              .signal = std::move(signal),
                                              .lost = std::move(lost)});
}

// ---- a state in parts ---------------------------------------------------------------------------

std::string Parted::name(const std::string& when, int rank) const {
  return "part/" + path_ + "/" + when + "/" + std::to_string(rank);
}

// Puts the others' parts to this rank's.
void Parted::unite(const std::string& when) const {
  for (int r = 0; r < ranks_->world.size; ++r)
    if (r != ranks_->world.rank) node_->merge(unpacked_state(ranks_->wire->get(name(when, r))));
}

// Whether every rank came to the epoch's end; one that was cut before it has handed over instead.
bool Parted::all_ended(const std::string& epoch) const {
  Wire& wire = *ranks_->wire;
  for (int r = 0; r < ranks_->world.size; ++r)
    while (!wire.has(name(epoch, r))) {
      if (wire.has(name(at_end, r)) && !wire.has(name(epoch, r))) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  return true;
}

void Parted::flush(Flush& end) {
  const std::string epoch = std::to_string(end.epoch);
  State mine;
  node_->save(mine);
  ranks_->wire->put(name(epoch, ranks_->world.rank), packed_state(mine));
  if (!all_ended(epoch)) return;
  unite(epoch);
  // Whoever gave this part has read the one before.
  if (!given_.empty()) ranks_->wire->remove(name(given_, ranks_->world.rank));
  given_ = epoch;
  node_->flush(end);
}

void Parted::hand_over(const std::string& when) {
  State mine;
  node_->save(mine);
  const int rank = ranks_->world.rank;
  ranks_->wire->put(name(when, rank), packed_state(mine));
  const std::string before = std::exchange(handed_, when);
  // Rank 0 has read that one, since it came here again; but at the end nobody waits for it.
  if (!before.empty() && when != at_end) ranks_->wire->remove(name(before, rank));
}

// The node keeps its own part alone: the epoch may go on, and its end puts the parts together.
void Parted::save(State& state) const {
  State mine;
  node_->save(mine);
  unite(handed_);
  node_->save(state);
  node_->load(mine);
}

void Parted::load(const State& state) {
  if (ranks_->world.rank == 0) node_->load(state);
}

namespace {

// Stands for a node that keeps a file on rank 0.
class Unheard final : public Node {
 public:
  explicit Unheard(bool passes) : passes_(passes) {}
  void process(Firing& f) override {
    if (passes_) f.emit_ptr(f.ptr());
  }

 private:
  const bool passes_;
};

}  // namespace

std::unique_ptr<Node> of_rank(std::unique_ptr<Node> node, const PlanNode& n,
                              const std::shared_ptr<Ranks>& ranks) {
  if (ranks->alone()) return node;
  const Spec& spec = *n.spec;
  if (spec.merging) return std::make_unique<Parted>(std::move(node), n.path(), ranks);
  if (ranks->world.rank > 0 && spec.is_ordered && spec.access != Access::update)
    return std::make_unique<Unheard>(!spec.outs.empty());
  return node;
}

// ---- agreement ----------------------------------------------------------------------------------

void require_same(Ranks& ranks, const Json& mine) {
  if (ranks.alone()) return;
  if (ranks.world.rank == 0) return ranks.wire->put("run", mine.dump());
  const Json first = Json::parse(ranks.wire->get("run"));
  for (const auto& [what, value] : mine.items())
    if (first.value(what, Json()) != value)
      throw Error(Exit::usage, "rank " + std::to_string(ranks.world.rank) + " has another " + what +
                                   ": " + value.dump() + ", rank 0 has " +
                                   first.value(what, Json()).dump());
}

void require_same_weights(Ranks& ranks, const std::string& digest) {
  if (ranks.alone()) return;
  std::vector<char> all(digest.size() * static_cast<std::size_t>(ranks.world.size));
  ranks.wire->gather(std::as_bytes(std::span(digest)), std::as_writable_bytes(std::span(all)));
  const std::string_view text(all.data(), all.size());
  for (int r = 1; r < ranks.world.size; ++r)
    if (text.substr(static_cast<std::size_t>(r) * digest.size(), digest.size()) !=
        text.substr(0, digest.size()))
      throw Error(Exit::peer, "ranks differ: rank " + std::to_string(r) +
                                  " has other weights than rank 0, so none is to be trusted");
}

bool any_wish(Ranks& ranks) {
  const std::byte mine{ranks.wish ? std::uint8_t{1} : std::uint8_t{0}};
  if (ranks.alone()) return mine != std::byte{0};
  std::vector<std::byte> all(static_cast<std::size_t>(ranks.world.size));
  ranks.wire->gather({&mine, 1}, all);
  for (const std::byte wish : all)
    if (wish != std::byte{0}) return true;
  return false;
}

std::int64_t behind_first(Ranks& ranks) {
  if (ranks.alone()) return 0;
  const auto size = static_cast<std::size_t>(ranks.world.size);
  std::string mine = boot_id();
  mine.resize(36, ' ');
  std::string all(mine.size() * size, ' ');
  ranks.wire->gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  const std::array now{now_ns()};  // all are here
  std::vector<std::int64_t> nows(size);
  ranks.wire->gather(std::as_bytes(std::span(now)), std::as_writable_bytes(std::span(nows)));
  return all.starts_with(mine) ? 0 : nows[0] - now[0];
}

std::vector<Json> told(Ranks& ranks, const std::string& name, const Json& mine) {
  const auto of = [&](int rank) { return name + "/" + std::to_string(rank); };
  if (ranks.world.rank > 0) {
    ranks.wire->put(of(ranks.world.rank),
                    mine.dump(-1, ' ', false, Json::error_handler_t::replace));
    return {};
  }
  std::vector<Json> all{mine};
  for (int r = 1; r < ranks.world.size; ++r) all.push_back(Json::parse(ranks.wire->get(of(r))));
  return all;
}

}  // namespace sluice
