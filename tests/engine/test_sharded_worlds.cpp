// Worlds of schedulers that train together, joined by threads, against what the steps must be
// worked out one after the other. SLUICE_SEED=n runs that seed alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "engine/base/random.h"
#include "tests/campaign.h"
#include "tests/engine/thread_wire.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

// A training: items -> filter -> [cache] -> children -> [buffer] -> batch -> read the weights ->
// filter -> update.
struct World {
  std::uint64_t seed = 0;
  int epochs = 1;
  std::uint64_t items = 1, children = 1, valid = 1;
  std::int64_t batch_items = 1, shards = 2;
  std::uint64_t filter = 0, bad = 0, empty = 0;  // one in so many; 0: none
  bool shuffles = false, spares = false, cached = false, buffered = false;
  int every = 1;     // training epochs a validation
  int held_by = -1;  // a rank that keeps the source's credits for long

  explicit World(std::uint64_t seed) : seed(seed) {
    std::mt19937_64 rng(mix(seed));
    const auto below = [&](std::uint64_t n) { return rng() % n; };
    epochs = static_cast<int>(1 + below(3));
    items = 1 + below(20);
    children = 1 + below(3);
    valid = 1 + below(7);
    batch_items = static_cast<std::int64_t>(2 + below(7));
    shards = 2 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(batch_items) - 1));
    filter = below(2) ? 2 + below(4) : 0;
    bad = below(3) ? 0 : 3 + below(4);
    empty = below(3) ? 0 : 2 + below(3);
    shuffles = below(2) != 0;
    spares = below(2) != 0;
    cached = below(2) != 0;
    buffered = below(3) == 0;
    every = static_cast<int>(1 + below(3));
  }

  // Of a place in an epoch; what is cached is the same in all.
  std::uint64_t item(std::uint64_t index, std::uint64_t epoch_key) const {
    return shuffles ? Permutation(items, epoch_key)(index) : index;
  }
  std::uint64_t trained_value(std::uint64_t epoch, std::uint64_t item) const {
    return value(cached ? 0 : epoch, item);
  }

  std::uint64_t value(std::uint64_t epoch, std::uint64_t item) const {
    return mix(seed ^ mix(epoch) ^ (item + 1));
  }
  static bool hit(std::uint64_t value, std::uint64_t one_in) {
    return one_in != 0 && mix(value) % one_in == 0;
  }
};

struct Shard {
  std::uint64_t samples = 0, hash = 0;
};

std::uint64_t updated(std::uint64_t weight, const std::vector<Shard>& shards) {
  for (const Shard& s : shards)
    if (s.samples > 0) weight = mix(weight ^ mix(s.samples) ^ s.hash);
  return weight;
}

std::uint64_t forward_of(const World& w, std::uint64_t weight,
                         const std::vector<std::uint64_t>& members) {
  std::uint64_t h = weight;
  for (const std::uint64_t m : members) h = mix(h ^ m);
  return World::hit(h, w.empty) ? 0 : h;
}

// Weights after each step, one after the other; `trained`: samples, and how often.
std::vector<std::uint64_t> expected(const World& w,
                                    std::map<std::uint64_t, int>* trained = nullptr) {
  std::vector<std::uint64_t> all;
  std::uint64_t weight = 1;
  for (std::uint64_t e = 0; e < static_cast<std::uint64_t>(w.epochs); ++e) {
    const std::uint64_t order = mix(random_key(w.seed, "s") ^ mix(e + 0x5eedull));
    for (std::uint64_t first = 0; first < w.items;
         first += static_cast<std::uint64_t>(w.batch_items)) {
      std::vector<Shard> shards;
      for (std::int64_t k = 0; k < w.shards; ++k) {
        std::vector<std::uint64_t> members;
        for (std::int64_t i = w.batch_items * k / w.shards; i < w.batch_items * (k + 1) / w.shards;
             ++i) {
          const std::uint64_t at = first + static_cast<std::uint64_t>(i);
          if (at >= w.items) continue;
          const std::uint64_t value = w.trained_value(e, w.item(at, order));
          if (World::hit(value, w.filter)) continue;
          for (std::uint64_t c = 0; c < w.children; ++c)
            if (!World::hit(value + c, w.bad)) members.push_back(value + c);
        }
        if (trained)
          for (const std::uint64_t m : members) ++(*trained)[m];
        const std::uint64_t h = members.empty() ? 0 : forward_of(w, weight, members);
        shards.push_back({h ? members.size() : 0, h});
      }
      weight = updated(weight, shards);
      all.push_back(weight);
    }
  }
  return all;
}

// One rank of it, and what it saw.
class Rank {
 public:
  Rank(const World& world, Wire* wire, int threads, Resume resume, std::uint64_t weight,
       std::uint64_t wish_at, bool pauses = false, int wish_turn = 0)
      : weight(weight),
        w_(world),
        wire_(wire),
        wish_at_(wish_at),
        pauses_(pauses),
        wish_turn_(wish_turn) {
    b.graph.run.epochs = w_.epochs;
    b.graph.run.shards = w_.shards;
    b.graph.run.step_threads = 1;
    b.graph.run.max_bad = 1 << 30;
    training();
    validation();
    PlanOptions o;
    o.threads = threads;
    o.processes = wire ? wire->size() : 1;
    b.made = make_plan(b.graph, o, b.diagnostics);
    REQUIRE(b.made);
    options_.threads = threads;
    options_.io_threads = 2;
    options_.background = false;
    options_.watchdog_s = 30;
    options_.seed = w_.seed;
    options_.resume = resume;
    options_.rank = wire ? wire->rank() : 0;
    options_.processes = o.processes;
    // Not by the ranks' threads at once: oneTBB reads its global controls without a lock.
    scheduler_ = std::make_unique<Scheduler>(*b.made, b.pointers(), options_, events_);
  }

  // `watched`: somebody asks for the turn all the time, as a slow machine would let a gate look at
  // what is open and be late for the credit that it takes.
  void run(bool watched = false) {
    std::atomic<bool> over{false};
    std::thread watching;
    if (watched)
      watching = std::thread([&] {
        while (!over) (void)scheduler_->turn();
      });
    outcome = scheduler_->run();
    over = true;
    if (watched) watching.join();
  }
  const Ledger& ledger(int node) const { return scheduler_->ledger(node); }

  Builder b;
  Outcome outcome;
  std::uint64_t weight;
  std::vector<std::uint64_t> weights;              // after each step
  std::map<std::uint64_t, int> trained, measured;  // samples, and how often
  int source = -1;

  // Where it paused, and what a process that goes on from there would load.
  struct Pause {
    Resume at;
    std::uint64_t weight = 0;
    std::size_t steps = 0;
  };
  std::vector<Pause> pauses;

 private:
  struct Events final : RunEvents {
    Rank& rank;
    explicit Events(Rank& r) : rank(r) {}
    void paused(const Resume& at) override { rank.pause(at); }
    bool between(const Turn&, std::size_t position) override {
      if (rank.scheduler_->pausing()) rank.pause({position, 0});
      return rank.ends();
    }
  };

  // All ranks are here, and no other call goes over the wire.
  void pause(const Resume& at) {
    const std::size_t ranks = wire_ ? static_cast<std::size_t>(wire_->size()) : 1;
    std::vector<std::uint64_t> mine{at.turn, at.batch, weight}, all(mine.size() * ranks);
    if (wire_)
      wire_->gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    for (std::size_t i = 0; wire_ && i < all.size(); ++i) CHECK(all[i] == mine[i % mine.size()]);
    pauses.push_back({at, weight, weights.size()});
  }

  // Between two turns: whether any rank wishes to end.
  bool ends() {
    const std::uint64_t mine = ++turns_ == wish_turn_;
    std::vector<std::uint64_t> all(static_cast<std::size_t>(wire_ ? wire_->size() : 1), mine);
    if (wire_)
      wire_->gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    return std::any_of(all.begin(), all.end(), [](std::uint64_t wish) { return wish != 0; });
  }

  void training() {
    source = b.add("s", Spec("source", "").out("sample").source(), [this](Firing& f) {
      if (f.stamp().index == w_.items) return f.end_epoch();
      const std::uint64_t item = w_.item(f.stamp().index, f.epoch_key());
      const Sample made(w_.trained_value(f.stamp().epoch, item));
      if (!w_.spares) return f.emit_item(item, made);
      f.make_item(item, [&] { return std::make_shared<const Sample>(made); });
    });
    b.body(source).size = w_.items;
    if (wire_ && wire_->rank() == w_.held_by)
      b.add("slow", sink("slow"), [](Firing&) { nap(20000); }, {{source, 0}});
    const int filter = b.add("filter", plain("f"),
                             [this](Firing& f) {
                               if (!World::hit(f.in().value, w_.filter)) f.emit_ptr(f.ptr());
                             },
                             {{source, 0}});
    int from = filter;
    if (w_.cached) {
      from = b.add("cache", plain("cache").cache(), forward, {{from, 0}});
      auto store = std::make_shared<MemoryStore>();
      store->files = w_.seed % 2 == 0;
      b.body(from).cache = std::move(store);
    }
    const int expand = b.add("expand", expand_spec(),
                             [this](Firing& f) {
                               for (std::uint64_t c = 0; c < w_.children; ++c)
                                 f.emit(Sample(f.in().value + c));
                             },
                             {{from, 0}}, {{"n", w_.children}});
    const int bad = b.add("bad", plain("b"),
                          [this](Firing& f) {
                            nap(mix(f.in().value) % 3 == 0 ? 50 : 0);
                            if (World::hit(f.in().value, w_.bad)) throw DataError("bad");
                            f.emit_ptr(f.ptr());
                          },
                          {{expand, 0}});
    b.graph.nodes.back().on_error = OnError::quarantine;
    const auto size = w_.batch_items * static_cast<std::int64_t>(w_.children);
    from = bad;
    if (w_.buffered) from = b.add("buffer", buffer_spec(), forward, {{from, 0}}, {{"n", size + 1}});
    const int batch =
        b.add("batch", batch_spec(), join_members, {{from, 0}}, {{"size", size}, {"n", 2}});
    const int read = b.add("read", reader_spec(),
                           [this](Firing& f) {
                             for (const std::uint64_t m : f.in().members) ++trained[m];
                             const std::uint64_t h = forward_of(w_, weight, f.in().members);
                             if (h) f.emit(Sample(h));
                           },
                           {{batch, 0}});
    update_ = b.add("update", updater_spec(), [this](Firing& f) { update(f); }, {{read, 0}});
  }

  void validation() {
    const int v = b.add("v", Spec("source", "").out("sample").source(), [this](Firing& f) {
      if (f.stamp().index == w_.valid) return f.end_epoch();
      f.emit_item(f.stamp().index, Sample(w_.value(1000 + f.stamp().epoch, f.stamp().index)));
    });
    b.body(v).size = w_.valid;
    b.graph.nodes.back().after = "update";
    b.graph.nodes.back().every_epochs = w_.every;
    const int read = b.add("vread", reader_spec(), forward, {{v, 0}});
    metric("metric", read);
    metric("other", read);
  }

  // Puts the ranks' parts together at the epoch's end, as metrics do.
  void metric(const std::string& name, int from) {
    auto count = std::make_shared<std::uint64_t>(0);
    const int m = b.add(name, sink("metric").merges(),
                        [this, name, count](Firing& f) {
                          ++*count;
                          if (name == "metric") ++measured[mix(f.in().value ^ weight)];
                        },
                        {{from, 0}});
    b.body(m).end = [this, name, count](Flush&) {
      std::vector<std::uint64_t> all(static_cast<std::size_t>(wire_ ? wire_->size() : 1), *count);
      if (wire_)
        wire_->channel(name).gather(std::as_bytes(std::span(count.get(), 1)),
                                    std::as_writable_bytes(std::span(all)));
      std::uint64_t sum = 0;
      for (const std::uint64_t n : all) sum += n;
      CHECK(sum == w_.valid);
      *count = 0;
    };
  }

  void update(Firing& f) {
    const auto k = static_cast<std::size_t>(f.stamp().index) % static_cast<std::size_t>(w_.shards);
    mine_.resize(static_cast<std::size_t>(w_.shards) + 1);
    if (!f.is_hole()) mine_[k] = {static_cast<std::uint64_t>(f.weight()), f.in().value};
    if (k + 1 < static_cast<std::size_t>(w_.shards)) return;
    mine_.back() = {weights.size() + 1 == wish_at_, pauses_};
    std::vector<Shard> all = mine_;
    bool wish = mine_.back().samples != 0, pauses = pauses_;
    if (wire_) {
      const auto ranks = static_cast<std::size_t>(wire_->size());
      std::vector<Shard> theirs(mine_.size() * ranks);
      wire_->gather(std::as_bytes(std::span(mine_)), std::as_writable_bytes(std::span(theirs)));
      for (std::size_t r = 0; r < ranks; ++r) {
        wish |= theirs[(r + 1) * mine_.size() - 1].samples != 0;
        pauses |= theirs[(r + 1) * mine_.size() - 1].hash != 0;
        for (std::size_t s = 0; s < all.size(); ++s) {
          const Shard& other = theirs[r * mine_.size() + s];
          if (other.samples > 0) all[s] = other;
        }
      }
    }
    all.pop_back();
    mine_.clear();
    weight = updated(weight, all);
    weights.push_back(weight);
    if (wish)
      scheduler_->stop();
    else if (pauses)
      scheduler_->pause();
    if (!f.is_hole()) f.emit_ptr(f.ptr());
  }

  const World w_;
  Wire* const wire_;
  std::vector<Shard> mine_;
  const std::uint64_t wish_at_;
  const bool pauses_;
  const int wish_turn_;
  int turns_ = 0;
  int update_ = -1;
  Events events_{*this};
  RunOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
};

// A world of so many ranks, from a position on; cut where rank `seed mod ranks` wishes, or pausing
// behind every step.
struct Ran {
  std::vector<std::unique_ptr<Rank>> ranks;
  Ran(const World& w, int size, int threads, Resume resume = {}, std::uint64_t weight = 1,
      std::uint64_t wish_at = 0, bool pauses = false, int wish_turn = 0) {
    ThreadWires wires(size);
    for (int r = 0; r < size; ++r) {
      const bool wishes =
          static_cast<std::uint64_t>(r) == w.seed % static_cast<std::uint64_t>(size);
      ranks.push_back(std::make_unique<Rank>(w, size > 1 ? &wires[r] : nullptr, threads, resume,
                                             weight, wishes ? wish_at : 0, wishes && pauses,
                                             wishes ? wish_turn : 0));
    }
    wires.each([&](int r) { ranks[static_cast<std::size_t>(r)]->run(); });
  }
  template <class Of>
  std::map<std::uint64_t, int> all(const Of& of) const {
    std::map<std::uint64_t, int> sum;
    for (const auto& r : ranks)
      for (const auto& [what, n] : of(*r)) sum[what] += n;
    return sum;
  }
};

}  // namespace

TEST_CASE("worlds of 1 to 5 schedulers take the same steps, and each sample once") {
  campaign::for_seeds("worlds", 60, 10000, [](std::uint64_t seed) {
    CAPTURE(seed);
    const World w(seed);
    std::map<std::uint64_t, int> trained, measured;
    const auto want = expected(w, &trained);
    for (int size = 1; size <= std::min<std::int64_t>(5, w.shards); ++size) {
      CAPTURE(size);
      const Ran ran(w, size, 1 + static_cast<int>((seed + static_cast<std::uint64_t>(size)) % 3));
      std::uint64_t emitted = 0;
      for (const auto& r : ran.ranks) {
        CHECK(r->outcome.status == Outcome::Status::done);
        CHECK(r->weights == want);
        emitted += r->ledger(r->source).emitted;
      }
      CHECK(emitted == w.items * static_cast<std::uint64_t>(w.epochs));
      const auto t = ran.all([](const Rank& r) { return r.trained; });
      const auto m = ran.all([](const Rank& r) { return r.measured; });
      if (size == 1) measured = m;
      CHECK(t == trained);
      CHECK(m == measured);
    }
    CHECK(Sample::live == 0);
  });
}

TEST_CASE("a world that one rank wishes to end goes on with another number of ranks") {
  campaign::for_seeds("worlds_cut", 40, 5000, [](std::uint64_t seed) {
    CAPTURE(seed);
    const World w(seed);
    std::map<std::uint64_t, int> samples, trained;
    const auto want = expected(w, &samples);
    const auto most = static_cast<std::uint64_t>(std::min<std::int64_t>(4, w.shards));
    std::vector<std::uint64_t> got;
    Resume at;
    std::uint64_t weight = 1;
    for (std::uint64_t part = 0;; ++part) {
      CAPTURE(part);
      const std::uint64_t draw = mix(seed + 1 + 1000 * part);
      const std::uint64_t left = want.size() - got.size();
      const bool last = part == 4 || left == 0, in_turn = draw % 3 == 0;  // else behind a step
      const std::uint64_t step = last || in_turn ? 0 : 1 + mix(draw) % left;
      const int turn = last || !in_turn ? 0 : static_cast<int>(1 + mix(draw) % 3);
      const Ran ran(w, 1 + static_cast<int>(mix(seed + part) % most), 2, at, weight, step, false,
                    turn);
      const Rank& one = *ran.ranks.front();
      const Outcome& o = one.outcome;
      for (const auto& r : ran.ranks) {
        CHECK(r->weights == one.weights);
        CHECK(r->outcome.status == o.status);
        CHECK(r->outcome.position.turn == o.position.turn);
        CHECK(r->outcome.position.batch == o.position.batch);
      }
      if (step > 0) CHECK(one.weights.size() == step);
      got.insert(got.end(), one.weights.begin(), one.weights.end());
      for (const auto& [sample, n] : ran.all([](const Rank& r) { return r.trained; }))
        trained[sample] += n;
      if (o.status == Outcome::Status::done) break;
      REQUIRE(!last);
      at = o.position;
      weight = one.weight;
    }
    CHECK(got == want);
    CHECK(trained == samples);
  });
}

TEST_CASE("a world that pauses behind every step takes the same ones, and goes on from each") {
  campaign::for_seeds("worlds_pause", 40, 5000, [](std::uint64_t seed) {
    CAPTURE(seed);
    const World w(seed);
    const auto want = expected(w);
    const auto most = std::min<std::int64_t>(4, w.shards);
    const int first = 1 + static_cast<int>(seed % static_cast<std::uint64_t>(most));
    const int then = 1 + static_cast<int>(mix(seed) % static_cast<std::uint64_t>(most));
    const Ran ran(w, first, 2, {}, 1, 0, true);
    for (const auto& r : ran.ranks) {
      CHECK(r->outcome.status == Outcome::Status::done);
      CHECK(r->weights == want);
      REQUIRE(r->pauses.size() == want.size());
    }
    const Rank::Pause& at = ran.ranks.front()->pauses[mix(seed + 1) % want.size()];
    CHECK(at.at.batch % static_cast<std::uint64_t>(w.shards) == 0);
    const Ran rest(w, then, 2, at.at, at.weight);
    std::vector<std::uint64_t> got(want.begin(),
                                   want.begin() + static_cast<std::ptrdiff_t>(at.steps));
    const auto& more = rest.ranks.front()->weights;
    got.insert(got.end(), more.begin(), more.end());
    CHECK(got == want);
  });
}

TEST_CASE("a cut that a step asks for comes before the next one's first shard") {
  campaign::for_seeds("cuts_between_steps", 300, 20000, [](std::uint64_t seed) {
    CAPTURE(seed);
    const World w(seed);
    const std::uint64_t at = 1 + mix(seed + 1) % expected(w).size();
    Rank rank(w, nullptr, 4, {}, 1, at);
    rank.run(/*watched=*/true);
    CHECK(rank.weights.size() == at);
    CHECK(rank.outcome.position.batch % static_cast<std::uint64_t>(w.shards) == 0);
  });
}

TEST_CASE("a pause that a step asks for comes before the next one's first shard") {
  campaign::for_seeds("pauses_between_steps", 300, 20000, [](std::uint64_t seed) {
    CAPTURE(seed);
    const World w(seed);
    Rank rank(w, nullptr, 4, {}, 1, 0, true);
    rank.run(/*watched=*/true);
    CHECK(rank.pauses.size() == expected(w).size());
    for (const Rank::Pause& p : rank.pauses)
      CHECK(p.at.batch % static_cast<std::uint64_t>(w.shards) == 0);
  });
}

TEST_CASE("ranks that agree on a cut behind an epoch's last step have all had that epoch") {
  World w(1);
  w.epochs = 3;
  w.items = 32;
  w.batch_items = 4;
  w.children = 1;
  w.shards = 2;
  w.filter = w.bad = w.empty = 0;
  w.shuffles = w.spares = w.cached = w.buffered = false;
  w.every = 1;
  w.held_by = 1;  // its source cannot say in time that the epoch is over
  const Ran cut(w, 2, 2, {}, 1, 8);
  for (const auto& r : cut.ranks) {
    CHECK(r->outcome.status == Outcome::Status::cut);
    CHECK(r->weights.size() == 8);
    CHECK(r->outcome.position.turn == 1);  // the validation behind the first epoch
    CHECK(r->outcome.position.batch == 0);
  }
}
