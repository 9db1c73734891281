// `run --trace` and `sluice trace`, on real data.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/cli/tiny_training.h"

using nlohmann::json;
using shell::Folder;

namespace {

std::string traced_run(const Folder& f, const std::string& more) {
  return "cd " + f.path.string() +
         "\n$SLUICE run " SLUICE_SOURCE_DIR
         "/graphs/hippocampus.json --quiet --trace --out r --set run.epochs=1"
         " --set nodes.train.limit=16 --set nodes.val.limit=4 --set nodes.batch.size=4"
         " --set vars.root=" +
         shell::test_data() + "/Task04_Hippocampus " + more;
}

bool has_data() {
  if (!shell::test_data().empty()) return true;
  MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
  return false;
}

// Perfetto's own protos, where its package is installed: every slice closed, tracks named.
const char* const decode = R"PY(
import sys
try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
except ImportError:
    print("skipped: no perfetto package"); sys.exit(0)
trace = Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
tracks, depth, slices = {}, {}, 0
for p in trace.packet:
    if p.HasField("track_descriptor"):
        tracks[p.track_descriptor.uuid] = p.track_descriptor.name
    if p.HasField("track_event"):
        e = p.track_event
        assert tracks[e.track_uuid], "an event on a track without a name"
        if e.type == e.TYPE_SLICE_BEGIN:
            depth[e.track_uuid] = depth.get(e.track_uuid, 0) + 1
            slices += 1
        if e.type == e.TYPE_SLICE_END:
            depth[e.track_uuid] -= 1
assert not any(depth.values()), "a slice is open"
assert slices > int(sys.argv[2]), slices
print("ok", slices)
)PY";

std::string decoded(const Folder& f, int least) {
  f.write("decode.py", decode);
  const auto r =
      shell::run("cd " + f.path.string() + " && " SLUICE_PYTHON " decode.py r/trace.pftrace " +
                 std::to_string(least));
  if (r.out.starts_with("skipped")) MESSAGE(r.out);
  return r.code == 0 ? "" : r.err;
}

}  // namespace

TEST_CASE("a sample's life leads from its source to the optimizer, and Perfetto's protos agree") {
  if (!has_data()) return;
  Folder f;
  REQUIRE(shell::run(traced_run(f, "")).code == 0);
  const std::string trace = "cd " + f.path.string() + " && $SLUICE trace r ";
  const auto between = json::parse(shell::run(trace + "--from train --to step --json").out);
  CHECK(between.at("samples") == 16);
  CHECK(between.at("p50_ms").get<double>() <= between.at("max_ms").get<double>());
  const std::string name = between.at("worst");
  const auto life = json::parse(shell::run(trace + "--json --sample " + name).out).at(0);
  std::string nodes;
  for (const auto& row : life.at("life"))
    if (row.contains("in"))
      CHECK(row.at("in") != row.at("node"));  // a pass of another node's body
    else
      nodes += row.at("node").get<std::string>() + " ";
  CHECK(nodes ==
        "train pre/load pre/ras pre/norm pre/fit pre/cached gpu flip scale shift batch fwd loss "
        "step ");
  CHECK(shell::run(trace + "--sample hippocampus_o01").err.find("did you mean") !=
        std::string::npos);
  CHECK(shell::run(trace + "--chrome c.json").code == 0);
  const json all = json::parse(f.read("c.json")).at("traceEvents");
  CHECK(all.size() > 100);
  CHECK(decoded(f, 100) == "");
  // The report draws those of a second, as many as there are of the whole.
  CHECK(shell::run("cd " + f.path.string() + " && $SLUICE report r").code == 0);
  const std::string page = f.read("r/report.html");
  const auto at = page.find("<script type=\"application/json\" id=\"data\">");
  const auto data = json::parse(
      page.substr(page.find('>', at) + 1, page.find("</script>", at) - page.find('>', at) - 1));
  const json& shown = data.at("trace").at("traceEvents");
  CHECK(data.at("trace").at("slices") > 100);
  std::set<std::string> events;
  for (const json& event : all) events.insert(event.dump());
  CHECK(std::count_if(shown.begin(), shown.end(), [&](const json& event) {
          return event.at("ph") == "X" && events.count(event.dump()) > 0;
        }) > 0);
  for (const json& event : shown) CHECK(events.count(event.dump()) > 0);
}

TEST_CASE("after kill -9 the trace still decodes") {
  if (!has_data()) return;
  Folder f;
  // Killed when the trace has begun to hold bodies.
  const auto r = shell::run(traced_run(f, "--set run.epochs=1000 & pid=$!\n") +
                            "until [ \"$(stat -c %s " + (f.path / "r/trace.pftrace").string() +
                            " 2>/dev/null || echo 0)\" -gt 20000 ]; do sleep 0.05; done\n"
                            "kill -9 $pid; wait $pid; echo $?");
  CHECK(r.out == "137\n");
  CHECK(shell::run("cd " + f.path.string() + " && $SLUICE trace r").code == 0);
  CHECK(decoded(f, 20) == "");
}

TEST_CASE("a file that is no trace is not one without bodies") {
  Folder f;
  f.write("g.json", "{ \"nodes\": {} }");
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE trace g.json");
  CHECK(r.code == 3);
  CHECK(r.err == "error: g.json: is no trace of a run\n");
  f.write("g.json", "\n{ \"nodes\": {} }");  // a packet begins with a line break
  CHECK(shell::run("cd " + f.path.string() + " && $SLUICE trace g.json").err == r.err);
}

TEST_CASE("what a trace holds is one document with --json") {
  const TinyTraining t;
  REQUIRE(t.run("--trace --out r --set run.epochs=1").code == 0);
  const auto r = shell::run(t.in_folder + "$SLUICE trace r --json");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const json all = json::parse(r.out);
  CHECK(all.at("samples") == 8);
  CHECK(all.at("nodes").at("train").at("bodies").get<int>() >= 6);
  const auto both = shell::run(t.in_folder + "$SLUICE trace r --chrome c.json --json");
  CHECK(json::parse(both.out) == all);
  CHECK_FALSE(json::parse(t.folder.read("c.json")).at("traceEvents").empty());
  const auto half = shell::run(t.in_folder + "$SLUICE trace r --from train");
  CHECK(half.code == 2);
  CHECK(half.err == "error: --from and --to go together\n");
}
