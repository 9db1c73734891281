// The processes that train together, as their launcher tells each of them in its environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace sluice {

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  std::string launcher;                // "torchrun", "Open MPI", ...; "" for one process
  std::string master = "127.0.0.1";    // rank 0's host
  int port = 0;
  bool store_is_there = false;   // torchrun serves the store itself
  std::optional<int> listening;  // rank 0's socket at `port`, where its launcher holds one
  std::string job;               // keys of other tries are out of the way by this
  // By a program that stays until its processes end; else a script may have set the variables.
  bool launched = false;

  bool alone() const { return size == 1; }
};

// How TORCHELASTIC_RUN_ID begins for those that `sluice run --processes` starts.
inline constexpr const char* own_job = "sluice-";
// The variable that tells the runs of one launch apart (--each): "/fold=0".
inline constexpr const char* run_of_each = "SLUICE_RUN_OF_EACH";

// nullptr for a variable that is not set.
using Environment = std::function<const char*(const char*)>;
const char* own_variable(const char* name);  // this process's

// Of launchers whose variables are complete the first, in this order: torchrun (and whoever sets
// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT), Open MPI, Horovod, PMI (MPICH, Intel MPI), SLURM.
// PMI's of `srun --mpi=pmi2` say nothing of machines, so there SLURM's count. Throws Error(usage)
// where they contradict each other, say no number of ranks, or no host of rank 0 and one is needed.
// `note` is told what somebody may have meant otherwise.
World find_world(const Environment& variable, const std::function<void(const std::string&)>& note);

// Whether this process speaks where all have the same to say: it is the first, or alone.
bool speaks_for_all(const Environment& variable = own_variable);

}  // namespace sluice
