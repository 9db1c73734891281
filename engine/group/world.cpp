#include "engine/group/world.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "engine/base/error.h"
#include "engine/group/launcher_process.h"

namespace sluice {
namespace {

// The variables of a launcher; null: it has none for that.
struct Launcher {
  std::string_view name;
  const char *rank, *size, *local_rank, *local_size, *job;
};
constexpr std::string_view pmi = "PMI", slurm = "SLURM";
constexpr std::array launchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "TORCHELASTIC_RUN_ID"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    Launcher{"Horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
             "HOROVOD_GLOO_RENDEZVOUS_PORT"},
    Launcher{pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
    Launcher{slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
             "SLURM_JOB_ID"},
};

[[noreturn]] void refuse(const std::string& what) { throw Error(Exit::usage, what); }

class Reader {
 public:
  explicit Reader(const Environment& variable) : variable_(variable) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = name ? variable_(name) : nullptr;
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  }
  std::optional<int> number(const char* name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int n = 0;
    const auto [end, problem] = std::from_chars(value->data(), value->data() + value->size(), n);
    if (problem != std::errc() || end != value->data() + value->size())
      refuse(std::string(name) + " is \"" + *value + "\", which is no whole number");
    return n;
  }

 private:
  const Environment& variable_;
};

// "node[03-05,9],gpu1" begins with node03, "rack[0-1]node[3-4]" with rack0node3.
std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    host += list.substr(at + 1, list.find_first_of("-,]", at) - at - 1);
    at = std::min(list.find(']', at), list.size() - 1);
  }
  return host;
}

// How many tasks of a SLURM step run on its machine of this number, by "2(x3),1".
int tasks_of(const std::string& list, int machine) {
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    int tasks = 0, times = 1;
    if (std::sscanf(part.c_str(), "%d(x%d)", &tasks, &times) < 1) break;
    if ((machine -= times) < 0) return tasks;
  }
  refuse("SLURM_STEP_TASKS_PER_NODE is \"" + list +
         "\", which says nothing of the machine that SLURM_NODEID names");
}

void check(const World& w, const Launcher& l) {
  const auto range = [](const char* name, int value, int size) {
    if (value < 0 || value >= size)
      refuse(std::string(name) + " is " + std::to_string(value) + ", but there are " +
             std::to_string(size) + " processes");
  };
  if (w.size < 1) refuse(std::string(l.size) + " is " + std::to_string(w.size));
  range(l.rank, w.rank, w.size);
  if (w.local_size < 1 || w.local_size > w.size)
    refuse(std::string(l.local_size ? l.local_size : "the number of tasks of this machine") +
           " is " + std::to_string(w.local_size) + " of " + std::to_string(w.size) + " processes");
  range(l.local_rank, w.local_rank, w.local_size);
}

// `srun --mpi=pmi2` sets PMI's too, which do not say how many tasks are on this machine.
bool is_step_of_slurm(const Reader& read) {
  for (const char* name : {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                           "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST"})
    if (!read.text(name)) return false;
  return true;
}

void refuse_port_of_pmi(const Reader& read) {
  if (read.text("PMI_PORT") && read.text("PMI_ID"))
    refuse(
        "PMI_PORT and PMI_ID are set, and PMI_RANK and PMI_SIZE are not (mpiexec -pmi-port), so "
        "each process would begin a run of its own: leave -pmi-port out");
}

// What tells a launcher's jobs apart. MPICH's has no number: its ranks share what started them.
std::string job_of(const Launcher& l, const Reader& read, bool all_here) {
  auto id = read.text(l.job);
  if (!id && l.name == pmi) {
    if (all_here) return launcher_process(l.rank);
    id = read.text("SLURM_JOB_ID");
  }
  // Of one SLURM job several steps may run side by side.
  const bool in_steps = l.name == slurm || l.name == pmi;
  const char* const part = in_steps ? "SLURM_STEP_ID" : "TORCHELASTIC_RESTART_COUNT";
  return id.value_or("") + "/" + read.text(part).value_or("0");
}

// The job's own port, so that two jobs of one machine do not meet.
int port_of(const std::string& job) {
  unsigned hash = 2166136261u;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return 20000 + static_cast<int>(hash % 10000);
}

// `all_here`: that all processes are on this machine, as the launcher says.
void find_master(World& w, const Launcher& l, const Reader& read, bool all_here) {
  const auto host = read.text("MASTER_ADDR");
  const auto nodes = read.text("SLURM_STEP_NODELIST");
  if (host)
    w.master = *host;
  else if (l.name == slurm && nodes)
    w.master = first_host(*nodes);
  else if (w.local_size < w.size)
    refuse(std::string(l.name) +
           " over several hosts needs MASTER_ADDR, the host of rank 0 (mpirun "
           "-x MASTER_ADDR=HOST)");
  else if (!all_here)
    refuse(std::string(l.name) + " does not say how many of the " + std::to_string(w.size) +
           " processes are on this machine" +
           (l.local_size ? " (" + std::string(l.local_size) + ")" : "") +
           ": set MASTER_ADDR, the host of rank 0");
  w.port = read.number("MASTER_PORT").value_or(port_of(w.job));
  if (w.port < 1 || w.port > 65535) refuse("MASTER_PORT is " + std::to_string(w.port));
}

}  // namespace

const char* own_variable(const char* name) { return std::getenv(name); }

World find_world(const Environment& variable, const std::function<void(const std::string&)>& note) {
  const Reader read(variable);
  bool lacks_master = false;
  for (const Launcher& l : launchers) {
    const auto rank = read.number(l.rank), size = read.number(l.size);
    const bool is_torchrun = &l == &launchers.front();
    if (is_torchrun && rank && size && (!read.text("MASTER_ADDR") || !read.text("MASTER_PORT"))) {
      lacks_master = *size > 1;
      continue;
    }
    const bool is_slurm = l.name == slurm, is_pmi = l.name == pmi;
    if (is_slurm && rank && !read.text("SLURM_STEP_ID")) {
      if (read.number("SLURM_NTASKS").value_or(1) > 1)
        note("this is a batch script of SLURM with " + *read.text("SLURM_NTASKS") +
             " tasks, and sluice runs as one process: did you mean srun?");
      continue;
    }
    if (is_pmi && !rank && !size) refuse_port_of_pmi(read);
    if (!rank || !size) continue;
    if (is_pmi && !read.text(l.local_size) && is_step_of_slurm(read)) continue;
    World w;
    w.launcher = l.name;
    w.rank = *rank;
    w.size = *size;
    w.local_rank = read.number(l.local_rank).value_or(*rank);
    const auto local_size = read.number(l.local_size);
    const auto tasks = is_slurm ? read.text("SLURM_STEP_TASKS_PER_NODE") : std::nullopt;
    w.local_size = local_size ? *local_size
                   : tasks    ? tasks_of(*tasks, read.number("SLURM_NODEID").value_or(0))
                              : w.size;
    const bool all_here = w.local_size == w.size && (local_size || tasks);
    w.launched = !is_torchrun || read.text(l.job);
    w.job = job_of(l, read, all_here) + read.text(run_of_each).value_or("");
    if (is_torchrun && w.job.starts_with(own_job)) w.launcher = "sluice run --processes";
    w.store_is_there = read.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    check(w, l);
    if (w.size == 1) return {};
    find_master(w, l, read, all_here);
    if (w.rank == 0) w.listening = read.number("SLUICE_STORE_SOCKET");
    return w;
  }
  if (lacks_master)
    note(
        "RANK and WORLD_SIZE are set, but MASTER_ADDR and MASTER_PORT are not both: sluice runs as "
        "one process");
  return {};
}

bool speaks_for_all(const Environment& variable) {
  try {
    return find_world(variable, [](const std::string&) {}).rank == 0;
  } catch (const Error&) {
    return true;  // what contradicts itself is said when the processes join
  }
}

}  // namespace sluice
