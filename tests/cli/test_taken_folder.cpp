// A run folder of which something is taken while the run goes on, or that another process works in.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

namespace fs = std::filesystem;

namespace {

// A run without an end that saves behind every epoch, once it has saved.
const std::string never_ending =
    "$SLUICE run g.json --quiet --set run.epochs=100000 --set +run.checkpoint.every_epochs=1 "
    "--set +run.checkpoint.keep=1 --out a ";
const std::string once_saved =
    "& p=$!\nuntil [ -s a/checkpoints/last/state.json ] || ls a/checkpoints/epoch_* "
    ">/dev/null 2>&1; do sleep 0.02; done\n";

}  // namespace

TEST_CASE("a run whose run.json or graph.json is taken ends at its next checkpoint, and says so") {
  const TinyTraining t;
  for (const std::string name : {"run.json", "graph.json", ".lock"})
    for (const std::string more : {"", "--processes 2 "}) {
      CAPTURE(name);
      const auto r = shell::run(t.in_folder + "rm -rf a; timeout 100 " + never_ending + more +
                                once_saved + "rm a/" + name + "; wait $p");
      CHECK_MESSAGE(r.code == 4, r.err);
      CHECK_MESSAGE(contains(r.err, "a/" + name + ": was taken away while the run went on"), r.err);
      CHECK(!fs::exists(t.folder.path / "a/summary.json"));
    }
}

TEST_CASE("a run whose lock is gone writes nothing over what another process made there") {
  const TinyTraining t;
  const std::string sums =
      "find a/checkpoints a/summary.json -type f | LC_ALL=C sort | xargs sha256sum";
  // Stopped where it writes no checkpoint.
  const auto r =
      shell::run(t.in_folder +
                 "$SLUICE run g.json --quiet --set run.epochs=100000 --out a & p=$!\n"
                 "until [ -s a/metrics.jsonl ]; do sleep 0.02; done\nkill -STOP $p; rm a/.lock\n"
                 "$SLUICE run --quiet --resume a --steps 4 || echo failed\n" +
                 sums + " > before; kill -INT $p; kill -CONT $p; wait $p; echo code $?\n" + sums +
                 " | cmp - before && echo same");
  INFO(r.out, r.err);
  CHECK(r.out == "code 4\nsame\n");
  CHECK(contains(r.err, "a/.lock: was taken away"));
}
