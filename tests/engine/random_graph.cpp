#include "tests/engine/random_graph.h"

#include <algorithm>
#include <random>

namespace sluice::sim {

namespace {

// An output that something may still be connected to.
struct Open {
  int node, port;
  int domain;  // outputs of one domain can be joined
  int children = 1, depth = 0;
  bool pure = true;  // nothing before it that a cache may not stand behind
};

class Generator {
 public:
  Generator(std::uint64_t seed, bool trains, bool resumes)
      : rng_(mix(seed)), trains_(trains), resumes_(resumes) {
    p_.seed = seed;
    p_.epochs = static_cast<int>(1 + below(trains ? 4 : 3));
  }

  Program make() {
    if (trains_) training();
    const auto free = trains_ ? below(2) : 1 + below(2);
    for (std::uint64_t i = 0; i < free; ++i) {
      begin(12);
      grow(3 + below(9), true, true);
      finish();
    }
    for (Item& n : p_.nodes) {
      n.behind_gate = n.kind == Kind::reader || n.kind == Kind::updater;
      for (auto [from, port] : n.from) n.behind_gate |= node(from).behind_gate;
    }
    return std::move(p_);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return rng_() % n; }
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }
  Item& node(int i) { return p_.nodes[static_cast<std::size_t>(i)]; }

  Item fresh(Kind kind, const char* name, std::vector<std::size_t> from) {
    Item n;
    n.kind = kind;
    n.path = name + std::to_string(p_.nodes.size());
    n.stream = static_cast<int>(p_.sources.size()) - 1;
    n.salt = rng_();
    n.lane = chance(60) ? 0 : static_cast<int>(below(4));
    n.asks_stopped = chance(30);
    for (std::size_t o : from) n.from.emplace_back(open_[o].node, open_[o].port);
    return n;
  }

  // Adds the node; its outputs are open in the first input's domain or in one of its own.
  int add(Item n, std::size_t from, bool new_domain, bool pure) {
    const int i = static_cast<int>(p_.nodes.size());
    Open o = from < open_.size() ? open_[from] : Open{i, 0, i};
    if (new_domain) o.domain = i;
    o.pure = o.pure && pure;
    o.node = i;
    for (o.port = 0; o.port < n.outs; ++o.port) made_.push_back(o);
    p_.nodes.push_back(std::move(n));
    return i;
  }
  // Replaces what was consumed by what was made; now and then it stays open: a fork.
  void replace(std::vector<std::size_t> used) {
    std::sort(used.rbegin(), used.rend());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (std::size_t u : used)
      if (!chance(25)) open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(u));
    open_.insert(open_.end(), made_.begin(), made_.end());
    made_.clear();
  }

  int begin(std::uint64_t most) {
    open_.clear();
    Item n = fresh(Kind::source, "s", {});
    n.stream = static_cast<int>(p_.sources.size());
    n.size = static_cast<int>(1 + below(most));
    n.outs = chance(20) ? 2 : 1;
    n.permutes = chance(50);
    n.says_size = chance(70);
    n.items = chance(20) ? static_cast<int>(1 + below(most)) : 0;
    n.spares = n.outs == 1 && chance(40);
    if (!n.spares) {
      n.filter = chance(40) ? 5 : 0;
      n.bad = chance(20);
    }
    p_.sources.push_back(static_cast<int>(p_.nodes.size()));
    const int i = add(std::move(n), open_.size(), true, true);
    replace({});
    return i;
  }

  void grow(std::uint64_t steps, bool gates, bool renumber) {
    for (std::uint64_t k = 0; k < steps; ++k) {
      const std::size_t o = below(open_.size());
      const auto what = below(100);
      if (what < 35)
        map(o);
      else if (what < 50)
        join(o);
      else if (what < 62 && gates)
        buffer(o);
      else if (what < 74)
        expand(o);
      else if (what < 84 && gates && renumber)
        batch(o);
      else if (what < 91 && renumber)
        shuffle(o);
      else if (gates && open_[o].pure)
        cache(o);
    }
  }

  void traits(Item& n) {
    n.random = chance(40);
    n.ordered = chance(20);
    n.bad = chance(15);
    n.filter = chance(40) ? static_cast<int>(2 + below(6)) : 0;
    if (chance(3)) n.filter = 1;
    n.optional = chance(10);
    n.limit = chance(30) ? static_cast<int>(1 + below(2)) : 0;
    n.outs = chance(20) ? 2 : 1;
  }
  void map(std::size_t o) {
    Item n = fresh(Kind::map, "m", {o});
    traits(n);
    const bool pure = !n.random && !n.ordered;
    add(std::move(n), o, false, pure);
    replace({o});
  }
  void join(std::size_t o) {
    std::vector<std::size_t> same, used{o};
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (i != o && open_[i].domain == open_[o].domain) same.push_back(i);
    if (same.empty()) return map(o);
    used.push_back(same[below(same.size())]);
    if (same.size() > 1 && chance(30)) used.push_back(same[below(same.size())]);
    Item n = fresh(Kind::map, "j", used);
    traits(n);
    bool pure = !n.random && !n.ordered;
    for (std::size_t u : used) pure &= open_[u].pure;
    add(std::move(n), o, false, pure);
    replace(used);
  }
  void buffer(std::size_t o) {
    add(fresh(Kind::buffer, "b", {o}), o, false, true);
    replace({o});
  }
  void cache(std::size_t o) {
    add(fresh(Kind::cache, "c", {o}), o, false, true);
    replace({o});
  }
  void expand(std::size_t o) {
    Item n = fresh(Kind::expand, "x", {o});
    n.size = static_cast<int>(1 + below(4));
    if (open_[o].depth >= 3 || open_[o].children * n.size > 8) return map(o);
    traits(n);
    n.varies = chance(50);
    n.lists = chance(50);
    const int size = n.size;
    add(std::move(n), o, true, false);
    for (Open& m : made_) m.children *= size, ++m.depth;
    replace({o});
  }
  void batch(std::size_t o) {
    std::vector<std::size_t> used{o};
    for (std::size_t i = 0; i < open_.size() && used.size() < 2; ++i)
      if (i != o && open_[i].domain == open_[o].domain && chance(30)) used.push_back(i);
    Item n = fresh(Kind::batch, "n", used);
    n.size = static_cast<int>(1 + below(5));
    n.drop_last = chance(40);
    n.bad = chance(10);
    n.filter = chance(10) ? 4 : 0;
    n.limit = chance(30) ? 1 : 0;
    add(std::move(n), o, true, false);
    for (Open& m : made_) m.children = 1, m.depth = 0;
    replace(used);
  }
  void shuffle(std::size_t o) {
    Item n = fresh(Kind::shuffle, "w", {o});
    n.lane = 0;
    n.size = static_cast<int>(1 + below(6));
    add(std::move(n), o, true, false);
    for (Open& m : made_) m.children = 1, m.depth = 0;
    replace({o});
  }

  // Most outputs end in a sink; some lead nowhere.
  void finish() {
    for (std::size_t o = 0; o < open_.size(); ++o) {
      if (o > 0 && chance(25)) continue;
      std::vector<std::size_t> used{o};
      for (std::size_t i = 0; i < open_.size(); ++i)
        if (i != o && open_[i].domain == open_[o].domain && chance(20)) {
          used.push_back(i);
          break;
        }
      Item n = fresh(Kind::sink, "k", used);
      n.outs = 0;
      n.ordered = chance(70);
      n.holds = chance(15);
      add(std::move(n), o, false, false);
      made_.clear();
    }
  }

  // Everything before the region stays open beside it: side branches may be joined inside.
  int region(const char* name, int net) {
    const std::size_t o = below(open_.size());
    Item n = fresh(Kind::reader, name, {o});
    n.net = net;
    n.random = chance(30);
    n.filter = chance(20) ? 5 : 0;
    if (chance(70)) n.lane = 2;
    const int i = add(std::move(n), o, false, false);
    region_domain_ = made_.front().domain;
    std::vector<Open> beside;
    for (const Open& b : open_)
      if (b.domain == made_.front().domain && chance(30)) beside.push_back(b);
    open_ = made_;
    made_.clear();
    open_.insert(open_.end(), beside.begin(), beside.end());
    return i;
  }
  // One node that joins all that is open in the reader's domain: whatever comes then is behind.
  void join_region() {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i].domain == open_.front().domain) all.push_back(i);
    Item n = fresh(Kind::map, "r", all);
    traits(n);
    n.outs = 1;
    add(std::move(n), 0, false, false);
    open_ = made_;
    made_.clear();
  }

  int updater(int net) {
    const std::size_t o = below(open_.size());
    Item n = fresh(Kind::updater, "u", {o});
    n.net = net;
    if (chance(70)) n.lane = 2;
    const int i = add(std::move(n), o, false, false);
    open_.insert(open_.end(), made_.begin(), made_.end());
    made_.clear();
    return i;
  }

  void training() {
    p_.train = 0;
    p_.nets = 1;
    begin(14);
    grow(1 + below(5), true, true);
    const std::size_t o = below(open_.size());
    if (chance(60)) batch(o);
    const bool alone = chance(15);
    if (!alone) {
      region("f", 0);
      join_region();
      if (chance(25)) second_reader();
      inside();
    } else {  // an updater alone
      open_ = {open_[below(open_.size())]};
    }
    const int step = updater(0);
    int last = step;
    if (!alone && chance(40)) {
      p_.nets = 2;
      if (open_.back().domain == region_domain_ && chance(60)) reader_behind(step);
      last = updater(1);
    }
    behind();
    finish();
    const auto streams = 1 + below(3);
    for (std::uint64_t v = 0; v < streams; ++v) validation(chance(50) ? step : last);
  }
  void inside() {
    const auto steps = below(3);
    for (std::uint64_t k = 0; k < steps; ++k) {
      const std::size_t o = below(open_.size());
      chance(70) ? map(o) : expand(o);
    }
  }
  void second_reader() {
    const std::size_t o = below(open_.size());
    Item n = fresh(Kind::reader, "f", {o});
    n.net = 0;
    n.lane = 2;
    add(std::move(n), o, false, false);
    open_ = made_;  // it must feed the updater
    made_.clear();
  }
  // What the next updater gets has seen the step of this one.
  void reader_behind(int step) {
    std::erase_if(open_, [step](const Open& o) { return o.node != step; });
    Item n = fresh(Kind::reader, "f", {0});
    n.net = node(step).net;
    if (chance(70)) n.lane = 2;
    add(std::move(n), 0, false, false);
    open_ = made_;
    made_.clear();
  }
  void behind() {
    std::vector<Open> last{open_.back()};
    open_ = last;
    const bool renumbers = !resumes_ && chance(50);
    if (renumbers) {  // the region has no credit that a batch could hold back
      buffer(0);
      open_ = {open_.back()};
    }
    grow(below(3), true, renumbers);
  }
  void validation(int step) {
    const int s = begin(8);
    node(s).after = step;
    node(s).every = static_cast<int>(1 + below(3));
    grow(below(4), true, true);
    if (chance(85)) {
      region("v", static_cast<int>(below(static_cast<std::uint64_t>(p_.nets))));
      grow(below(4), true, true);
    }
    finish();
  }

  std::mt19937_64 rng_;
  const bool trains_, resumes_;
  Program p_;
  std::vector<Open> open_, made_;
  int region_domain_ = -1;
};

}  // namespace

Program random_program(std::uint64_t seed, bool trains, bool resumes) {
  return Generator(seed, trains, resumes).make();
}

std::string describe(const Program& p) {
  std::string s = "epochs " + std::to_string(p.epochs) + "\n";
  for (const Item& n : p.nodes) {
    s += "  " + n.path + " <-";
    for (auto [from, port] : n.from)
      s += " " + p.nodes[static_cast<std::size_t>(from)].path + "." + std::to_string(port);
    s += " size " + std::to_string(n.size) + (n.ordered ? " ordered" : "") +
         (n.random ? " random" : "") + (n.varies ? " varies" : "") +
         (n.drop_last ? " drop_last" : "") + (n.bad ? " bad" : "") +
         (n.says_size ? " says_size" : "") + (n.spares ? " spares" : "") +
         (n.items ? " items " + std::to_string(n.items) : "") +
         (n.asks_stopped ? " asks_stopped" : "") + (n.lists ? " lists" : "") +
         (n.optional ? " optional" : "") + (n.holds ? " holds" : "") + " filter " +
         std::to_string(n.filter) + " lane " + std::to_string(n.lane) + " limit " +
         std::to_string(n.limit) + (n.net >= 0 ? " net " + std::to_string(n.net) : "") +
         (n.after >= 0 ? " after, every " + std::to_string(n.every) : "") + "\n";
  }
  return s;
}

Value source_value(const Item& node, std::uint64_t item) { return {mix(node.salt ^ item), {}}; }

std::uint64_t source_item(const Item& node, std::uint64_t index, std::uint64_t epoch_key) {
  const auto size = static_cast<std::uint64_t>(node.size);
  const std::uint64_t item = node.permutes ? Permutation(size, epoch_key)(index) : index;
  return node.items ? item % static_cast<std::uint64_t>(node.items) : item;
}

Made work(const Item& node, const std::vector<std::vector<Value>>& in, Random draws,
          std::uint64_t state, std::uint64_t weight) {
  Made made;
  std::vector<std::uint64_t> members;
  std::uint64_t h = node.salt;
  for (const auto& port : in) {
    h = mix(h + 1);
    for (const Value& v : port) {
      h = mix(h ^ v.value);
      for (std::uint64_t m : v.members) h = mix(h ^ m);
      if (node.kind == Kind::batch) members.push_back(v.value);
    }
  }
  if (node.random) h = mix(h ^ draws.bits64());
  if (node.ordered) h = mix(h ^ state);
  if (node.net >= 0) h = mix(h ^ weight);
  made.hash = h;
  made.bad = node.bad && h % 7 == 0;
  if (made.bad) return made;
  std::uint64_t n = 1;
  if (node.kind == Kind::expand) n = static_cast<std::uint64_t>(node.size);
  if (node.varies) n = mix(h + 5) % (n + 1);
  for (std::uint64_t c = 0; c < n; ++c) {
    made.children.emplace_back();
    for (int port = 0; port < node.outs; ++port) {
      const std::uint64_t v = mix(h + 31 * c + 7 * static_cast<std::uint64_t>(port) + 1);
      const bool left_out = node.filter && v % static_cast<std::uint64_t>(node.filter) == 0;
      made.children.back().push_back(left_out ? std::optional<Value>()
                                              : std::optional<Value>({v, members}));
    }
  }
  return made;
}

}  // namespace sluice::sim
