// What is read of a trace whose packets are written here one by one, by Perfetto's numbers.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "engine/base/error.h"
#include "engine/base/protobuf.h"
#include "engine/trace/trace_reader.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using protobuf::Writer;

namespace {

enum EventType { begins = 1, ends = 2, happens = 3 };

struct Packets : TemporaryFolder {
  std::string text;

  Packets() {
    Writer names, first;
    for (const auto& [id, name] : {std::pair{1, "a"}, {2, "b"}, {3, "c"}})
      names.message(2, Writer().number(1, static_cast<std::uint64_t>(id)).bytes(2, name));
    for (const auto& [id, name] : {std::pair{1, "child"}, {2, "in"}})
      names.message(3, Writer().number(1, static_cast<std::uint64_t>(id)).bytes(2, name));
    first.number(10, 1).message(12, names);
    add(first);
  }
  void add(const Writer& packet) { text += Writer().message(1, packet).text; }
  void event(std::uint64_t time, EventType type, std::uint64_t track, std::uint64_t name = 0,
             const std::string& in = "") {
    Writer e, packet;
    if (type) e.number(9, type);
    e.number(11, track);
    if (name) e.number(10, name);
    if (!in.empty()) e.message(4, Writer().number(1, 2).bytes(6, in));
    packet.number(8, time).message(11, e);
    add(packet);
  }
  void slice(std::uint64_t begin, std::uint64_t end, std::uint64_t track, std::uint64_t name,
             const std::string& in = "") {
    event(begin, begins, track, name, in);
    event(end, ends, track);
  }
  TraceData read() const { return read_trace({write_text("trace", text).string()}); }
};

TraceSlice body(const std::string& name, std::uint64_t begin, std::uint64_t end,
                std::uint64_t child = 0, const std::vector<std::uint64_t>& flows = {1}) {
  TraceSlice s;
  s.name = name;
  s.begin = begin;
  s.end = end;
  s.child = child;
  s.flows = flows;
  return s;
}

}  // namespace

TEST_CASE("an end closes what began last on its track, once") {
  Packets p;
  p.event(10, begins, 7, 1);
  p.event(12, begins, 8, 2);
  p.event(20, ends, 7);
  p.event(30, ends, 7);  // of what had begun before the trace did
  p.event(40, ends, 9);
  const TraceData data = p.read();
  REQUIRE(data.slices.size() == 2);
  CHECK(data.slices[0].name == "a");
  CHECK(data.slices[0].end == 20);
  CHECK(data.slices[0].took == 10);
  CHECK(data.slices[1].name == "b");
  CHECK(data.slices[1].end == 0);  // the trace was cut off
  CHECK(data.slices[1].took == 0);
}

TEST_CASE("an instant is a slice where it has a node's name, and takes no time") {
  Packets p;
  p.event(5, happens, 7, 3);
  p.event(6, happens, 7);
  p.event(7, EventType{}, 7, 2);  // that does not say what it is
  const TraceData data = p.read();
  REQUIRE(data.slices.size() == 1);
  CHECK(data.slices[0].is_instant);
  CHECK(data.slices[0].end == 5);
  CHECK(data.slices[0].took == 0);
}

TEST_CASE("a body's time is without the passes in it, but not without another body's") {
  Packets p;
  p.event(10, begins, 7, 1);
  p.slice(10, 14, 7, 2, "a");  // begins with its body
  p.slice(15, 16, 7, 3, "a");
  p.event(16, ends, 7);
  p.slice(20, 30, 8, 2);
  p.slice(25, 31, 8, 3, "b");  // ends behind it: its thread helped with another body
  const TraceData data = p.read();
  std::string said;
  for (const TraceSlice& s : data.slices)
    said += s.name + " " + std::to_string(s.begin) + "+" + std::to_string(s.took) + "; ";
  // The first body's end is that of the last one that was open on its track.
  CHECK(said == "a 10+0; b 10+4; c 15+1; b 20+10; c 25+6; ");
}

TEST_CASE("only threads are threads, and what a node reads is its queue's description") {
  Packets p;
  const auto track = [&](const Writer& w) {
    Writer packet;
    packet.message(60, w);
    p.add(packet);
  };
  track(Writer().number(1, 7).bytes(2, "t").message(4, Writer().number(2, 5)));
  track(Writer().number(1, 8).bytes(2, "resident memory"));
  for (int rank = 0; rank < 2; ++rank)  // of each rank, the same
    track(Writer().number(1, 9).bytes(2, "queue of c").bytes(14, "a\nb"));
  track(Writer().number(1, 10).bytes(2, "other").bytes(14, "a"));
  const TraceData data = p.read();
  CHECK(data.threads.size() == 1);
  CHECK(data.thread(7) == "t");
  CHECK(data.thread(8).empty());
  CHECK(data.inputs.size() == 1);
  CHECK(data.inputs.at("c") == std::vector<std::string>{"a", "b"});
}

TEST_CASE("what does not begin as a trace does is refused, a cut beginning is not") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    return message_of([&] { read_trace({folder.write_text("f", text).string()}); });
  };
  const std::string refused = (folder / "f").string() + ": is no trace of a run";
  const std::string whole = Packets().text;
  for (std::size_t n = 0; n <= 5; ++n) CHECK(read(whole.substr(0, n)) == "");
  CHECK(read("{}") == refused);
  CHECK(read("\x0b" + whole.substr(1)) == refused);
  CHECK(read("\n\x02\x51\x01") == refused);          // another field than a sequence
  CHECK(read("\n\x04\x50\x01\x68\x01") == refused);  // no names behind it
  // Sizes and sequences of two bytes.
  CHECK(read(std::string("\n\x84\x01\x50\x85\x01\x62\x00", 8)) == "");
  CHECK(read("\n\x84\x01\x50\x85\x01\x63") == refused);
  CHECK_THROWS_AS(read_trace({(folder / "none").string()}), IoError);
}

TEST_CASE("a run's traces are rank 0's and the others' by number") {
  const TemporaryFolder folder;
  for (const char* file : {"ranks/10/trace.pftrace", "ranks/2/trace.pftrace", "ranks/3/other"})
    folder.write_text(file, "");
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  CHECK(trace_files(folder.path) == std::vector{at("trace.pftrace"), at("ranks/2/trace.pftrace"),
                                                at("ranks/10/trace.pftrace")});
  CHECK(trace_files(folder / "ranks/3") == std::vector{at("ranks/3/trace.pftrace")});
  CHECK(trace_files(folder / "ranks/3/other") == std::vector{at("ranks/3/other")});
}

TEST_CASE("a child waits for its own sample, a batch for the last of its members") {
  TraceData data;
  data.inputs["b"] = {"a"};
  data.slices = {body("a", 10, 20, 1), body("a", 20, 30, 2), body("a", 35, 60, 3)};
  const std::vector<std::size_t> life{0, 1, 2, 3};
  const auto ready = [&](const TraceSlice& last) {
    data.slices.resize(3);
    data.slices.push_back(last);
    return ready_at(data, life, last);
  };
  CHECK(ready(body("b", 40, 50, 1)) == 20);
  CHECK(ready(body("b", 40, 50, 2)) == 30);
  CHECK(ready(body("b", 40, 50, 9)) == 30);  // whose child is not known: the last one before it
  CHECK(ready(body("b", 40, 50, 1, {4, 1, 2})) == 30);
  CHECK(ready(body("b", 30, 50, 2)) == 30);  // sent as it began
  CHECK(ready(body("b", 29, 50, 2)) == 20);
  TraceSlice pass = body("b", 40, 50, 1);
  pass.in = "c";
  CHECK(ready(pass) == 40);
  CHECK(ready(body("b", 15, 50)) == 15);  // nothing was sent before
  data.inputs["b"] = {"cache"};           // which had it, so it waits for what that reads
  data.inputs["cache"] = {"a"};
  CHECK(ready(body("b", 40, 50, 1)) == 20);
  data.slices[1].in = "c";  // a pass sends nothing
  CHECK(ready(body("b", 40, 50, 2)) == 20);
}

TEST_CASE("a life goes on under the number that a batch has of its own") {
  TraceData data;
  data.slices = {body("s", 1, 2, 0, {1}),       body("s", 3, 4, 0, {2}),
                 body("a", 5, 6, 0, {1}),       body("batch", 7, 8, 0, {9, 1, 2}),
                 body("step", 9, 10, 0, {9}),   body("a", 11, 12, 0, {2}),
                 body("nothing", 13, 14, 0, {})};
  for (std::size_t i = 0; i < data.slices.size(); ++i)
    for (const auto flow : data.slices[i].flows) data.of_flow[flow].push_back(i);
  CHECK(life_of(data, 0) == std::vector<std::size_t>{0, 2, 3, 4});
  CHECK(life_of(data, 1) == std::vector<std::size_t>{1, 3, 4, 5});
  CHECK(life_of(data, 3) == std::vector<std::size_t>{3, 4});
  CHECK(life_of(data, 6) == std::vector<std::size_t>{6});
}
