// What a firing costs: nanoseconds of CPU time (of all threads, so that other work on the machine
// does not count) a packet and node through chains of 1, 10 and 50 light nodes,
// and through a fan-out of 8 with its join; beside it a chain of tbb::flow function_nodes that
// pass the same Packet. Light bodies: they emit what came in.
//
//   bench_hops [packets]
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "engine/packet.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double run_ns(Builder& b, int threads) {
  if (!b.plan(threads)) std::abort();
  RunEvents silent;
  RunOptions o;
  o.threads = threads;
  o.background = false;
  Scheduler s(*b.made, b.pointers(), o, silent);
  const double start = cpu_ns();
  if (s.run().status != Outcome::Status::done) std::abort();
  return cpu_ns() - start;
}

double chain(std::uint64_t packets, int nodes, int threads) {
  Builder b;
  int last = b.source("s", packets);
  for (int i = 0; i < nodes; ++i)
    last = b.add("n" + std::to_string(i), plain("n"), forward, {{last, 0}});
  return run_ns(b, threads) / static_cast<double>(packets) / (nodes + 1);
}

// source -> 8 nodes -> join: 10 firings a packet.
double diamond(std::uint64_t packets, int threads) {
  Builder b;
  const int s = b.source("s", packets);
  Spec join("join", "");
  std::vector<std::pair<int, int>> from;
  for (int i = 0; i < 8; ++i) {
    from.emplace_back(b.add("n" + std::to_string(i), plain("n"), forward, {{s, 0}}), 0);
    join.in("in" + std::to_string(i));
  }
  b.add(
      "join", join, [](Firing&) {}, from);
  return run_ns(b, threads) / static_cast<double>(packets) / 10;
}

double raw(std::uint64_t packets, int nodes, int threads) {
  using Node = tbb::flow::function_node<Packet, Packet>;
  tbb::task_arena arena(threads, 1);
  double took = 0;
  arena.execute([&] {
    tbb::flow::graph graph;
    std::vector<std::unique_ptr<Node>> chain;
    for (int i = 0; i <= nodes; ++i) {
      chain.push_back(
          std::make_unique<Node>(graph, tbb::flow::unlimited, [](const Packet& p) { return p; }));
      if (i > 0) tbb::flow::make_edge(*chain[static_cast<std::size_t>(i) - 1], *chain.back());
    }
    const auto sample = std::make_shared<const Sample>(1);
    const double start = cpu_ns();
    for (std::uint64_t i = 0; i < packets; ++i) {
      Packet p;
      p.stamp.index = i;
      p.sample = sample;
      chain.front()->try_put(p);
    }
    graph.wait_for_all();
    took = cpu_ns() - start;
  });
  return took / static_cast<double>(packets) / (nodes + 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t packets = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
  std::printf("CPU ns a firing, %llu packets\n%8s %8s %12s %12s\n",
              static_cast<unsigned long long>(packets), "threads", "nodes", "sluice", "tbb::flow");
  for (int threads : {1, 2, 4}) {
    for (int nodes : {1, 10, 50})
      std::printf("%8d %8d %12.0f %12.0f\n", threads, nodes, chain(packets, nodes, threads),
                  raw(packets, nodes, threads));
    std::printf("%8d %8s %12.0f\n", threads, "fan 8", diamond(packets, threads));
  }
}
