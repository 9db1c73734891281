// What a firing costs: nanoseconds of CPU time (of all threads, so that other work on the machine
// does not count) a packet and node through chains of 1, 10 and 50 light nodes, as one firing and
// (where a node has a limit) queued one by one, and through a fan-out of 8 with its join; beside
// them a chain of tbb::flow function_nodes that pass the same Packet. Light bodies: they emit what
// came in.
//
//   bench_hops [packets [threads nodes [queued]]]
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "engine/run/packet.h"
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

double chain(std::uint64_t packets, int nodes, int threads, bool queued) {
  Builder b;
  int last = b.source("s", packets);
  Spec spec = plain("n");
  if (queued) spec.limit(1000);  // a node with a limit is in no chain
  for (int i = 0; i < nodes; ++i) last = b.add("n" + std::to_string(i), spec, forward, {{last, 0}});
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

// Of interleaved runs.
template <class... F>
std::array<double, sizeof...(F)> medians(F... runs) {
  std::array<std::vector<double>, sizeof...(F)> all;
  for (int turn = 0; turn < 5; ++turn) {
    std::size_t i = 0;
    (all[i++].push_back(runs()), ...);
  }
  std::array<double, sizeof...(F)> middle{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::sort(all[i].begin(), all[i].end());
    middle[i] = all[i][2];
  }
  return middle;
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
    const auto pool = std::make_shared<CreditPool>(1 << 30, [] {});
    const double start = cpu_ns();
    for (std::uint64_t i = 0; i < packets; ++i) {
      Packet p;
      p.stamp.index = i;
      p.sample = sample;
      p.credit = pool->try_take();
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
  if (argc > 3) {  // one chain alone, to look at with perf
    std::printf("%.0f\n", chain(packets, std::atoi(argv[3]), std::atoi(argv[2]), argc > 4));
    return 0;
  }
  std::printf("CPU ns a node and packet, median of 5, %llu packets\n%8s %8s %8s %8s %12s\n",
              static_cast<unsigned long long>(packets), "threads", "nodes", "chained", "queued",
              "tbb::flow");
  for (int threads : {1, 2, 4}) {
    for (int nodes : {1, 10, 50}) {
      const auto [chained, queued, tbb] =
          medians([&] { return chain(packets, nodes, threads, false); },
                  [&] { return chain(packets, nodes, threads, true); },
                  [&] { return raw(packets, nodes, threads); });
      std::printf("%8d %8d %8.0f %8.0f %12.0f\n", threads, nodes, chained, queued, tbb);
    }
    std::printf("%8d %8s %8s %8.0f\n", threads, "fan 8", "", diamond(packets, threads));
  }
}
