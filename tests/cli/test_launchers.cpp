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

TEST_CASE("two jobs of MPICH on one machine do not meet, also behind wrapper scripts") {
  const TinyTraining t;
  // As hydra's proxy starts its ranks; the second one has another process in between.
  t.folder.write("launch",
                 "export PMI_SIZE=2 MPI_LOCALNRANKS=2\nfor r in 0 1; do\n"
                 "export PMI_RANK=$r MPI_LOCALRANKID=$r\n"
                 "[ $r = 0 ] && wrap= || wrap='bash wrapper'\n$wrap $SLUICE run g.json --quiet "
                 "--set +run.join_timeout_s=100 \"$@\" & pids=\"$pids $!\"\ndone\n"
                 "trap 'kill $pids' TERM\ncode=0\n"
                 "for p in $pids; do wait $p || code=$?; done\nwait\nexit $code\n");
  t.folder.write("wrapper",
                 "\"$@\" & p=$!\ntrap 'kill $p' TERM\nwait $p\ncode=$?\nwait $p\n"
                 "exit $code\n");
  const auto r =
      shell::run(t.in_folder +
                 "export SLUICE; unset MASTER_ADDR MASTER_PORT\n"
                 "bash launch --set run.epochs=100000 --out a & first=$!\n"
                 "until [ -s a/metrics.jsonl ] || ! kill -0 $first; do sleep 0.05; done\n"
                 "bash launch --out b; echo second $?\n"
                 "kill -TERM $first; wait $first; wait $first 2>/dev/null\ntrue");
  INFO(r.err);
  CHECK(contains(r.out, "second 0"));
  CHECK(t.json_of("b/summary.json").at("world").at("launcher") == "PMI");
  CHECK(t.json_of("b/summary.json").at("status") == "done");
}

TEST_CASE("ranks that are told no number of ranks are refused") {
  const TinyTraining t;
  const auto r = shell::run(t.in_folder +
                            "export PMI_ID=0 PMI_PORT=here:1 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=0\n"
                            "$SLUICE run g.json --quiet --no-out");
  CHECK(r.code == 2);
  CHECK_MESSAGE(contains(r.err, "PMI_PORT and PMI_ID are set, and PMI_RANK and PMI_SIZE are not"),
                r.err);
}

TEST_CASE("a host of rank 0 that nobody knows is told at once") {
  const TinyTraining t;
  for (const std::string rank : {"0", "1"}) {
    const auto r = shell::run(t.in_folder + "export WORLD_SIZE=2 MASTER_PORT=1 RANK=" + rank +
                              "\nMASTER_ADDR=nosuch.invalid timeout 120 $SLUICE run g.json "
                              "--no-out --set +run.join_timeout_s=300");
    CHECK_MESSAGE(r.code == 2, r.err);
    CHECK_MESSAGE(contains(r.err, "MASTER_ADDR nosuch.invalid: cannot be resolved: "), r.err);
  }
}

TEST_CASE("a thread that cannot be made for the wire is no other rank's fault") {
  const TinyTraining t;
  for (const std::string maker : {"ProcessGroupGlooC", "createDevice"}) {
    const auto r = shell::run(t.in_folder + "export NO_THREADS_OF=" + maker +
                              " LD_PRELOAD=" SLUICE_BINARY_DIR "/fake/libno_threads.so\n" +
                              "$SLUICE run g.json --quiet --no-out --processes 2");
    CHECK_MESSAGE(r.code == 4, r.err);
    CHECK_MESSAGE(contains(r.err, "no further thread can be made: "), r.err);
    CHECK_MESSAGE(contains(r.err, "(ulimit -u)"), r.err);
    CHECK_MESSAGE(!contains(r.err, "did not come"), r.err);
  }
}

TEST_CASE("processes of a machine meet at ::1 where it has no 127.0.0.1") {
  const TinyTraining t;
  const auto r = shell::run(t.in_folder +
                            "unshare -rn bash -c 'ip link set lo up && ip addr del 127.0.0.1/8 dev "
                            "lo && ip -6 addr show dev lo | grep -q ::1 || exit 77\n"
                            "'$SLUICE' run g.json --quiet --out r --processes 2'");
  if (r.code == 77 || contains(r.err, "unshare") || contains(r.err, "ip: ")) {
    MESSAGE("no network of its own can be made here: " << r.err);
    return;
  }
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(t.json_of("r/summary.json").at("world").at("processes") == 2);
}
