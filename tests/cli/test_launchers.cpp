// What launchers tell their processes, and what becomes of these where the launcher is no more or
// tells them what cannot be.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

namespace fs = std::filesystem;

namespace {

const std::string launched_run = "$SLUICE run g.json --quiet --set run.epochs=100000 ";

}  // namespace

TEST_CASE("processes whose launcher is killed while they load end too") {
  const TinyTraining t;
  t.folder.write("launch",
                 "for r in 0 1; do\n"
                 "OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_LOCAL_RANK=$r " +
                     launched_run + "--out r & echo $! >> pids\ndone\nwait\n");
  const auto r = shell::run(
      t.in_folder +
      "export SLUICE OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2\n"
      "export MASTER_PORT=$((20000 + $$ % 10000))\nbash launch & launcher=$!\n"
      "until [ -e pids ] && [ $(wc -l < pids) = 2 ]; do :; done\n"
      "for p in $(cat pids); do until grep -q libsluice_runtime /proc/$p/maps; do :; done\n"
      "kill -STOP $p; done\n"
      "kill -9 $launcher; wait $launcher; kill -CONT $(cat pids)\n"
      "alive() { for p in $(cat pids); do\n"
      "state=$(sed 's/.*) //; s/ .*//' /proc/$p/stat 2>/dev/null)\n"
      "[ -n \"$state\" ] && [ \"$state\" != Z ] && return 0; done; return 1; }\n"
      "for i in $(seq 600); do alive || break; sleep 0.1; done\n"
      "alive && kill -9 $(cat pids) || echo gone\n");
  CHECK_MESSAGE(contains(r.out, "gone"), r.out, r.err);
}
