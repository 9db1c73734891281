#include "tests/engine/interpreter.h"

#include <algorithm>
#include <tuple>

namespace sluice::sim {

std::string log_line(const std::string& stamp, const std::vector<std::vector<Value>>& in) {
  std::string s = stamp + " =";
  for (const auto& port : in)
    for (const Value& v : port) {
      s += " " + std::to_string(v.value);
      for (std::uint64_t m : v.members) s += "," + std::to_string(m);
    }
  return s;
}

std::string flush_line(std::uint32_t epoch, std::uint64_t state) {
  return "flush " + std::to_string(epoch) + " = " + std::to_string(state);
}

double number_of(std::uint64_t hash) { return static_cast<double>(hash >> 12); }

std::string told_line(const std::string& stamp, double value) {
  return stamp + " : " + std::to_string(static_cast<std::uint64_t>(value));
}

namespace {

// A stamp of the interpreter's own.
struct Place {
  int stream = 0, epoch = 0;
  std::uint64_t index = 0;
  std::vector<std::uint32_t> path;
  std::uint64_t item = 0;  // of the data: the first one's
  int members = 1;

  // Of one item, or one child of it: the same in every epoch.
  std::string id() const {
    std::string s = std::to_string(item);
    for (auto c : path) s += "." + std::to_string(c);
    return s;
  }
  std::string str() const {
    std::string s =
        std::to_string(stream) + "/" + std::to_string(epoch) + "/" + std::to_string(index);
    for (auto c : path) s += "." + std::to_string(c);
    return s;
  }
  // Only as the key of a draw.
  Stamp key() const {
    Stamp s;
    s.epoch = static_cast<std::uint32_t>(epoch);
    s.index = index;
    for (auto c : path) s.path[s.depth++] = c;
    return s;
  }
};

struct Parcel {
  Place place;
  std::optional<Value> value;  // nothing: a Skip
};

class Interpreter {
 public:
  explicit Interpreter(const Program& p) : p_(p), memory_(p.nodes.size()) {
    for (std::size_t i = 0; i < p.nodes.size(); ++i)
      memory_[i].waiting.resize(p.nodes[i].from.size());
    results_.weights.assign(static_cast<std::size_t>(p.nets), 1);
  }

  Results run(int stop_behind) {
    std::vector<int> done(p_.sources.size(), 0);
    auto turn = [&](int stream, int label) {
      results_.turns.push_back(std::to_string(stream) + "/" +
                               std::to_string(done_of(done, stream)));
      epoch(stream, done_of(done, stream)++, label);
      return static_cast<int>(results_.turns.size()) == stop_behind;
    };
    bool stopped = false;
    for (int e = 0; p_.train >= 0 && e < p_.epochs && !stopped; ++e) {
      stopped = turn(p_.train, e);
      for (int s = 0; s < streams() && !stopped; ++s) {
        const Item& source = node(p_.sources[static_cast<std::size_t>(s)]);
        if (source.after < 0) continue;
        if ((e + 1) % source.every == 0 || e + 1 == p_.epochs) stopped = turn(s, e);
      }
    }
    for (int s = 0; s < streams(); ++s)
      if (s != p_.train && node(p_.sources[static_cast<std::size_t>(s)]).after < 0)
        for (int e = 0; e < p_.epochs; ++e) epoch(s, e, e);
    return std::move(results_);
  }

 private:
  struct Memory {
    std::vector<std::vector<Parcel>> waiting;  // a join's ports
    std::vector<std::vector<Parcel>> group;    // batch: members; shuffle: the window
    std::map<std::string, Place> bad;          // by the sample's id, as it was first
    std::uint64_t ordinal = 0;
    std::uint64_t state = 0;
  };
  static int& done_of(std::vector<int>& done, int s) { return done[static_cast<std::size_t>(s)]; }
  int streams() const { return static_cast<int>(p_.sources.size()); }
  const Item& node(int i) const { return p_.nodes[static_cast<std::size_t>(i)]; }
  Memory& memory(int i) { return memory_[static_cast<std::size_t>(i)]; }
  Random draws(int i, const Place& place) const {
    return Random(random_key(p_.seed, node(i).path), place.key());
  }

  void epoch(int stream, int e, int label) {
    const int s = p_.sources[static_cast<std::size_t>(stream)];
    const auto n = static_cast<std::uint64_t>(node(s).size);
    const std::uint64_t key = random_key(p_.seed, node(s).path);
    const std::uint64_t order = mix(key ^ mix(static_cast<std::uint64_t>(e) + 0x5eedull));
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t item = source_item(node(s), i, order);
      const Place place{stream, e, i, {}, item};
      const Made made = work(node(s), {{source_value(node(s), item)}}, draws(s, place), 0, 0);
      if (made.bad) note_bad(s, place, place.str());
      emit(s, place, made.children, false);
    }
    for (int i = 0; i < static_cast<int>(p_.nodes.size()); ++i)
      if (node(i).stream == stream) end(i, e, label);
  }

  // All edges of one child before the next child.
  void emit(int i, const Place& place, const std::vector<std::vector<std::optional<Value>>>& made,
            bool expands) {
    bool any = node(i).outs == 0 && !made.empty();  // a sink that fired
    for (const auto& child : made)
      for (const auto& v : child) any |= v.has_value();
    if (any) ++results_.fired[node(i).path];
    const std::size_t n = any && expands ? made.size() : 1;
    for (std::size_t c = 0; c < n; ++c) {
      Place to = place;
      if (expands) to.path.push_back(static_cast<std::uint32_t>(c));
      for (int port = 0; port < node(i).outs; ++port)
        send(i, port, {to, any ? made[c][static_cast<std::size_t>(port)] : std::nullopt});
    }
  }
  // Ports of one child reach a join one after the other; it fires when it has them all.
  void send(int i, int port, const Parcel& parcel) {
    for (int to = 0; to < static_cast<int>(p_.nodes.size()); ++to)
      for (std::size_t in = 0; in < node(to).from.size(); ++in)
        if (node(to).from[in] == std::pair(i, port)) receive(to, in, parcel);
  }

  void receive(int i, std::size_t port, const Parcel& parcel) {
    auto& waiting = memory(i).waiting;
    waiting[port].push_back(parcel);
    for (const auto& w : waiting)
      if (w.empty()) return;
    std::vector<Parcel> in;
    for (auto& w : waiting) {
      in.push_back(w.front());
      w.erase(w.begin());
    }
    fire(i, in);
  }

  void fire(int i, const std::vector<Parcel>& in) {
    const Item& n = node(i);
    bool skip = false;
    for (const Parcel& p : in) skip |= !p.value;
    if (n.kind == Kind::batch || n.kind == Kind::shuffle) {
      if (skip) return;
      memory(i).group.push_back(in);
      return n.kind == Kind::batch ? batch(i, false) : shuffle(i, n.size - 1);
    }
    if (skip) return emit(i, in.front().place, {}, n.kind == Kind::expand);
    std::vector<std::vector<Value>> values;
    for (const Parcel& p : in) values.push_back({*p.value});
    body(i, in.front().place, in.front().place, values);
  }

  // `first`: where the first of what came in stands.
  void body(int i, const Place& place, const Place& first,
            const std::vector<std::vector<Value>>& in) {
    const Item& n = node(i);
    auto& state = memory(i).state;
    if (n.kind == Kind::cache) return emit(i, place, {{in.front().front()}}, false);
    const std::uint64_t weight = n.net >= 0 ? results_.weights[static_cast<std::size_t>(n.net)] : 0;
    const Made made = work(n, in, draws(i, place), state, weight);
    if (made.bad) {
      const bool one = in.front().size() == 1 && first.members == 1;
      note_bad(i, place, one ? first.id() : place.str());
      return emit(i, place, {}, n.kind == Kind::expand);
    }
    if (n.kind == Kind::updater) results_.weights[static_cast<std::size_t>(n.net)] = made.hash;
    if (n.ordered || n.kind == Kind::updater) {
      state = mix(state ^ made.hash);
      results_.told[n.path].push_back(told_line(place.str(), number_of(made.hash)));
    }
    if (n.kind == Kind::sink) results_.logs[n.path].push_back(log_line(place.str(), in));
    emit(i, place, made.children, n.kind == Kind::expand);
  }

  void batch(int i, bool rest) {
    auto& group = memory(i).group;
    if (static_cast<int>(group.size()) < (rest ? 1 : node(i).size)) return;
    const Place first = group.front().front().place;
    Place place = first;
    place.path.clear();
    place.index = memory(i).ordinal++;
    place.members = 0;
    std::vector<std::vector<Value>> values(node(i).from.size());
    for (const auto& member : group) {
      place.members += member.front().place.members;
      for (std::size_t port = 0; port < member.size(); ++port)
        values[port].push_back(*member[port].value);
    }
    group.clear();
    body(i, place, first, values);
  }

  void shuffle(int i, int keep) {
    auto& window = memory(i).group;
    while (static_cast<int>(window.size()) > keep) {
      Place place = window.front().front().place;
      place.path.clear();
      place.index = memory(i).ordinal++;
      const auto pick = draws(i, place).integer(window.size());
      const Value v = *window[pick].front().value;
      place.item = window[pick].front().place.item;
      place.members = window[pick].front().place.members;
      window.erase(window.begin() + static_cast<std::ptrdiff_t>(pick));
      emit(i, place, {{v}}, false);
    }
  }

  void note_bad(int i, const Place& place, const std::string& id) {
    results_.bad[node(i).path].insert(place.str());
    memory(i).bad.try_emplace(id, place);
  }
  // Of all that were bad so far the one behind those that are allowed, in the order of stamps.
  void judge(int i) {
    const auto allowed = static_cast<std::size_t>(p_.max_bad);
    if (memory(i).bad.size() <= allowed) return;
    std::vector<Place> bad;
    for (const auto& [id, place] : memory(i).bad) bad.push_back(place);
    std::sort(bad.begin(), bad.end(), [](const Place& a, const Place& b) {
      return std::tie(a.epoch, a.index, a.path) < std::tie(b.epoch, b.index, b.path);
    });
    results_.over.try_emplace(node(i).path, bad[allowed].str());
  }

  void end(int i, int, int label) {
    const Item& n = node(i);
    Memory& m = memory(i);
    if (n.kind == Kind::shuffle) shuffle(i, 0);
    if (n.kind == Kind::batch && !n.drop_last) batch(i, true);
    m.group.clear();
    m.ordinal = 0;
    judge(i);
    if (!n.ordered && n.kind != Kind::updater) return;
    results_.logs[n.path].push_back(flush_line(static_cast<std::uint32_t>(label), m.state));
    results_.told[n.path].push_back(
        told_line("flush " + std::to_string(label), number_of(m.state)));
    m.state = 0;
  }

  const Program& p_;
  std::vector<Memory> memory_;
  Results results_;
};

}  // namespace

Results interpret(const Program& program, int stop_behind) {
  return Interpreter(program).run(stop_behind);
}

}  // namespace sluice::sim
