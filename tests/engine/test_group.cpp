// The arithmetic of several processes: who computes what, who is who, and the sum of shards.
#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <random>

#include "engine/base/error.h"
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

// The sum of leaves [begin, end) as the tree has it; nullopt where all are empty.
std::optional<float> tree(const std::vector<std::optional<float>>& leaves, std::size_t begin,
                          std::size_t end) {
  if (end - begin == 1) return leaves[begin];
  const std::size_t middle = begin + std::bit_floor(end - begin - 1);
  const auto a = tree(leaves, begin, middle), b = tree(leaves, middle, end);
  return a && b ? std::optional(*a + *b) : a ? a : b;
}

}  // namespace

TEST_CASE("the ordered sum has one tree's bits for any number of ranks, with empty shards too") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 60; ++round) {
    const std::int64_t shards = 1 + static_cast<std::int64_t>(random() % 9);
    const std::size_t values = 1 + random() % 9000;
    std::vector<std::vector<float>> leaf(static_cast<std::size_t>(shards));
    std::vector<std::uint8_t> filled;
    for (auto& l : leaf) {
      filled.push_back(random() % 4 != 0);
      for (std::size_t i = 0; i < values; ++i)
        l.push_back(normal(random) * std::pow(10.0f, static_cast<float>(random() % 9) - 4));
    }
    const bool any = std::find(filled.begin(), filled.end(), 1) != filled.end();
    std::vector<float> expected;
    for (std::size_t i = 0; i < values && any; ++i) {
      std::vector<std::optional<float>> leaves;
      for (std::size_t k = 0; k < leaf.size(); ++k)
        leaves.push_back(filled[k] ? std::optional(leaf[k][i]) : std::nullopt);
      expected.push_back(*tree(leaves, 0, leaves.size()));
    }
    for (int ranks = 1; ranks <= shards; ++ranks) {
      ThreadWires wires(ranks);
      std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
      wires.each([&](int rank) {
        OrderedSum sum(shards, values, ranks > 1 ? &wires[rank] : nullptr);
        for (int step = 0; step < 2; ++step) {  // memory is used again
          for (auto k = first_shard(rank, ranks, shards); k < first_shard(rank + 1, ranks, shards);
               ++k) {
            const auto& mine = leaf[static_cast<std::size_t>(k)];
            if (!filled[static_cast<std::size_t>(k)]) continue;
            std::copy(mine.begin(), mine.end(), sum.leaf().begin());
            sum.add(k);
          }
          const auto whole = sum.finish(filled);
          sums[static_cast<std::size_t>(rank)].assign(whole.begin(), whole.end());
        }
      });
      for (const auto& got : sums) CHECK(got == expected);
    }
  }
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
}

TEST_CASE("a batch script of SLURM is one process, and says what may have been meant") {
  std::string said;
  CHECK(world_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}, &said)
            .alone());
  CHECK(said.find("did you mean srun?") != said.npos);
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
  refused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE is 0");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}}, "LOCAL_WORLD_SIZE is 3");
  CHECK_THROWS_WITH_AS(world_of({{"OMPI_COMM_WORLD_RANK", "0"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
                       doctest::Contains("MASTER_ADDR"), Error);
}
