// What an exception means, and which samples are quarantined for one.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <new>
#include <sstream>
#include <system_error>

#include "engine/base/cause.h"
#include "engine/base/durable_file.h"
#include "engine/base/message.h"
#include "engine/base/read_file.h"
#include "engine/base/system_call.h"
#include "engine/cache/file_digests.h"
#include "tests/engine/toy.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

using Throw = std::function<void()>;

Cause of(const Throw& body, Exit otherwise = Exit::data) {
  try {
    body();
  } catch (...) {
    return cause(otherwise);
  }
  return {};
}

const char* const torch_text =
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)\n"
    "Exception raised from alloc_cpu at alloc_cpu.cpp:127 (most recent call first):\nframe #0: x\n";

struct Example {
  const char* name;
  Throw body;
  Exit exit;
  bool of_machine;
};

const std::vector<Example> examples{
    {"bad_alloc", [] { throw std::bad_alloc(); }, Exit::memory, true},
    {"LibTorch's", [] { throw std::runtime_error(torch_text); }, Exit::memory, true},
    {"CUDA's", [] { throw std::runtime_error("CUDA out of memory. Tried"); }, Exit::memory, true},
    {"ENOMEM", [] { throw std::system_error(ENOMEM, std::generic_category()); }, Exit::memory,
     true},
    {"EMFILE", [] { throw std::system_error(EMFILE, std::generic_category()); }, Exit::io, true},
    {"ENFILE", [] { throw std::system_error(ENFILE, std::system_category()); }, Exit::io, true},
    {"EIO", [] { throw std::system_error(EIO, std::generic_category()); }, Exit::io, false},
    {"a call's EMFILE", [] { fail_call("cannot open x", EMFILE); }, Exit::io, true},
    {"a call's ENOMEM", [] { fail_call("cannot open x", ENOMEM); }, Exit::memory, true},
    {"a call's EIO", [] { fail_call("cannot open x", EIO); }, Exit::io, false},
    {"DataError", [] { throw DataError("out of memory of what was"); }, Exit::data, false},
    {"runtime_error", [] { throw std::runtime_error("x"); }, Exit::data, false},
    {"an int", [] { throw 7; }, Exit::data, false},
};

}  // namespace

TEST_CASE("each exception has one exit, and LibTorch's stack is left out") {
  for (const Example& e : examples) {
    CAPTURE(e.name);
    const Cause c = of(e.body);
    CHECK(c.exit == e.exit);
    CHECK(c.of_machine == e.of_machine);
    CHECK(c.text.find('\n') == std::string::npos);
    CHECK_FALSE(c.text.empty());
    const Cause again = of([&] {
      try {
        e.body();
      } catch (...) {
        rethrow_with("nodes.x", Exit::data);
      }
    });
    CHECK(again.exit == c.exit);
    CHECK(again.of_machine == c.of_machine);
    CHECK(again.text == "nodes.x: " + c.text);
  }
}

TEST_CASE("what the library's calls cannot do with a file is said by its path and the cause") {
  namespace fs = std::filesystem;
  CHECK(of([] { fs::resize_file("/nowhere/x", 1); }).text ==
        "/nowhere/x: No such file or directory");
  CHECK(of([] { fs::rename("/nowhere/x", "y"); }).text ==
        "/nowhere/x to y: No such file or directory");
}

TEST_CASE("a machine without memory or file descriptors ends the run and is no bad sample") {
  for (const Example& e : examples) {
    CAPTURE(e.name);
    Builder b;
    int s = b.source("s", 10);
    int x = b.add("x", plain("x"),
                  [&](Firing& f) {
                    if (f.in().value == 4) e.body();
                    f.emit_ptr(f.ptr());
                  },
                  {{s, 0}});
    b.add("k", sink("k"), [](Firing&) {}, {{x, 0}});
    b.graph.nodes[static_cast<std::size_t>(x)].on_error = OnError::quarantine;
    b.graph.nodes[static_cast<std::size_t>(x)].max_bad = 5;
    const Outcome o = run(b, 2);
    if (!e.of_machine) {
      CHECK(o.status == Outcome::Status::done);
      continue;
    }
    CHECK(o.status == Outcome::Status::failed);
    CHECK(o.failure.exit == e.exit);
    CHECK(o.failure.node == "x");
    CHECK(o.failure.sample == "v4");
    CHECK(o.failure.message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a source, a flush, a store and a hook that find no memory end the run with 5") {
  for (const std::string where : {"source", "flush", "store", "hook"}) {
    CAPTURE(where);
    const auto fail = [&](const char* here) {
      if (where == here) throw std::bad_alloc();
    };
    Builder b;
    int s = b.add("s", Spec("source", "").out("sample").source(), [&](Firing& f) {
      if (f.stamp().index == 3) fail("source");
      if (f.stamp().index == 9) return f.end_epoch();
      f.emit_item(f.stamp().index, Sample(f.stamp().index));
    });
    int c = b.add("c", plain("c").cache(), forward, {{s, 0}});
    auto store = std::make_shared<MemoryStore>();
    store->on_find = [&] { fail("store"); };
    b.body(c).cache = store;
    int k = b.add("k", sink("k"), [](Firing& f) { f.log("loss", 1); }, {{c, 0}});
    b.body(k).end = [&](Flush&) { fail("flush"); };
    struct Hook : RunEvents {
      std::function<void(const char*)> fail;
      void log(int, const Stamp&, const std::string&, double) override { fail("hook"); }
    } events;
    events.fail = fail;
    const Outcome o = run(b, 2, &events);
    CHECK(o.status == Outcome::Status::failed);
    CHECK(o.failure.exit == Exit::memory);
    CHECK(o.failure.message == "out of memory");
  }
}

TEST_CASE("what is no regular file is said at once, and nothing waits for its other end") {
  const TemporaryFolder folder;
  const auto fifo = folder.path / "fifo", socket_file = folder.path / "socket";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_file.c_str());
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  for (const std::filesystem::path& path :
       {fifo, socket_file, folder.path, std::filesystem::path("/dev/zero")}) {
    CAPTURE(path.string());
    const Cause text = of([&] { read_text(path); });
    CHECK(text.exit == Exit::io);
    CHECK(text.text.find(path == folder.path ? "it is a folder" : "it is not a regular file") !=
          std::string::npos);
    CHECK(of([&] { File(path, O_RDONLY); }).text == path.string() + " is not a regular file");
    Diagnostics diagnostics;
    CHECK_FALSE(read_document(path.string(), diagnostics));
    CHECK(diagnostics.errors() == 1);
    FileDigests digests(folder.path / "index", true);
    if (path != folder.path) CHECK_FALSE(digests.of(path.string()));
  }
  ::close(fd);
}

TEST_CASE("names cannot move the cursor, change a colour or begin a line") {
  CHECK(printable("a\x1b[31mb\r\nc\x7f\xc2\x9b\xff") == "a\\x1b[31mb\\x0d\\x0ac\\x7f\\x9b\\xff");
  CHECK(printable("a\u202eb\u2066c\u2028d") == "a\\u202eb\\u2066c\\u2028d");
  CHECK(printable("grün\n", true) == "grün\n");
  Diagnostics d;
  d.error("SL0203", "unknown \"\x1b[2J\"", {}, "nodes.\x1b[31m", "did you mean \"\x07\"?").notes = {
      "\x1b]0;x\n"};
  std::ostringstream out;
  d.print(out, false);
  CHECK(out.str() ==
        "error[SL0203]: unknown \"\\x1b[2J\"\n"
        "  --> (nodes.\\x1b[31m)\n"
        "   = help: did you mean \"\\x07\"?\n"
        "   = note: \\x1b]0;x\\x0a\n"
        "found 1 error, 0 warnings\n");
}

TEST_CASE("of a kind a hundred are printed and the rest are counted") {
  Diagnostics d;
  for (int i = 0; i < 4000; ++i) d.warning("SL0319", "nothing reads " + std::to_string(i));
  d.error("SL0203", "unknown");
  std::ostringstream out;
  d.print(out, false);
  std::istringstream lines(out.str());
  int warnings = 0, more = 0;
  for (std::string line; std::getline(lines, line);) {
    warnings += line.starts_with("warning[SL0319]: nothing");
    more += line == "warning[SL0319]: and 3900 more of this kind";
  }
  CHECK(warnings == 100);
  CHECK(more == 1);
  CHECK(out.str().ends_with("found 1 error, 4000 warnings\n"));
  CHECK(d.to_json().size() == 4001);
}

TEST_CASE("turns are computed as they would be listed") {
  for (std::uint32_t epochs : {1u, 2u, 5u, 6u, 12u, 13u})
    for (std::uint32_t a : {1u, 2u, 3u, 20u})
      for (std::uint32_t b : {0u, 1u, 4u}) {
        CAPTURE(epochs);
        CAPTURE(a);
        CAPTURE(b);
        std::vector<TurnOrder::Validation> validations{{3, a}};
        if (b > 0) validations.push_back({1, b});
        std::vector<Turn> all;
        std::map<int, std::uint32_t> done;
        for (std::uint32_t e = 0; e < epochs; ++e) {
          all.push_back({2, e, e});
          for (const auto& v : validations)
            if ((e + 1) % v.every == 0 || e + 1 == epochs)
              all.push_back({v.stream, done[v.stream]++, e});
        }
        const TurnOrder order(2, epochs, validations);
        REQUIRE(order.size() == all.size());
        std::map<int, std::uint32_t> before;
        for (std::size_t i = 0; i <= all.size(); ++i) {
          for (int stream : {0, 1, 2, 3}) CHECK(order.epochs_before(stream, i) == before[stream]);
          if (i == all.size()) break;
          CHECK(order[i] == all[i]);
          CHECK(order.train_epoch(all[i].stream, all[i].epoch) == all[i].train_epoch);
          ++before[all[i].stream];
        }
      }
}

TEST_CASE("a plan and its scheduler take as much memory for a billion epochs as for ten") {
  const auto taken = [](std::int64_t epochs) {
    Builder b;
    b.graph.run.epochs = epochs;
    GraphModel net;
    net.name = "net";
    b.graph.models.push_back(net);
    int s = b.source("s", 4);
    int r = b.add("r", reader_spec(), forward, {{s, 0}}, {{"net", "net"}});
    b.add("u", updater_spec(), [](Firing&) {}, {{r, 0}}, {{"net", "net"}});
    int v = b.source("v", 2);
    b.graph.nodes[static_cast<std::size_t>(v)].after = "u";
    int w = b.add("w", reader_spec(), forward, {{v, 0}}, {{"net", "net"}});
    b.add("k", sink("k"), [](Firing&) {}, {{w, 0}});
    const auto held = [] {
      const auto m = ::mallinfo2();
      return static_cast<std::int64_t>(m.uordblks + m.hblkhd);
    };
    const std::int64_t before = held();
    REQUIRE(b.plan());
    RunEvents silent;
    Scheduler scheduler(*b.made, b.pointers(), {}, silent);
    return held() - before;
  };
  const std::int64_t few = taken(10);
  CHECK(std::abs(taken(1'000'000'000) - few) < few);
}

TEST_CASE("numbers of samples and credits that cannot be counted are refused") {
  const auto refused = [](std::int64_t batch, std::int64_t ahead) {
    Builder b;
    int s = b.source("s", 4);
    int buffer = b.add("ahead", buffer_spec(), forward, {{s, 0}}, {{"n", ahead}});
    int join = b.add("join", batch_spec(), join_members, {{buffer, 0}}, {{"size", batch}});
    b.add("k", sink("k"), [](Firing&) {}, {{join, 0}});
    CHECK_FALSE(b.plan());
    return b.diagnostics.to_json().dump();
  };
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  for (const std::int64_t size : {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1, huge}) {
    CHECK(refused(size, 4).find("SL0432") != std::string::npos);
    CHECK(refused(4, size).find("SL0432") != std::string::npos);
  }
}
