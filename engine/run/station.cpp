#include "engine/run/station.h"

#include "engine/run/at_work.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/random.h"

namespace sluice {

static bool decollates(const PlanNode& n) {
  const auto& rules = n.spec->rules;
  return n.spec->arity == Arity::expand &&
         std::any_of(rules.begin(), rules.end(),
                     [](const FieldRule& r) { return r.act == FieldRule::Act::decollates; });
}

static bool in_order(const PlanNode& n) {
  const Arity a = n.spec->arity;
  return n.ordered || n.gate || a == Arity::gather || a == Arity::shuffle;
}

Station::Station(Scheduler& scheduler, int index, Node* node, std::uint32_t first_epoch)
    : scheduler_(scheduler),
      index_(index),
      plan_(scheduler.plan_.nodes[index]),
      division_(scheduler.plan_.streams[static_cast<std::size_t>(plan_.stream)].division),
      node_(node),
      store_(node ? node->store() : nullptr),
      key_(random_key(scheduler.options_.seed, plan_.path())),
      nvtx_(plan_.path()),
      stopped_([this] {
        return scheduler_.failed() || (plan_.is_source() ? scheduler_.cutting() : aborting());
      }),
      sequenced_(in_order(plan_)),
      decollates_(decollates(plan_)),
      next_(Stamp::first(static_cast<std::uint32_t>(plan_.stream), first_epoch, plan_.depth_in)),
      close_epoch_(first_epoch),
      wait_since_(now_ns()) {
  if (plan_.gate || plan_.is_source())
    pool = std::make_shared<CreditPool>(plan_.credits, [this] { kick(); });
}

Station::~Station() = default;

// ---- what comes in ------------------------------------------------------------------------------

void Station::deliver(int input, const Packet& packet) noexcept {
  if (scheduler_.halted()) return;
  if (packet.ready && !stream_) return deliver_when_done(input, packet);
  Actions actions = fresh();
  {
    std::lock_guard lock(*mutex_);
    receive(input, packet, actions);
    pump(actions);
  }
  perform(std::move(actions));
}

void Station::kick() noexcept {
  Actions actions = fresh();
  {
    std::lock_guard lock(*mutex_);
    pump(actions);
  }
  perform(std::move(actions));
}

Station::Epoch& Station::epoch(std::uint32_t e) {
  if (recent_ && recent_number_ == e) return *recent_;
  auto [it, fresh] = epochs_.try_emplace(e);
  if (fresh) {
    it->second.expected.assign(plan_.inputs.size(), -1);
    it->second.sent.assign(plan_.outs.size(), 0);
  }
  recent_ = &it->second;
  recent_number_ = e;
  return it->second;
}

void Station::forget(std::uint32_t e) {
  recent_ = nullptr;
  epochs_.erase(e);
}

void Station::receive(int input, const Packet& packet, Actions& actions) {
  if (packet.kind == Packet::Kind::epoch_end) {
    Epoch& e = epoch(packet.stamp.epoch);
    e.expected[input] = static_cast<std::int64_t>(packet.count);
    e.cut |= packet.cut;
    return;
  }
  if (packet.kind == Packet::Kind::stream_end) {
    stream_epochs_ = static_cast<std::int64_t>(packet.count);
    ++stream_ends_;
    return;
  }
  const std::size_t inputs = plan_.inputs.size();
  if (inputs == 1 && !sequenced_) {
    Packet copy = packet;
    return place(packet.stamp, {&copy, 1}, actions);
  }
  Slot& slot = inbox_[packet.stamp];
  if (slot.have == 0) {
    slot.stamp = packet.stamp;
    slot.in.resize(inputs, Packet{.kind = Packet::Kind::epoch_end});
  }
  slot.in[input] = packet;
  if (++slot.have < static_cast<int>(inputs)) return;
  if (sequenced_) {
    ++epoch(packet.stamp.epoch).in;
    ++ledger.in;
    return;  // stays in the inbox until it is next
  }
  auto whole = inbox_.extract(packet.stamp);
  place(packet.stamp, whole.mapped().in, actions);
}

// All packets of a stamp at a station without order: dealt with now, or ready to fire.
void Station::place(const Stamp& stamp, std::span<Packet> in, Actions& actions) {
  ++epoch(stamp.epoch).in;
  ++ledger.in;
  const Fate f = fate(in, cutting());
  if (f == Fate::fire && ready_.empty() && launch(stamp, in, actions)) return;
  Slot slot{stamp,
            {std::make_move_iterator(in.begin()), std::make_move_iterator(in.end())},
            static_cast<int>(in.size())};
  if (f == Fate::fire)
    ready_.push_back(std::move(slot));
  else
    settle(std::move(slot), f, actions);
}

// `cut` is read once for a slot: a flag that rises between two looks must not fire it out of turn.
Station::Fate Station::fate(std::span<const Packet> in, bool cut) const {
  for (const Packet& p : in) {
    if (!p.is_skip()) continue;
    // What other ranks discard is cut here too, or their turns would end and this one's would not.
    if (cut && (is_hole(p) || p.reason == reasons::elsewhere)) return Fate::discard;
    if (!is_hole(p)) return Fate::skip;
    if (turnstile_ && replays(p.stamp.epoch)) return Fate::replay;
    return plan_.spec->access == Access::update ? Fate::fire : Fate::skip;
  }
  if (cut) return Fate::discard;
  const Packet& first = in.front();
  if (first.hits) {
    for (int cache : plan_.prefix_of)
      if (first.hit(cache)) return Fate::pass;
    if (store_ && first.hit(index_)) return Fate::stored;
  }
  if (turnstile_ && plan_.training && replays(first.stamp.epoch)) return Fate::replay;
  return Fate::fire;
}

bool Station::is_mine(const Stamp& stamp) const {
  const RunOptions& o = scheduler_.options_;
  return o.processes == 1 || division_.rank(stamp.index, o.processes) == o.rank;
}

// An empty shard, or another process's, in a region whose steps are sharded.
bool Station::is_hole(const Packet& p) const {
  return division_.sharded() && plan_.training && p.is_skip() && p.reason != reasons::discarded &&
         p.reason != reasons::replayed;
}

// Counted in packets of the edge, Skips included: an index says less after a filter or a 1:n.
bool Station::replays(std::uint32_t e) const {
  const auto it = epochs_.find(e);
  return e == scheduler_.first_epoch_[static_cast<std::size_t>(plan_.stream)] &&
         it != epochs_.end() && it->second.consumed < scheduler_.options_.resume.batch;
}

// ---- what may happen now ------------------------------------------------------------------------

void Station::pump(Actions& actions) {
  if (scheduler_.halted()) return;
  if (plan_.is_source()) {
    pump_source(actions);
  } else if (sequenced_) {
    while (admit_next(actions)) {
    }
  } else {
    while (!ready_.empty()) {
      if (cutting()) {
        settle(std::move(ready_.front()), Fate::discard, actions);
        ready_.pop_front();
        continue;
      }
      if (limit() > 0 && running_ >= limit()) break;
      launch(ready_.front().stamp, ready_.front().in, actions);
      ready_.pop_front();
    }
  }
  if (!parked_.empty()) go_on_with_lists(actions);
  if (!plan_.is_source()) close_epochs(actions);
  note_waiting();
}

// Those whose readers have taken a piece; all where a cut ends them. They stand in no limit's way:
// what is to be taken first may be of a packet that has not fired yet.
void Station::go_on_with_lists(Actions& actions) {
  const auto waits = [&](Job* job) {
    job->list->piece = job->list->window->try_take();
    if (!job->list->piece && !aborting()) return true;
    ++running_;
    actions.push_back({Action::Kind::launch, this, 0, {}, job});
    return false;
  };
  parked_.erase(std::stable_partition(parked_.begin(), parked_.end(), waits), parked_.end());
}

bool Station::turn_open(std::uint32_t e) const {
  return !turnstile_ || turnstile_->open(plan_.stream, e);
}

// A gather's group: all that belong to its packet have come.
bool Station::is_whole() const {
  if (plan_.spec->arity != Arity::gather) return false;
  if (!division_.by_place()) return static_cast<int>(group_.size()) == plan_.count;
  return division_.packet(next_.index) > static_cast<std::int64_t>(ordinal_);
}

// Deals with the slot that is next in stamp order, or with the epoch's end. False: must wait.
bool Station::admit_next(Actions& actions) {
  if (flushing_) return false;
  const bool cut = cutting();
  if (is_whole()) return launch_group(actions) || cutting() != cut;
  auto it = inbox_.find(next_);
  if (it == inbox_.end() || it->second.have < static_cast<int>(plan_.inputs.size()))
    return pass_boundary(actions);
  if (!cut && (!turn_open(next_.epoch) || pause(actions))) return false;
  if (!admit(it->second, fate(it->second.in, cut), actions)) return cutting() != cut;
  next_ = it->second.stamp.next();
  inbox_.erase(it);  // its packets were moved out
  return true;
}

// Whether this packet waits for a pause; the last credit that comes home asks again. That the
// region is empty is looked at first: then no step is under way that could still ask for a pause.
bool Station::pause(Actions& actions) {
  if (!pauses_) return false;
  const bool empty = pool->out() == 0 && scheduler_.region_is_done();
  if (!scheduler_.pausing()) return false;
  if (empty && scheduler_.take_pause())
    actions.push_back({Action::Kind::pause, this, 0,
                       Packet{.stamp = next_, .count = epoch(next_.epoch).trained}});
  return true;
}

bool Station::admit(Slot& slot, Fate f, Actions& actions) {
  if (f != Fate::fire) {
    const bool hole = f == Fate::skip && plan_.gate && is_hole(slot.in.front());
    if (hole || (f == Fate::stored && slot.in.front().hit(index_)->entry.sample)) {
      Credit credit = gate_credit();
      if (!credit) return false;
      Packet& p = slot.in.front();
      actions.push_back({Action::Kind::drop, this, 0,
                         Packet{.credit = std::move(p.credit), .sample = std::move(p.sample)}});
      p.credit = std::move(credit);
    }
    Slot whole;
    whole.stamp = slot.stamp;
    whole.in = std::move(slot.in);
    settle(std::move(whole), f, actions);
    if (Epoch& e = epoch(slot.stamp.epoch); hole) e.trained = e.consumed;
    return true;
  }
  const Arity arity = plan_.spec->arity;
  if (arity == Arity::gather || arity == Arity::shuffle) {
    Epoch& e = epoch(slot.stamp.epoch);
    ++e.consumed;
    ++e.fired;
    ++ledger.members;
    for (Packet& p : slot.in)
      if (p.untaken)
        actions.push_back({Action::Kind::drop, this, 0, Packet{.untaken = std::move(p.untaken)}});
    group_.push_back({slot.stamp, std::move(slot.in), slot.have});
    if (arity == Arity::shuffle) shuffle_out(actions, false);
    return true;
  }
  return launch(slot.stamp, slot.in, actions);
}

// None where the run is being cut or pauses, which is looked at once a credit is there: the step
// that gave it back may have asked for that after a look that still allowed the next one, and a cut
// between two shards of a step is no step's end.
Credit Station::gate_credit() const {
  if (pool->out() == pool->total() || cutting() || (pauses_ && scheduler_.pausing()))
    return nullptr;
  return pool->try_take();
}

// Takes the credit of a gate and sends the packets, one for each input, to the lane. False, and
// nothing has happened, where there is no room or no credit.
bool Station::launch(const Stamp& stamp, std::span<Packet> in, Actions& actions) {
  if ((limit() > 0 && running_ >= limit()) || ahead_enough()) return false;
  if (plan_.ordered && !parked_.empty()) return false;  // one list after the other
  Credit credit;
  if (plan_.gate && !(credit = gate_credit())) return false;
  Epoch& e = epoch(stamp.epoch);
  ++e.consumed;
  ++e.fired;
  ++e.flying;
  e.trained = e.consumed;
  ++running_;
  Job* job = Job::make(Job::Kind::fire, stamp, plan_.inputs.size());
  for (std::size_t i = 0; i < in.size(); ++i) job->inputs[i].push_back(std::move(in[i]));
  job->credit = std::move(credit);
  actions.push_back({Action::Kind::launch, this, 0, {}, job});
  return true;
}

// Fires a gather node on the members it has.
bool Station::launch_group(Actions& actions) {
  if (group_.empty() || cutting()) {
    if (division_.by_place()) skip_group(actions);
    drop_group(reasons::discarded, actions);
    return true;
  }
  if (limit() > 0 && running_ >= limit()) return false;
  Credit credit;
  if (plan_.gate && !(credit = gate_credit())) return false;
  Stamp stamp = Stamp::first(next_.stream, group_.front().stamp.epoch, 0);
  stamp.index = ordinal_++;
  Job* job = Job::make(Job::Kind::fire, stamp, plan_.inputs.size());
  for (Slot& member : group_)
    for (std::size_t i = 0; i < member.in.size(); ++i)
      job->inputs[i].push_back(std::move(member.in[i]));
  group_.clear();
  absent_ = nullptr;
  job->credit = std::move(credit);
  ++epoch(job->stamp.epoch).flying;
  ++running_;
  actions.push_back({Action::Kind::launch, this, 0, {}, job});
  return true;
}

// A packet by places of which no member came.
void Station::skip_group(Actions& actions) {
  Packet skip;
  skip.kind = Packet::Kind::skip;
  skip.stamp = Stamp::first(next_.stream, next_.epoch, 0);
  skip.stamp.index = ordinal_++;
  skip.weight = 0;  // its samples were counted where they were skipped
  skip.item = Packet::no_item;
  skip.reason = !group_.empty() ? reasons::discarded : absent_ ? absent_ : reasons::no_sample;
  for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port) send(port, skip, actions);
}

void Station::drop_group(const std::string* reason, Actions& actions) {
  for (Slot& member : group_) {
    if (reason == reasons::dropped_last) ++ledger.dropped_last;
    ledger.lost[*reason] += member.in.front().weight;
    if (reason == reasons::discarded) epoch(member.stamp.epoch).cut = true;
    for (Packet& p : member.in) actions.push_back({Action::Kind::drop, this, 0, std::move(p)});
  }
  group_.clear();
  absent_ = nullptr;
}

// Emits from the window until it holds window-1 packets (or none, at the epoch's end); which one
// is drawn by the number of what is emitted, so it does not depend on timing.
void Station::shuffle_out(Actions& actions, bool all) {
  const std::size_t keep = all ? 0 : static_cast<std::size_t>(std::max(1, plan_.count) - 1);
  while (group_.size() > keep) {
    Stamp stamp = Stamp::first(next_.stream, group_.front().stamp.epoch, 0);
    stamp.index = ordinal_++;
    Random random(key_, stamp);
    const auto pick = static_cast<std::ptrdiff_t>(random.integer(group_.size()));
    Packet p = std::move(group_[static_cast<std::size_t>(pick)].in.front());
    group_.erase(group_.begin() + pick);
    if (scheduler_.rings_.on()) trace_link(stamp, p.stamp);
    p.stamp = stamp;
    p.hits.reset();
    ++ledger.fired;
    for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port) send(port, p, actions);
    actions.push_back({Action::Kind::drop, this, 0, std::move(p)});
  }
}

// Everything of this epoch has been admitted: whatever belongs between it and the next.
bool Station::pass_boundary(Actions& actions) {
  auto it = epochs_.find(next_.epoch);
  if (it == epochs_.end() || !boundary_reached(it->second)) return false;
  Epoch& e = it->second;
  if (!turn_open(next_.epoch)) {
    if (!cutting()) return false;
    e.cut = true;  // its turn will not come, so nobody may flush it (it may have had no packets)
  }
  if (!group_.empty() || absent_) {
    if (e.cut || cutting())
      drop_group(reasons::discarded, actions);
    else if (plan_.spec->arity == Arity::shuffle)
      shuffle_out(actions, true);
    else if (plan_.drop_last)
      drop_group(reasons::dropped_last, actions);
    else if (!launch_group(actions))
      return false;
  }
  // A step has all its shards, also that of an epoch's last batch.
  if (plan_.spec->arity == Arity::gather && division_.by_place() && !e.cut)
    while (static_cast<std::int64_t>(ordinal_) % division_.parts != 0) skip_group(actions);
  if (plan_.ordered && !e.flushed) {
    if (e.flying > 0) return false;
    if (!e.cut) {
      flush(actions);
      return false;
    }
  }
  next_ = Stamp::first(next_.stream, next_.epoch + 1, plan_.depth_in);
  ordinal_ = 0;
  return true;
}

bool Station::boundary_reached(const Epoch& e) const {
  for (std::int64_t n : e.expected)
    if (n < 0 || n != e.expected.front()) return false;
  return e.consumed == static_cast<std::uint64_t>(e.expected.front());
}

// flush() is a firing: on the node's lane, after the epoch's last and before the next one's first.
void Station::flush(Actions& actions) {
  Job* job = Job::make(Job::Kind::flush, next_, 0);
  flushing_ = true;
  ++running_;
  actions.push_back({Action::Kind::launch, this, 0, {}, job});
}

// The marker for `close_epoch_`: stream and epoch are all that is read of its stamp.
Packet Station::end_of_epoch(bool cut) const {
  Packet marker;
  marker.kind = Packet::Kind::epoch_end;
  marker.cut = cut;
  marker.stamp.stream = next_.stream;
  marker.stamp.epoch = close_epoch_;
  return marker;
}

void Station::close_epochs(Actions& actions) {
  while (true) {
    auto it = epochs_.find(close_epoch_);
    if (it == epochs_.end() || it->second.flying > 0 || !boundary_reached(it->second)) break;
    if (sequenced_ && next_.epoch <= close_epoch_) break;
    const Epoch& e = it->second;
    Packet marker = end_of_epoch(e.cut);
    for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port) {
      marker.count = e.sent[static_cast<std::size_t>(port)];
      actions.push_back({Action::Kind::send, this, port, marker});
    }
    if (e.in != e.fired + e.passed + e.skipped) scheduler_.fail(imbalance(e));
    if (plan_.graph->on_error == OnError::quarantine) scheduler_.judge(plan_, close_epoch_);
    if (e.cut) scheduler_.shortened_ = true;
    if (e.cut && !cut_at_) cut_at_ = {close_epoch_, e.trained};
    if (ends_) actions.push_back({Action::Kind::turn, this, 0, marker});
    if (!e.cut) epoch_size_ = static_cast<std::int64_t>(e.consumed);
    forget(close_epoch_);
    ++close_epoch_;
    ++scheduler_.progress_;
  }
  if (done_ || stream_ends_ < plan_.inputs.size() || stream_epochs_ != close_epoch_) return;
  done_ = true;
  send_stream_end(close_epoch_, actions);
}

Failure Station::imbalance(const Epoch& e) const {
  Failure f;
  f.exit = Exit::stalled;
  f.node = plan_.path();
  f.message = "the ledger does not balance: " + std::to_string(e.in) + " came in, " +
              std::to_string(e.fired) + " fired, " + std::to_string(e.passed) + " passed, " +
              std::to_string(e.skipped) + " skipped";
  return f;
}

// ---- packets that are dealt with without a body -------------------------------------------------

void Station::settle(Slot slot, Fate f, Actions& actions) {
  Epoch& e = epoch(slot.stamp.epoch);
  ++e.consumed;
  Packet& first = slot.in.front();
  Credit credit;
  for (const Packet& p : slot.in) credit = join(credit, p.credit);
  if (f == Fate::pass || (f == Fate::stored && first.hit(index_)->entry.sample)) {
    ++e.passed;
    ++ledger.passed;
    counters.passed.fetch_add(1, std::memory_order_relaxed);
    Packet out = first;
    if (plan_.gate) out.untaken.reset();
    out.credit = f == Fate::stored ? first.credit : credit;
    if (f == Fate::stored) {
      out.sample = first.hit(index_)->entry.sample;
      out.ready.reset();
    }
    if (!plan_.feeds_cache) out.hits.reset();
    for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port) send(port, out, actions);
    actions.push_back({Action::Kind::drop, this, 0, std::move(out)});
  } else {
    const std::string* reason = nullptr;
    for (const Packet& p : slot.in)
      if (p.is_skip() && !reason) reason = p.reason;
    if (f == Fate::discard) {
      reason = reasons::discarded;
      e.cut = true;
    }
    if (f == Fate::replay) {
      reason = reasons::replayed;
      e.trained = e.consumed;
    }
    if (f == Fate::stored) reason = intern_reason(first.hit(index_)->entry.skip_reason);
    if (!first.is_skip()) ledger.lost[*reason] += first.weight;
    if (plan_.spec->arity == Arity::gather && division_.by_place()) absent_ = reason;
    if (f == Fate::skip && store_ && reason != reasons::discarded && first.item != Packet::no_item)
      actions.push_back({Action::Kind::remember, this, 0,
                         Packet{.stamp = slot.stamp, .item = first.item, .reason = reason}});
    ++e.skipped;
    send_skip(slot.stamp, reason, first, credit, actions);
  }
  for (Packet& p : slot.in) actions.push_back({Action::Kind::drop, this, 0, std::move(p)});
}

void Station::send_skip(const Stamp& stamp, const std::string* reason, const Packet& like,
                        Credit credit, Actions& actions) {
  ++ledger.skipped[*reason];
  counters.skipped.fetch_add(1, std::memory_order_relaxed);
  const Arity arity = plan_.spec->arity;
  if (arity == Arity::gather || arity == Arity::shuffle) {  // absorbed: they renumber
    actions.push_back({Action::Kind::drop, this, 0, Packet{.credit = std::move(credit)}});
    return;
  }
  Packet skip;
  skip.kind = Packet::Kind::skip;
  skip.stamp = arity == Arity::expand ? stamp.child(0, true) : stamp;
  skip.weight = like.weight;
  skip.item = like.item;
  if (plan_.feeds_cache) skip.hits = like.hits;
  skip.reason = reason;
  skip.credit = std::move(credit);
  for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port) send(port, skip, actions);
  actions.push_back({Action::Kind::drop, this, 0, std::move(skip)});
}

void Station::send(int port, Packet packet, Actions& actions) {
  if (!plan_.is_source()) ++epoch(packet.stamp.epoch).sent[static_cast<std::size_t>(port)];
  ++ledger.out;
  actions.push_back({Action::Kind::send, this, port, std::move(packet)});
}

void Station::send_stream_end(std::uint32_t epochs, Actions& actions) {
  Packet end;
  end.kind = Packet::Kind::stream_end;
  end.stamp = next_;
  end.count = epochs;
  for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port)
    actions.push_back({Action::Kind::send, this, port, end});
}

// ---- sources ------------------------------------------------------------------------------------

void Station::pump_source(Actions& actions) {
  // An epoch begins when the last one's items are found: a cache may let go of some of them then.
  if (done_ || running_ > 0 || (ordinal_ == 0 && looking_ > 0)) return;
  const auto epochs = static_cast<std::uint32_t>(scheduler_.plan_.streams[plan_.stream].epochs);
  const bool cut = scheduler_.cutting();
  // It waited for a credit to say so: of ranks that agree on a cut behind an epoch's last step, all
  // have had that epoch. Not where the cut took an item that it was making.
  if (cut && ordinal_ > 0 && node_->epoch_size() == ordinal_ && !epoch(close_epoch_).cut)
    end_source_epoch(false, actions);
  if (close_epoch_ < epochs && cut) {
    end_source_epoch(true, actions);
    done_ = true;
    return send_stream_end(close_epoch_, actions);
  }
  if (close_epoch_ >= epochs) {
    done_ = true;
    return send_stream_end(close_epoch_, actions);
  }
  Credit credit = pool->try_take();
  if (!credit) return;
  Stamp stamp = Stamp::first(next_.stream, close_epoch_, 0);
  stamp.index = ordinal_;
  Job* job = Job::make(Job::Kind::fire, stamp, 0);
  job->credit = std::move(credit);
  ++running_;
  actions.push_back({Action::Kind::launch, this, 0, {}, job});
}

void Station::end_source_epoch(bool cut, Actions& actions) {
  if (cut) scheduler_.shortened_ = true;
  if (plan_.graph->on_error == OnError::quarantine) scheduler_.judge(plan_, close_epoch_);
  Packet marker = end_of_epoch(cut);
  marker.count = ordinal_;
  for (int port = 0; port < static_cast<int>(plan_.outs.size()); ++port)
    actions.push_back({Action::Kind::send, this, port, marker});
  if (ends_) actions.push_back({Action::Kind::turn, this, 0, marker});
  if (!cut) epoch_size_ = static_cast<std::int64_t>(ordinal_);
  forget(close_epoch_);
  ++close_epoch_;
  ordinal_ = 0;
  ++scheduler_.progress_;
}

// ---- bookkeeping --------------------------------------------------------------------------------

// Starved: nothing to do. Blocked: something is there, but a credit or the turn is missing.
void Station::note_waiting() {
  counters.queue = inbox_.size() + ready_.size() + group_.size();
  counters.queue_max = std::max(counters.queue_max, counters.queue);
  Wait wait = Wait::none;
  if (!done_ && running_ == 0) {
    auto it = inbox_.find(next_);
    const bool has =
        plan_.is_source() || !ready_.empty() || !parked_.empty() ||
        (it != inbox_.end() && it->second.have == static_cast<int>(plan_.inputs.size())) ||
        is_whole();
    wait = has ? Wait::credit : Wait::input;
  }
  if (wait == wait_) return;
  const std::int64_t now = moment();
  if (wait_ == Wait::input) counters.starved_ns += now - wait_since_;
  if (wait_ == Wait::credit) counters.blocked_ns += now - wait_since_;
  wait_ = wait;
  wait_since_ = now;
}

Reading Station::read(std::int64_t now) const {
  std::lock_guard lock(*mutex_);
  Reading r;
  r.at_ns = now;
  r.fired = ledger.fired;
  r.passed = ledger.passed;
  r.skipped = counters.skipped.load(std::memory_order_relaxed);
  r.spared = counters.spared.load(std::memory_order_relaxed);
  r.out = ledger.out;
  for (const auto& [reason, n] : ledger.lost) r.lost += n;
  r.busy_ns = counters.busy_ns(now);
  r.body_ns = counters.body_ns(now);
  r.shared_ns = counters.shared_ns.load(std::memory_order_relaxed);
  r.with = counters.with.load(std::memory_order_relaxed);
  r.device_ns = counters.device_ns.load(std::memory_order_relaxed);
  const std::int64_t wait = std::max<std::int64_t>(0, now - wait_since_);
  r.starved_ns = counters.starved_ns + (wait_ == Wait::input ? wait : 0);
  r.blocked_ns = counters.blocked_ns + (wait_ == Wait::credit ? wait : 0);
  if (in_chain_) r.starved_ns = counters.idle_ns(now);  // what chains to it never waits in between
  r.p50_ns = counters.durations.quantile(0.5);
  r.p95_ns = counters.durations.quantile(0.95);
  r.p99_ns = counters.durations.quantile(0.99);
  r.cpu_ns = counters.cpu_ns.load(std::memory_order_relaxed);
  r.cpu_of_ns = counters.cpu_of_ns.load(std::memory_order_relaxed);
  r.bytes = counters.bytes.load(std::memory_order_relaxed);
  r.bytes_of = counters.bytes_of.load(std::memory_order_relaxed);
  r.most_bytes = counters.most_bytes.load(std::memory_order_relaxed);
  r.queue = counters.queue;
  r.queue_max = counters.queue_max;
  r.running = counters.running();
  if (pool) {
    r.credits_out = pool->out();
    r.most_credits_out = pool->most_out();
  }
  r.epoch = close_epoch_;
  r.epoch_size = epoch_size_;
  const auto it = epochs_.find(close_epoch_);
  if (plan_.is_source())
    r.epoch_done = ordinal_;
  else if (it != epochs_.end())
    r.epoch_done = it->second.consumed;
  return r;
}

bool Station::done() const {
  std::lock_guard lock(*mutex_);
  return done_;
}

std::string Station::waiting_for() const {
  std::lock_guard lock(*mutex_);
  if (done_) return "";
  std::string s =
      plan_.path() + " (" + plan_.spec->name + "): epoch " + std::to_string(close_epoch_);
  auto it = epochs_.find(close_epoch_);
  if (it != epochs_.end()) {
    const Epoch& e = it->second;
    s += ", " + std::to_string(e.consumed) + " dealt with";
    if (!e.expected.empty() && e.expected.front() >= 0)
      s += " of " + std::to_string(e.expected.front());
    if (e.flying) s += ", " + std::to_string(e.flying) + " running";
  }
  s += bodies_at_work(plan_);
  if (!parked_.empty())
    s += ", " + std::to_string(parked_.size()) + " of its lists wait for the next node";
  if (retiring_) s += ", " + std::to_string(retiring_) + " of its firings wait for the device";
  if (awaiting_) s += ", " + std::to_string(awaiting_) + " of its samples wait for the device";
  for (const auto& [stamp, slot] : inbox_) {
    if (slot.have == static_cast<int>(plan_.inputs.size())) continue;
    for (std::size_t i = 0; i < slot.in.size(); ++i)
      if (slot.in[i].kind == Packet::Kind::epoch_end)  // the mark of an empty place
        s += ", waits on port \"" + plan_.spec->ins[plan_.inputs[i].port].name + "\" for " +
             stamp.str();
    break;
  }
  if (sequenced_ && !inbox_.empty()) s += ", next is " + next_.str();
  if (!group_.empty())
    s += ", holds " + std::to_string(group_.size()) + " of " + std::to_string(plan_.count);
  if (pool)
    s += ", credits out " + std::to_string(pool->out()) + " of " + std::to_string(pool->total());
  return s;
}

void Station::clear() {
  std::map<Stamp, Slot> inbox;
  std::deque<Slot> ready;
  std::vector<Slot> group;
  std::vector<Job*> parked;
  {
    std::lock_guard lock(*mutex_);
    parked.swap(parked_);
    inbox.swap(inbox_);
    ready.swap(ready_);
    group.swap(group_);
  }
  for (Job* job : parked) delete job;
}

}  // namespace sluice
