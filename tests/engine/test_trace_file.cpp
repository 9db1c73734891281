// A run's trace: written while it runs, read back, cut anywhere.
#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/protobuf.h"
#include "engine/base/warnings.h"
#include "engine/trace/trace_file.h"
#include "engine/trace/trace_reader.h"
#include "tests/engine/toy.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

// 12 samples, two crops each, shuffled, in batches of three, two epochs.
struct Traced {
  Builder b;
  TemporaryFolder folder;
  std::filesystem::path file = folder / "trace.pftrace";
  explicit Traced(std::uint64_t n = 12) {
    b.graph.run.epochs = 2;
    const int s = b.source("cases", n);
    const int crop = b.add("crop", expand_spec(),
                           [](Firing& f) {
                             f.emit(Sample(2 * f.in().value));
                             f.emit(Sample(2 * f.in().value + 1));
                           },
                           {{s, 0}}, {{"n", 2}});
    const int mixed = b.add("mixed", shuffle_spec(), [](Firing&) {}, {{crop, 0}}, {{"n", 4}});
    const int batch = b.add("batch", batch_spec(), join_members, {{mixed, 0}},
                            {{"size", 3}, {"n", 2}, {"drop_last", false}});
    b.add("step", sink("step"), [](Firing&) {}, {{batch, 0}});
    REQUIRE(b.plan());
  }
  void run(std::uint64_t most_bytes = 1 << 20) {
    RunEvents silent;
    RunOptions o;
    o.background = false;
    Scheduler scheduler(*b.made, b.pointers(), o, silent);
    TraceFile trace(
        file, *b.made, scheduler.events(), [&] { return scheduler.readings(); }, {}, most_bytes);
    CHECK(scheduler.run().status == Outcome::Status::done);
  }
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Packets as text, by the numbers of Perfetto's TracePacket: "8=1000 10=1 11{9=1 10=2}", a line
// each. Tracks of rank 2 are "2:1000"; which flow is which stands in the order in which they are
// met.
std::string packets_of(const std::string& trace) {
  std::map<std::uint64_t, std::size_t> flows;
  const auto number = [&](const protobuf::Field& f) {
    if (f.type == 1)
      return "flow " + std::to_string(flows.try_emplace(f.value, flows.size()).first->second);
    if (f.value == static_cast<std::uint64_t>(getpid())) return std::string("pid");
    const std::string rank = f.value >> 32 ? std::to_string(f.value >> 32) + ":" : "";
    return rank + std::to_string(f.value & 0xffffffff);
  };
  const std::set<std::string> messages{"/1",      "/1/11", "/1/11/4", "/1/12",   "/1/12/2",
                                       "/1/12/3", "/1/60", "/1/60/3", "/1/60/4", "/1/60/8"};
  const std::function<std::string(std::string_view, const std::string&)> text =
      [&](std::string_view message, const std::string& path) {
        std::string out;
        protobuf::Field f;
        for (protobuf::Reader r(message); r.next(f);) {
          const std::string at = path + "/" + std::to_string(f.number);
          if (path.empty()) {
            out += "\n" + text(f.bytes, at);
            continue;
          }
          out += (out.empty() ? "" : " ") + std::to_string(f.number);
          if (messages.contains(at))
            out += "{" + text(f.bytes, at) + "}";
          else
            out += "=" + (f.type == 2 ? "'" + std::string(f.bytes) + "'" : number(f));
        }
        return out;
      };
  return text(trace, "");
}

}  // namespace

TEST_CASE(
    "a trace holds every body, closed, and each sample's way from its source to the last node") {
  Traced t;
  t.run();
  const TraceData data = read_trace({t.file.string()});
  std::map<std::string, int> bodies;
  for (const TraceSlice& s : data.slices) {
    if (!s.is_instant) {
      ++bodies[s.name];
      CHECK(s.end >= s.begin);
      CHECK(!data.thread(s.track).empty());
    }
  }
  CHECK(bodies["crop"] == 24);
  CHECK(bodies["batch"] == 16);
  CHECK(bodies["step"] == 16);
  std::set<std::string> samples;
  for (std::size_t i = 0; i < data.slices.size(); ++i) {
    if (data.slices[i].sample.empty()) continue;
    samples.insert(data.slices[i].sample);
    std::map<std::string, int> met;
    for (const std::size_t k : life_of(data, i)) ++met[data.slices[k].name];
    CHECK(met["cases"] == 1);
    CHECK(met["crop"] == 1);
    CHECK(met["mixed"] == 2);  // once for each crop
    CHECK(met["batch"] >= 1);
    CHECK(met["batch"] <= 2);
    CHECK(met["step"] == met["batch"]);
  }
  CHECK(samples.size() == 12);
}

// By the numbers of Perfetto's TracePacket, TrackDescriptor and what that holds.
TEST_CASE("a trace says of its tracks which process, threads and counters they are") {
  Traced t;
  t.run();
  const auto field = [](std::string_view message, int number) {
    protobuf::Field f, found;
    for (protobuf::Reader r(message); r.next(f);)
      if (f.number == number) found = f;
    return found;
  };
  const std::string text = text_of(t.file);
  std::map<std::uint64_t, std::string_view> tracks;
  std::size_t packets = 0;
  protobuf::Field f;
  for (protobuf::Reader r(text); r.next(f); ++packets) {
    CHECK(f.number == 1);
    CHECK(field(f.bytes, 10).value == 1);                  // one sequence of packets,
    CHECK(field(f.bytes, 13).value == (packets ? 2 : 1));  // whose state the first one begins
    const std::string_view track = field(f.bytes, 60).bytes;
    if (track.empty()) continue;
    CHECK(field(f.bytes, 8).number == 0);  // no time
    tracks[field(track, 1).value] = track;
  }
  const auto self = static_cast<std::uint64_t>(getpid());
  std::uint64_t process = 0;
  int threads = 0, queues = 0;
  for (const auto& [id, track] : tracks)
    if (field(track, 2).bytes == "sluice " + t.b.made->graph->name) process = id;
  REQUIRE(process != 0);
  CHECK(field(field(tracks[process], 3).bytes, 1).value == self);
  for (const auto& [id, track] : tracks) {
    const std::string name(field(track, 2).bytes);
    CAPTURE(name);
    if (field(track, 4).number == 4) {
      const std::string_view thread = field(track, 4).bytes;
      CHECK(field(thread, 1).value == self);
      CHECK(field(thread, 2).value > 0);
      CHECK(field(thread, 5).bytes == name);
      ++threads;
    } else if (id != process) {
      CHECK(field(track, 5).value == process);
      const bool bytes = name == "resident memory";
      CHECK(field(field(track, 8).bytes, 3).value == (bytes ? 3 : 2));  // Unit: bytes, a count
      queues += name.starts_with(trace_queue);
    }
  }
  CHECK(threads > 0);
  CHECK(queues == 4);
}

TEST_CASE("bodies, passes, links and counters are packets of these numbers") {
  Builder b;
  b.graph.name = "g";
  const int s = b.source("s", 1);
  const int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 2}});
  const int mixed = b.add("mixed", shuffle_spec(), [](Firing&) {}, {{batch, 0}}, {{"n", 2}});
  const int k = b.add("k", sink("k"), [](Firing&) {}, {{mixed, 0}});
  REQUIRE(b.plan());
  TraceEncoder encoder(*b.made, {.rank = 2, .behind_ns = 5});
  CHECK(packets_of(encoder.take()) == R"(
10=3 12{2{1=1 2='s'} 2{1=2 2='batch'} 2{1=3 2='mixed'} 2{1=4 2='k'} 3{1=1 2='epoch'} )"
                                      R"(3{1=2 2='index'} 3{1=3 2='child'} 3{1=4 2='sample'} )"
                                      R"(3{1=5 2='in'}} 13=1
10=3 13=2 60{1=2:1 2='sluice g, rank 2' 3{1=pid}}
10=3 13=2 60{1=2:2 2='resident memory' 5=2:1 8{3=3}}
10=3 13=2 60{1=2:1000001 2='queue of batch' 5=2:1 8{3=2} 14='s'}
10=3 13=2 60{1=2:1000002 2='queue of mixed' 5=2:1 8{3=2} 14='batch'}
10=3 13=2 60{1=2:1000003 2='queue of k' 5=2:1 8{3=2} 14='mixed'})");
  encoder.thread(0, "t", 7);
  encoder.thread(1, "u", 8);
  CHECK(packets_of(encoder.take()) == R"(
10=3 13=2 60{1=2:1000 2='rank 2, t' 4{1=pid 2=7 5='rank 2, t'}}
10=3 13=2 60{1=2:1001 2='rank 2, u' 4{1=pid 2=8 5='rank 2, u'}})");

  Event e;
  const auto made = [&](std::size_t ring) {
    encoder.event(ring, e);
    return packets_of(encoder.take());
  };
  encoder.named({s, 1, 4, "x"});
  e.node = s;
  e.start = 10;
  e.end = 20;
  e.epoch = 1;
  e.index = 4;
  CHECK(made(0) == R"(
8=15 10=3 13=2 11{9=1 11=2:1000 10=1 47=flow 0 4{1=2 3=4} 4{1=4 6='x'} 4{1=1 3=1}}
8=25 10=3 13=2 11{9=2 11=2:1000})");
  CHECK(made(0).find("'x'") == std::string::npos);  // once a sample

  e.node = batch;
  e.kind = Event::Kind::link;
  e.index = 2;
  e.from_epoch = 1;
  for (e.from_index = 4; e.from_index < 6; ++e.from_index)
    CHECK(made(1).empty());  // they are told with the batch's body
  e.kind = Event::Kind::body;
  e.child = 3;
  CHECK(made(1) == R"(
8=15 10=3 13=2 11{9=1 11=2:1001 10=2 47=flow 0 47=flow 1 47=flow 2 4{1=2 3=2} 4{1=3 3=3} )"
                   R"(4{1=1 3=1}}
8=25 10=3 13=2 11{9=2 11=2:1001})");
  CHECK(made(1).find("flow 1") == std::string::npos);  // the next one has members of its own

  e.node = mixed;
  e.kind = Event::Kind::link;
  CHECK(made(1) == R"(
8=15 10=3 13=2 11{9=3 11=2:1001 10=3 47=flow 0 47=flow 1})");
  e.node = k;
  e.kind = Event::Kind::flush;
  CHECK(made(0) == R"(
8=15 10=3 13=2 11{9=1 11=2:1000 10=4 4{1=1 3=1}}
8=25 10=3 13=2 11{9=2 11=2:1000})");
  e.kind = Event::Kind::pass;
  e.owner = mixed;
  CHECK(made(0) == R"(
8=15 10=3 13=2 11{9=1 11=2:1000 10=3 47=flow 0 4{1=2 3=2} 4{1=3 3=3} 4{1=5 6='k'} 4{1=1 3=1}}
8=25 10=3 13=2 11{9=2 11=2:1000})");

  std::vector<Reading> readings(4);
  for (std::size_t i = 0; i < readings.size(); ++i) readings[i].queue = i;
  encoder.counters(100, readings, 4096);
  CHECK(packets_of(encoder.take()) == R"(
8=105 10=3 13=2 11{9=4 11=2:2 30=4096}
8=105 10=3 13=2 11{9=4 11=2:1000001 30=1}
8=105 10=3 13=2 11{9=4 11=2:1000002 30=2}
8=105 10=3 13=2 11{9=4 11=2:1000003 30=3})");
  readings[2].queue = 7;
  encoder.counters(200, readings, 8192);  // a queue that is as it was is not said again
  CHECK(packets_of(encoder.take()) == R"(
8=205 10=3 13=2 11{9=4 11=2:2 30=8192}
8=205 10=3 13=2 11{9=4 11=2:1000002 30=7})");
  encoder.left_out(300, 12);
  CHECK(packets_of(encoder.take()) == R"(
8=305 10=3 13=2 11{9=3 11=2:1 23='left out: 12 events'})");
}

TEST_CASE("a trace that is cut anywhere reads up to there") {
  Traced t(3);
  t.run();
  const std::string whole = text_of(t.file);
  const std::size_t all = read_trace({t.file.string()}).slices.size();
  std::size_t before = 0;
  for (std::size_t n = 0; n <= whole.size(); ++n) {
    const auto cut = t.folder.path / "cut";
    std::ofstream(cut, std::ios::binary).write(whole.data(), static_cast<std::streamsize>(n));
    const TraceData data = read_trace({cut.string()});
    CHECK(data.slices.size() >= before);
    before = data.slices.size();
  }
  CHECK(before == all);
}

TEST_CASE("a trace does not exceed its bound, and the run goes on") {
  Traced t(400);
  forget_warnings();
  t.run(20'000);
  CHECK(std::filesystem::file_size(t.file) <= 20'000);
  CHECK(!text_of(t.file).empty());
  REQUIRE(warnings().size() == 1);
  CHECK(warnings().front().find("the trace ends here, at its bound") != std::string::npos);
}

TEST_CASE("a trace that finds no space ends and says so once, and the run goes on") {
  Traced t(400);
  t.file = "/dev/full";
  forget_warnings();
  t.run();
  REQUIRE(warnings().size() == 1);
  CHECK(warnings().front() == "/dev/full: the trace ends here: No space left on device");
  t.file = t.folder / "missing/trace.pftrace";
  CHECK_THROWS_WITH_AS(t.run(), doctest::Contains(("cannot write " + t.file.string()).c_str()),
                       IoError);
}

TEST_CASE("a trace says how many events found no room") {
  Traced t;
  EventRings rings(8);
  {
    TraceFile trace(t.file, *t.b.made, rings, [] { return std::vector<Reading>(); });
    for (std::uint64_t i = 0; i < 100; ++i) {
      Event e;
      e.node = 0;
      e.index = i;
      rings.record(e);
    }
  }
  REQUIRE(rings.lost() > 0);
  const std::string text = text_of(t.file);
  CHECK(text.find("left out: " + std::to_string(rings.lost()) + " events") != text.npos);
  CHECK(read_trace({t.file.string()}).slices.size() == 100 - rings.lost());
}

TEST_CASE("lives are found in no more than the time of their own length") {
  Builder b;
  const int s = b.source("s", 1);
  const int a = b.add("a", plain("a"), forward, {{s, 0}});
  const int k = b.add("k", sink("k"), [](Firing&) {}, {{a, 0}});
  REQUIRE(b.plan());
  TraceEncoder encoder(*b.made);
  encoder.thread(0, "t", 1);
  constexpr std::uint64_t samples = 50'000;
  for (std::uint64_t i = 0; i < samples; ++i)
    for (const int node : {s, a, k}) {
      Event e;
      e.start = static_cast<std::int64_t>(10 * (3 * i + 1)) + 10 * node;
      e.end = e.start + 5;
      e.index = i;
      e.node = node;
      if (node == s) encoder.named({node, 0, i, "x"});
      encoder.event(0, e);
    }
  TemporaryFolder folder;
  const auto file = folder / "trace";
  std::ofstream(file, std::ios::binary) << encoder.take();
  const TraceData data = read_trace({file.string()});
  REQUIRE(data.slices.size() == 3 * samples);
  for (std::size_t i = 0; i < data.slices.size(); i += 3)
    REQUIRE(life_of(data, i) == std::vector<std::size_t>{i, i + 1, i + 2});
}

TEST_CASE("traces of several ranks are one: lives apart, by one clock") {
  Builder b;
  const int s = b.source("s", 1);
  const int k = b.add("k", sink("k"), [](Firing&) {}, {{s, 0}});
  REQUIRE(b.plan());
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "ranks/1");
  const auto write = [&](const TraceOrigin& origin, const std::filesystem::path& file) {
    TraceEncoder encoder(*b.made, origin);
    encoder.thread(0, "t", 1);
    encoder.named({s, 0, 0, "of " + std::to_string(origin.rank)});
    for (const int node : {s, k}) {
      Event e;
      e.node = node;
      e.start = 1000 + 10 * node;
      e.end = e.start + 5;
      encoder.event(0, e);
    }
    std::ofstream(file, std::ios::binary) << encoder.take();
  };
  write({.rank = 0}, folder / "trace.pftrace");
  write({.rank = 1, .behind_ns = 500}, folder / "ranks/1/trace.pftrace");
  const std::string first = text_of(folder / "trace.pftrace");
  const std::string torn = first + first.substr(0, 7);  // a kill within its last packet
  std::ofstream(folder / "trace.pftrace", std::ios::binary) << torn;
  const auto files = trace_files(folder.path);
  REQUIRE(files.size() == 2);
  CHECK(whole_trace(files) == first + text_of(folder / "ranks/1/trace.pftrace"));
  const TraceData data = read_trace(files);
  REQUIRE(data.slices.size() == 4);
  std::vector<std::string> lives;
  for (const std::size_t i : {0, 2}) {
    const auto life = life_of(data, i);
    REQUIRE(life.size() == 2);
    const TraceSlice& last = data.slices[life.back()];
    lives.push_back(data.slices[i].sample + " at " + std::to_string(data.slices[i].begin) + ", " +
                    last.name + " at " + std::to_string(last.begin) + " in " +
                    data.thread(last.track));
  }
  CHECK(lives == std::vector<std::string>{"of 0 at 1000, k at 1010 in rank 0, t",
                                          "of 1 at 1500, k at 1510 in rank 1, t"});
  CHECK(data.inputs.at("k") == std::vector<std::string>{"s"});
}

TEST_CASE("what waits at a fork waits from the end of the node that it reads") {
  Builder b;
  const int s = b.source("s", 1);
  const int a = b.add("a", plain("a"), forward, {{s, 0}});
  const int left = b.add("left", sink("left"), [](Firing&) {}, {{a, 0}});
  const int right = b.add("right", sink("right"), [](Firing&) {}, {{a, 0}});
  REQUIRE(b.plan());
  TraceEncoder encoder(*b.made);
  encoder.thread(0, "t", 1);
  encoder.named({s, 0, 0, "x"});
  const auto body = [&](int node, std::int64_t start, std::int64_t end) {
    Event e;
    e.node = node;
    e.start = start;
    e.end = end;
    encoder.event(0, e);
  };
  body(s, 10, 20);
  body(a, 25, 40);
  body(left, 50, 90);
  body(right, 95, 99);
  TemporaryFolder folder;
  const auto file = folder / "trace";
  std::ofstream(file, std::ios::binary) << encoder.take();
  const TraceData data = read_trace({file.string()});
  const auto life = life_of(data, 0);
  REQUIRE(life.size() == 4);
  std::vector<std::uint64_t> ready;
  for (const std::size_t i : life) ready.push_back(ready_at(data, life, data.slices[i]));
  CHECK(ready == std::vector<std::uint64_t>{10, 20, 40, 40});
}

TEST_CASE("what waits is found where nodes read each other in a circle, or by many ways") {
  TraceData data;
  data.inputs["a"] = {"b"};
  data.inputs["b"] = {"a"};
  const auto name = [](int i) { return "n" + std::to_string(i); };
  for (int i = 0; i < 60; ++i) data.inputs[name(i)] = {name(i + 1), name(i + 1)};
  TraceSlice first, last;
  first.name = name(60);
  first.begin = 1;
  first.end = 2;
  last.name = name(0);
  last.begin = 5;
  data.slices = {first, last};
  CHECK(ready_at(data, {0, 1}, last) == 2);
  last.name = "a";
  CHECK(ready_at(data, {0, 1}, last) == 5);
}

TEST_CASE("a full ring drops what is new and counts it, and what is kept is in order") {
  EventRings rings(8);
  rings.start();
  for (std::uint64_t i = 0; i < 20; ++i) {
    Event e;
    e.index = i;
    rings.record(e);
  }
  struct Seen final : EventRings::Sink {
    std::vector<std::uint64_t> indices;
    int threads = 0;
    void thread(std::size_t, const std::string&, int) override { ++threads; }
    void event(std::size_t, const Event& e) override { indices.push_back(e.index); }
    void named(const EventRings::Named&) override {}
  } seen;
  rings.drain(seen);
  CHECK(seen.indices == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(rings.lost() == 12);
  rings.record(Event{});  // there is room again
  rings.drain(seen);
  CHECK(seen.indices.size() == 9);
  CHECK(seen.threads == 1);  // a thread is told once
  CHECK(rings.lost() == 12);
}

TEST_CASE("events of several threads arrive while they are recorded") {
  EventRings rings(1 << 10);
  rings.start();
  struct Count final : EventRings::Sink {
    std::map<std::size_t, std::uint64_t> next;
    bool in_order = true;
    void thread(std::size_t, const std::string&, int) override {}
    void event(std::size_t ring, const Event& e) override {
      in_order = in_order && e.index >= next[ring];
      next[ring] = e.index + 1;
    }
    void named(const EventRings::Named&) override {}
  } count;
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t k = 0; k < 20'000; ++k) {
        Event e;
        e.index = k;
        rings.record(e);
      }
      --running;
    });
  while (running > 0) rings.drain(count);
  for (auto& thread : threads) thread.join();
  rings.drain(count);
  CHECK(count.in_order);
  CHECK(count.next.size() == 3);
}

TEST_CASE("protocol buffers read what was written and stop at what is no field") {
  protobuf::Writer w;
  w.number(1, 300).bytes(2, "ab").fixed64(47, 7).real(3, 1.5);
  protobuf::Reader r(w.text);
  protobuf::Field f;
  REQUIRE(r.next(f));
  CHECK(f.value == 300);
  REQUIRE(r.next(f));
  CHECK(f.bytes == "ab");
  REQUIRE(r.next(f));
  CHECK((f.number == 47 && f.value == 7));
  REQUIRE(r.next(f));
  CHECK(!r.next(f));
  for (const std::string bad : {"\xff",
                                "\x0a\x05"
                                "a",
                                "\x09", "\x0f", "\x08\x80"}) {
    protobuf::Reader cut(bad);
    CHECK(!cut.next(f));
    CHECK(cut.position() == 0);
  }
}
