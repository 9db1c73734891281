#include "engine/trace/trace_reader.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/protobuf.h"
#include "engine/base/read_file.h"
#include "engine/trace/trace_file.h"

namespace sluice {
namespace {

using protobuf::Field;
using protobuf::Reader;

class Decoder {
 public:
  TraceData data;

  void packet(std::string_view text) {
    Field f;
    std::uint64_t time = 0;
    std::string_view event;
    for (Reader r(text); r.next(f);) {
      if (f.number == 8) time = f.value;
      if (f.number == 11) event = f.bytes;
      if (f.number == 12) names(f.bytes);
      if (f.number == 60) track(f.bytes);
    }
    if (!event.empty()) track_event(event, time);
  }

 private:
  void names(std::string_view text) {
    Field f, g;
    for (Reader r(text); r.next(f);) {
      std::uint64_t id = 0;
      std::string name;
      for (Reader q(f.bytes); q.next(g);)
        (g.number == 1 ? (void)(id = g.value) : (void)(name = g.bytes));
      (f.number == 2 ? events_ : annotations_)[id] = name;
    }
  }

  void track(std::string_view text) {
    Field f;
    std::uint64_t id = 0;
    std::string name, about;
    bool is_thread = false;
    for (Reader r(text); r.next(f);) {
      if (f.number == 1) id = f.value;
      if (f.number == 2) name = f.bytes;
      if (f.number == 14) about = f.bytes;
      is_thread |= f.number == 4;
    }
    if (is_thread) data.threads.emplace_back(id, name);
    if (about.empty() || !name.starts_with(trace_queue)) return;
    std::istringstream lines(about);
    auto& inputs = data.inputs[name.substr(std::string_view(trace_queue).size())];
    inputs.clear();  // of another rank: the same
    for (std::string line; std::getline(lines, line);) inputs.push_back(line);
  }

  void track_event(std::string_view text, std::uint64_t time) {
    Field f;
    TraceSlice s;
    std::uint64_t type = 0;
    s.begin = time;
    for (Reader r(text); r.next(f);) {
      if (f.number == 9) type = f.value;
      if (f.number == 11) s.track = f.value;
      if (f.number == 10) s.name = events_[f.value];
      if (f.number == 47) s.flows.push_back(f.value);
      if (f.number == 4) annotation(f.bytes, s);
    }
    if (type == 2) {
      if (const auto open = open_.find(s.track); open != open_.end())
        data.slices[open->second].end = time;
      open_.erase(s.track);
    } else if (type == 1 || (type == 3 && !s.name.empty())) {
      s.is_instant = type == 3;
      if (s.is_instant) s.end = time;
      if (type == 1) open_[s.track] = data.slices.size();
      data.slices.push_back(std::move(s));
    }
  }

  void annotation(std::string_view text, TraceSlice& s) {
    Field f;
    std::string name;
    for (Reader r(text); r.next(f);) {
      if (f.number == 1) name = annotations_[f.value];
      if (f.number == 3)
        (name == "epoch" ? s.epoch : name == "index" ? s.index : s.child) = f.value;
      if (f.number == 6) (name == "in" ? s.in : s.sample) = f.bytes;
    }
  }

  std::map<std::uint64_t, std::string> events_, annotations_;
  std::map<std::uint64_t, std::size_t> open_;  // by track
};

// Of slices in their order by begin: a pass lies within the last body of its thread, but where that
// thread helped with another one's.
void take_passes_from_bodies(std::vector<TraceSlice>& slices) {
  std::map<std::uint64_t, TraceSlice*> body;  // by track
  for (TraceSlice& s : slices) {
    if (s.is_instant) continue;
    s.took = s.end > s.begin ? s.end - s.begin : 0;
    if (s.in.empty())
      body[s.track] = &s;
    else if (TraceSlice* of = body[s.track]; of && s.end <= of->end)
      of->took -= std::min(of->took, s.took);
  }
}

// Also of one that is cut short: the tag of the first packet, its size, and what TraceEncoder
// begins it with. The tag alone is a line break.
bool begins_a_trace(std::string_view text) {
  constexpr char tag = '\x0a', sequence = '\x50', names = '\x62';
  std::size_t at = 0;
  const auto is = [&](char c) { return at >= text.size() || text[at++] == c; };
  const auto number = [&] {
    while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80) ++at;
    ++at;
    return true;
  };
  return text.empty() || (is(tag) && number() && is(sequence) && number() && is(names));
}

}  // namespace

const std::string& TraceData::thread(std::uint64_t track) const {
  static const std::string none;
  for (const auto& [id, name] : threads)
    if (id == track) return name;
  return none;
}

std::vector<std::string> trace_files(const std::filesystem::path& run) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_directory(run, none)) return {run.string()};
  std::map<int, std::string> ranks;
  for (const auto& entry : fs::directory_iterator(run / "ranks", none))
    if (const auto file = entry.path() / "trace.pftrace"; fs::exists(file, none))
      ranks[std::atoi(entry.path().filename().c_str())] = file.string();
  std::vector<std::string> all{(run / "trace.pftrace").string()};
  for (auto& [rank, file] : ranks) all.push_back(std::move(file));
  return all;
}

std::string whole_trace(const std::vector<std::string>& files) {
  std::string all;
  for (const std::string& file : files) {
    const std::string text = read_text(file);
    if (!begins_a_trace(text)) throw DataError(file + ": is no trace of a run");
    Reader packets(text);
    for (Field f; packets.next(f);) {
    }
    all.append(text, 0, packets.position());
  }
  return all;
}

TraceData read_trace(const std::vector<std::string>& files) {
  const std::string text = whole_trace(files);
  Decoder decoder;
  Field f;
  for (Reader r(text); r.next(f);)
    if (f.number == 1) decoder.packet(f.bytes);
  auto& slices = decoder.data.slices;
  std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
    return a.begin < b.begin || (a.begin == b.begin && a.in < b.in);
  });
  take_passes_from_bodies(slices);
  for (std::size_t i = 0; i < slices.size(); ++i)
    for (const auto flow : slices[i].flows) decoder.data.of_flow[flow].push_back(i);
  return std::move(decoder.data);
}

namespace {

// When `node` had sent a life's sample to the body `to`: the same child, where that is known, else
// the last one; 0 where the node did nothing before it.
std::uint64_t sent_at(const TraceData& data, const std::vector<std::size_t>& life,
                      const std::string& node, const TraceSlice& to) {
  const bool gathers = to.flows.size() > 1;
  std::uint64_t last = 0, same_child = 0;
  for (const std::size_t i : life) {
    const TraceSlice& s = data.slices[i];
    if (s.name != node || !s.in.empty() || s.end > to.begin) continue;
    last = std::max(last, s.end);
    if (s.child == to.child) same_child = std::max(same_child, s.end);
  }
  return same_child && !gathers ? same_child : last;
}

// As ready_at(), for a body of whoever stands in `node`'s place. `seen`: the nodes that were asked
// about; each is once, also where a damaged file has them in a circle.
std::uint64_t sent_to(const TraceData& data, const std::vector<std::size_t>& life,
                      const std::string& node, const TraceSlice& to, std::set<std::string>& seen) {
  const auto inputs = data.inputs.find(node);
  if (inputs == data.inputs.end() || !seen.insert(node).second) return 0;
  std::uint64_t ready = 0;
  for (const std::string& input : inputs->second) {
    const std::uint64_t sent = sent_at(data, life, input, to);
    ready = std::max(ready, sent ? sent : sent_to(data, life, input, to, seen));  // a cache had it
  }
  return ready;
}

}  // namespace

std::uint64_t ready_at(const TraceData& data, const std::vector<std::size_t>& life,
                       const TraceSlice& slice) {
  std::set<std::string> seen;
  const std::uint64_t ready = slice.in.empty() ? sent_to(data, life, slice.name, slice, seen) : 0;
  return ready ? ready : slice.begin;
}

std::vector<std::size_t> life_of(const TraceData& data, std::size_t source) {
  std::set<std::uint64_t> flows;
  std::set<std::size_t> ahead{source};
  std::vector<std::size_t> life;
  while (!ahead.empty()) {
    const std::size_t i = *ahead.begin();
    ahead.erase(ahead.begin());
    life.push_back(i);
    const auto& own = data.slices[i].flows;  // a batch goes on under a number of its own
    if (own.empty() || !flows.insert(own.front()).second) continue;
    const auto& all = data.of_flow.at(own.front());
    ahead.insert(std::upper_bound(all.begin(), all.end(), i), all.end());
  }
  return life;
}

}  // namespace sluice
