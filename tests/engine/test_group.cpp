// The arithmetic of several processes: who computes what, who is who, and the sum of shards.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/group/bucketed_sum.h"
#include "engine/group/ordered_sum.h"
#include "engine/group/shards.h"
#include "engine/group/world.h"
#include "thread_wire.h"

using namespace sluice;

TEST_CASE("each item of a batch is in one shard, and each shard is one rank's") {
  for (std::int64_t items = 1; items <= 13; ++items)
    for (std::int64_t shards = 1; shards <= items; ++shards) {
      const Division division{.items = items, .parts = shards, .trains = true, .samples = items};
      for (std::int64_t k = 0; k < shards; ++k)
        for (std::int64_t i = items * k / shards; i < items * (k + 1) / shards; ++i) {
          CHECK(part_of(i, items, shards) == k);
          CHECK(division.packet(static_cast<std::uint64_t>(5 * items + i)) == 5 * shards + k);
        }
      for (std::int64_t ranks = 1; ranks <= shards; ++ranks)
        for (std::int64_t i = 0; i < items; ++i) {
          const auto rank = division.rank(static_cast<std::uint64_t>(7 * items + i), ranks);
          const auto k = part_of(i, items, shards);
          CHECK(first_shard(rank, ranks, shards) <= k);
          CHECK(k < first_shard(rank + 1, ranks, shards));
        }
    }
}

TEST_CASE("whole batches of a stream that trains nothing go round") {
  const Division division{.items = 3, .parts = 1, .samples = 3};
  const std::vector<std::int64_t> expected{0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(division.rank(i, 3) == expected[i]);
}

namespace {

// The nearest number of 8 significant bits, ties to even: what a bfloat16 holds.
float half(float value) {
  int exponent = 0;
  if (value == 0) return value;
  std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, 8 - exponent)), exponent - 8);
}

// The sum of leaves [begin, end) as the tree has it; nullopt where all are empty.
std::optional<float> tree(const std::vector<std::optional<float>>& leaves, bool halves,
                          std::size_t begin, std::size_t end) {
  if (end - begin == 1)
    return halves && leaves[begin] ? std::optional(half(*leaves[begin])) : leaves[begin];
  const std::size_t middle = begin + std::bit_floor(end - begin - 1);
  const auto a = tree(leaves, halves, begin, middle), b = tree(leaves, halves, middle, end);
  if (!a || !b) return a ? a : b;
  return halves ? half(*a + *b) : *a + *b;
}

// Leaves with some that are empty, and what each rank's sum of them is.
struct Leaves {
  std::int64_t shards;
  std::size_t values;
  std::vector<std::vector<float>> leaf;
  std::vector<std::uint8_t> filled;

  Leaves(std::int64_t count, std::size_t size, std::mt19937& random)
      : shards(count), values(size), leaf(static_cast<std::size_t>(count)) {
    std::normal_distribution<float> normal;
    for (auto& l : leaf) {
      filled.push_back(random() % 4 != 0);
      for (std::size_t i = 0; i < values; ++i)
        l.push_back(normal(random) * std::pow(10.0f, static_cast<float>(random() % 9) - 4));
    }
  }

  std::vector<float> expected(bool halves) const {
    std::vector<float> sums;
    if (std::find(filled.begin(), filled.end(), 1) == filled.end()) return sums;
    for (std::size_t i = 0; i < values; ++i) {
      std::vector<std::optional<float>> leaves;
      for (std::size_t k = 0; k < leaf.size(); ++k)
        leaves.push_back(filled[k] ? std::optional(leaf[k][i]) : std::nullopt);
      sums.push_back(*tree(leaves, halves, 0, leaves.size()));
    }
    return sums;
  }

  // Two steps, so that memory is used again. `sent`: of all ranks, as they count.
  std::vector<std::vector<float>> sums(ThreadWires& wires, int ranks, bool halves,
                                       std::uint64_t& sent) const {
    std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks));
    std::atomic<std::uint64_t> counted{0};
    wires.each([&](int rank) {
      OrderedSum sum(shards, values, ranks > 1 ? &wires[rank] : nullptr, halves);
      for (int step = 0; step < 2; ++step) {
        const auto last = first_shard(rank + 1, ranks, shards);
        for (auto k = first_shard(rank, ranks, shards); k < last; ++k) {
          const auto& mine = leaf[static_cast<std::size_t>(k)];
          if (!filled[static_cast<std::size_t>(k)]) continue;
          std::copy(mine.begin(), mine.end(), sum.leaf().begin());
          sum.add(k);
        }
        const auto whole = sum.finish(filled);
        all[static_cast<std::size_t>(rank)].assign(whole.begin(), whole.end());
      }
      counted += sum.sent();
    });
    sent = counted;
    return all;
  }
};

}  // namespace

TEST_CASE("the ordered sum has one tree's bits for any number of ranks, with empty shards too") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const Leaves leaves(1 + static_cast<std::int64_t>(random() % 9), 1 + random() % 5000, random);
    for (const bool halves : {false, true}) {
      const std::vector<float> expected = leaves.expected(halves);
      for (int ranks = 1; ranks <= leaves.shards; ++ranks) {
        ThreadWires wires(ranks);
        std::uint64_t sent = 0;
        for (const auto& got : leaves.sums(wires, ranks, halves, sent)) CHECK(got == expected);
        CHECK(sent == wires.carried());
      }
    }
  }
}

TEST_CASE("a step without any leaf leaves nothing behind for the next one") {
  std::mt19937 random(11);
  Leaves leaves(5, 300, random);
  leaves.filled = {1, 1, 0, 1, 1};
  for (int ranks = 1; ranks <= 3; ++ranks) {
    ThreadWires wires(ranks);
    wires.each([&](int rank) {
      OrderedSum sum(5, 300, ranks > 1 ? &wires[rank] : nullptr);
      CHECK(sum.finish(std::vector<std::uint8_t>(5, 0)).empty());
      for (auto k = first_shard(rank, ranks, 5); k < first_shard(rank + 1, ranks, 5); ++k) {
        if (!leaves.filled[static_cast<std::size_t>(k)]) continue;
        const auto& mine = leaves.leaf[static_cast<std::size_t>(k)];
        std::copy(mine.begin(), mine.end(), sum.leaf().begin());
        sum.add(k);
      }
      const auto whole = sum.finish(leaves.filled);
      CHECK(std::vector<float>(whole.begin(), whole.end()) == leaves.expected(false));
    });
  }
}

namespace {

// Two steps in which each rank closes its buckets in an order of its own, from threads of its own,
// with pieces that are even or not, whole or apart.
void check_buckets(const Leaves& leaves, int ranks, std::size_t each, bool in_parts,
                   std::mt19937& random) {
  std::vector<BucketedSum::Bucket> buckets;
  for (std::size_t at = 0; at < leaves.values; at += each) {
    BucketedSum::Bucket b{std::min(each, leaves.values - at), {}, in_parts};
    if (in_parts) {
      b.cuts = {0};
      for (int r = 1; r < ranks; ++r) b.cuts.push_back(random() % (b.values + 1));
      std::sort(b.cuts.begin(), b.cuts.end());
      b.cuts.push_back(b.values);
    }
    buckets.push_back(std::move(b));
  }
  const auto expected = leaves.expected(false);
  const unsigned seed = random();
  ThreadWires wires(ranks);
  wires.each([&](int rank) {
    std::mt19937 own(seed + static_cast<unsigned>(rank));
    BucketedSum sums(leaves.shards, buckets, ranks > 1 ? &wires[rank] : nullptr, false);
    for (int step = 0; step < 2; ++step) {
      std::int64_t last = -1;
      for (auto k = first_shard(rank, ranks, leaves.shards);
           k < first_shard(rank + 1, ranks, leaves.shards); ++k) {
        if (!leaves.filled[static_cast<std::size_t>(k)]) continue;
        if (last >= 0)
          for (std::size_t b = 0; b < buckets.size(); ++b) sums.add(b, last);
        last = k;
        const auto* from = leaves.leaf[static_cast<std::size_t>(k)].data();
        for (std::size_t b = 0; b < buckets.size(); ++b)
          std::copy_n(from + b * each, buckets[b].values, sums.leaf(b).begin());
      }
      std::vector<std::size_t> order(buckets.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), own);
      CHECK_FALSE(sums.has_begun());
      sums.begin([&] { return leaves.filled; });
      std::thread closing([&] {
        for (const std::size_t b : order) sums.close(b, last);
      });
      sums.await_agreement();
      closing.join();
      sums.await();
      std::vector<float> got;
      for (std::size_t b = 0; b < buckets.size() && !expected.empty(); ++b) {
        auto values = sums.sum(b);
        if (in_parts) values = sums.of(b).gather(values);
        got.insert(got.end(), values.begin(), values.end());
      }
      CHECK(got == expected);
    }
  });
}

}  // namespace

TEST_CASE("buckets closed in any order have the bits of one sum, also where pieces stay apart") {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const Leaves leaves(1 + static_cast<std::int64_t>(random() % 7), 1 + random() % 3000, random);
    const std::size_t each = 1 + random() % leaves.values;
    for (int ranks = 1; ranks <= std::min<int>(3, static_cast<int>(leaves.shards)); ++ranks)
      for (const bool in_parts : {false, true})
        check_buckets(leaves, ranks, std::max(each, leaves.values / 50 + 1), in_parts, random);
  }
}

namespace {

// A wire whose other ranks are gone.
struct Broken final : Wire {
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void gather(std::span<const std::byte>, std::span<std::byte>) override { fail(); }
  void exchange(std::span<const std::byte>, std::span<const std::size_t>, std::span<std::byte>,
                std::span<const std::size_t>) override {
    fail();
  }
  Collectives& channel(const std::string&) override { return *this; }
  void put(const std::string&, const std::string&) override {}
  std::string get(const std::string&) override { return ""; }
  bool has(const std::string&) override { return false; }
  void remove(const std::string&) override {}
  void end(const std::string&) override {}
  [[noreturn]] static void fail() { throw Error(Exit::peer, "rank 1 is gone"); }
};

}  // namespace

TEST_CASE("what the wire thread meets is thrown where the step waits, and a step may be left") {
  Broken wire;
  {
    BucketedSum sums(2, {{10, {}, false}, {10, {}, false}}, &wire, false);
    for (std::size_t b = 0; b < 2; ++b) std::fill_n(sums.leaf(b).begin(), 10, 1.0f);
    sums.begin([] { return std::vector<std::uint8_t>{1, 1}; });
    sums.close(0, 0);
    sums.close(1, 0);
    CHECK_THROWS_WITH_AS(sums.await(), "rank 1 is gone", Error);
  }
  BucketedSum left(2, {{10, {}, false}}, &wire, false);
  left.begin([] { return std::vector<std::uint8_t>{1, 1}; });  // and never closed
}

TEST_CASE("bfloat16 halves the bytes between ranks, and rounds every sum") {
  std::mt19937 random(3);
  const Leaves leaves(8, 30000, random);
  for (int ranks = 2; ranks <= 8; ++ranks) {
    ThreadWires whole(ranks), half(ranks);
    std::uint64_t sent = 0;
    const auto floats = leaves.sums(whole, ranks, false, sent);
    const auto halves = leaves.sums(half, ranks, true, sent);
    CHECK(half.carried() > 0);
    CHECK(whole.carried() == 2 * half.carried());
    CHECK(floats != halves);
  }
}

TEST_CASE("what is not finite stays so in bfloat16") {
  OrderedSum sum(1, 4, nullptr, true);
  const float infinity = std::numeric_limits<float>::infinity();
  const float all[] = {infinity, -infinity, std::bit_cast<float>(0x7f800001u), 3e38f};
  std::copy(std::begin(all), std::end(all), sum.leaf().begin());
  sum.add(0);
  const std::vector<std::uint8_t> filled{1};
  const auto got = sum.finish(filled);
  CHECK(got[0] == infinity);
  CHECK(got[1] == -infinity);
  CHECK(std::isnan(got[2]));
  CHECK(std::isfinite(got[3]));
}

TEST_CASE("a rank holds as many sums as subtrees lie in its shards") {
  CHECK(sums_alone(0, 1, 8) == 1);
  CHECK(sums_alone(0, 3, 8) == 1);  // 0 1
  CHECK(sums_alone(1, 3, 8) == 2);  // 2 3, 4
  CHECK(sums_alone(2, 3, 8) == 2);  // 5, 6 7
  CHECK(sums_alone(3, 4, 4) == 1);
}

namespace {

World world_of(const std::map<std::string, std::string>& variables, std::string* said = nullptr) {
  return find_world(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      [&](const std::string& text) {
        if (said) *said += text;
      });
}

}  // namespace

TEST_CASE("a process finds its place in the variables of its launcher") {
  CHECK(world_of({}).alone());
  const World torchrun = world_of({{"RANK", "5"},
                                   {"WORLD_SIZE", "8"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "4"},
                                   {"MASTER_ADDR", "node-a"},
                                   {"MASTER_PORT", "29400"},
                                   {"SLURM_PROCID", "1"},  // torchrun inside of an srun
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                   {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  CHECK(torchrun.launcher == "torchrun");
  CHECK(torchrun.rank == 5);
  CHECK(torchrun.size == 8);
  CHECK(torchrun.local_rank == 1);
  CHECK(torchrun.local_size == 4);
  CHECK(torchrun.master == "node-a");
  CHECK(torchrun.port == 29400);
  CHECK(torchrun.store_is_there);
  CHECK(!torchrun.listening);

  auto variables = std::map<std::string, std::string>{{"RANK", "0"},
                                                      {"WORLD_SIZE", "2"},
                                                      {"MASTER_ADDR", "node-a"},
                                                      {"MASTER_PORT", "29400"},
                                                      {"TORCHELASTIC_RUN_ID", "x"}};
  const World first = world_of(variables);
  variables[run_of_each] = "/fold=1";  // another run of the same launch has keys of its own
  CHECK(world_of(variables).job == first.job + "/fold=1");

  const World mpi = world_of({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "job-1"}});
  CHECK(mpi.launcher == "Open MPI");
  CHECK(mpi.master == "127.0.0.1");
  CHECK(mpi.port >= 20000);
  CHECK(mpi.port < 30000);

  const World slurm = world_of({{"SLURM_PROCID", "3"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "4"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                                {"SLURM_JOB_ID", "11"}});
  CHECK(slurm.launcher == "SLURM");
  CHECK(slurm.local_size == 2);
  CHECK(slurm.master == "gpu07");
  for (const auto& [list, first] :
       std::map<std::string, std::string>{{"gpu1", "gpu1"},
                                          {"gpu1,node[2-3]", "gpu1"},
                                          {"node[03,05-06]", "node03"},
                                          {"node[7],gpu1", "node7"},
                                          {"rack[0-1]node[3-4]", "rack0node3"},
                                          {"rack[0-1]node[3-4]-ib,gpu1", "rack0node3-ib"},
                                          {"node[12", "node12"}})  // a variable that was cut
    CHECK(world_of({{"SLURM_PROCID", "0"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "2"},
                    {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                    {"SLURM_LOCALID", "0"},
                    {"SLURM_STEP_NODELIST", list}})
              .master == first);

  std::map<std::string, std::string> uneven = {{"SLURM_PROCID", "7"},
                                               {"SLURM_STEP_ID", "0"},
                                               {"SLURM_STEP_NUM_TASKS", "8"},
                                               {"SLURM_LOCALID", "0"},
                                               {"SLURM_NODEID", "3"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3,1"},
                                               {"SLURM_STEP_NODELIST", "gpu[1-4]"},
                                               {"SLURM_JOB_ID", "11"}};
  const World alone_there = world_of(uneven);
  CHECK(alone_there.local_size == 1);
  uneven["SLURM_STEP_ID"] = "1";  // beside the other, in the same job
  CHECK(world_of(uneven).port != alone_there.port);
  uneven["SLURM_NODEID"] = "4";
  CHECK_THROWS_AS(world_of(uneven), Error);
}

TEST_CASE("what a launcher's variables say of it: whether it stays, and who speaks for all") {
  std::map<std::string, std::string> set{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  const auto variable = [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  CHECK_FALSE(world_of(set).launched);  // a script may end before its processes do
  set["TORCHELASTIC_RUN_ID"] = "x";
  CHECK(world_of(set).launched);
  CHECK(world_of({{"OMPI_COMM_WORLD_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
            .launched);
  CHECK_FALSE(speaks_for_all(variable));
  set["RANK"] = "0";
  CHECK(speaks_for_all(variable));
  set["RANK"] = "2";  // which is said as an error
  CHECK(speaks_for_all(variable));
  set.clear();
  CHECK(speaks_for_all(variable));
}

TEST_CASE("tasks of srun --mpi=pmi2 are a step of SLURM, whatever PMI says of them") {
  std::map<std::string, std::string> set{{"PMI_RANK", "1"},
                                         {"PMI_SIZE", "2"},
                                         {"PMI_JOBID", "7.0"},
                                         {"PMI_FD", "9"},
                                         {"SLURM_PROCID", "1"},
                                         {"SLURM_STEP_ID", "0"},
                                         {"SLURM_STEP_NUM_TASKS", "2"},
                                         {"SLURM_LOCALID", "0"},
                                         {"SLURM_NODEID", "1"},
                                         {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                         {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                                         {"SLURM_JOB_ID", "7"}};
  const World step = world_of(set);
  CHECK(step.launcher == "SLURM");
  CHECK(step.rank == 1);
  CHECK(step.local_size == 1);
  CHECK(step.master == "gpu07");
  set["SLURM_STEP_ID"] = "1";  // beside it on the same machines
  CHECK(world_of(set).port != step.port);
  // MPICH's own launcher inside of a step says more.
  set.insert({{"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}});
  CHECK(world_of(set).launcher == "PMI");
  CHECK(world_of(set).local_size == 2);
}

TEST_CASE("jobs of MPICH have ports of their own, by what says which job it is") {
  const std::map<std::string, std::string> rank{{"PMI_RANK", "1"},
                                                {"PMI_SIZE", "2"},
                                                {"MPI_LOCALNRANKS", "2"},
                                                {"MPI_LOCALRANKID", "1"},
                                                {"PMI_ID", "1"}};
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(rank.begin(), rank.end());
    return world_of(more);
  };
  CHECK(with({}).job == std::to_string(getppid()));
  CHECK(with({{"SLURM_JOB_ID", "7"}}).job == with({}).job);  // two of one batch script
  CHECK(with({{"PMI_JOBID", "7.0"}}).port != with({{"PMI_JOBID", "7.1"}}).port);
  auto first = rank;
  first["PMI_RANK"] = first["MPI_LOCALRANKID"] = first["PMI_ID"] = "0";
  CHECK(world_of(first).port == with({}).port);
  std::map<std::string, std::string> spread{
      {"PMI_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}};
  const World one = with(spread);
  spread["SLURM_STEP_ID"] = "1";
  CHECK(with(spread).port != one.port);
}

TEST_CASE("a batch script of SLURM is one process, and says what may have been meant") {
  std::string said;
  CHECK(world_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}, &said)
            .alone());
  CHECK(said.find("did you mean srun?") != said.npos);
}

TEST_CASE("a rank that is told no master is one process, and says so") {
  std::string said;
  CHECK(world_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, &said).alone());
  CHECK(said.find("MASTER_PORT") != said.npos);
  said.clear();
  CHECK(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, &said).alone());
  CHECK(said.empty());
}

TEST_CASE("launchers' variables that contradict each other are refused") {
  const auto refused = [](std::map<std::string, std::string> variables, const char* part) {
    variables.insert({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
    try {
      world_of(variables);
      FAIL("taken");
    } catch (const Error& e) {
      CHECK(e.exit == Exit::usage);
      CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, e.what());
    }
  };
  refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK is 4, but there are 4");
  refused({{"RANK", "x"}, {"WORLD_SIZE", "4"}}, "no whole number");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}, "MASTER_PORT is 0");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65536"}}, "MASTER_PORT is 65536");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE is 0");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}}, "LOCAL_WORLD_SIZE is 3");
  CHECK_THROWS_WITH_AS(world_of({{"OMPI_COMM_WORLD_RANK", "0"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
                       doctest::Contains("MASTER_ADDR"), Error);
  CHECK_THROWS_WITH_AS(
      world_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}),
      "PMI does not say how many of the 2 processes are on this machine (MPI_LOCALNRANKS): set "
      "MASTER_ADDR, the host of rank 0",
      Error);
  refused({{"PMI_ID", "1"}, {"PMI_PORT", "a:1"}, {"MPI_LOCALNRANKS", "2"}}, "leave -pmi-port out");
}
