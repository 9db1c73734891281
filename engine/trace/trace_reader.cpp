#include "engine/trace/trace_reader.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/protobuf.h"
#include "engine/base/read_file.h"

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
    std::string name;
    bool is_thread = false;
    for (Reader r(text); r.next(f);) {
      if (f.number == 1) id = f.value;
      if (f.number == 2) name = f.bytes;
      is_thread |= f.number == 4;
    }
    if (is_thread) data.threads.emplace_back(id, name);
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

}  // namespace

const std::string& TraceData::thread(std::uint64_t track) const {
  static const std::string none;
  for (const auto& [id, name] : threads)
    if (id == track) return name;
  return none;
}

TraceData read_trace(const std::string& file) {
  const std::string text = read_text(file);
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
