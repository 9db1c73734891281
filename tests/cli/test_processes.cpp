// One training in several processes: the same bits from 1 to N, and what happens when one fails.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/campaign.h"
#include "tests/cli/device_training.h"
#include "tests/cli/nii.h"
#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Batches of 5 items of which the last has 3; a batch norm, draws, a metric of training.
json sharded_graph() {
  json g = json::parse(tiny_training);
  g["run"] = {{"epochs", 2}, {"seed", 3}, {"shards", 4}, {"step_threads", 1}};
  g["models"]["net"]["norm"] = "BATCH";
  g["nodes"]["train"]["num_samples"] = 13;
  g["nodes"]["batch"]["size"] = 5;
  g["nodes"]["val"]["num_samples"] = 5;
  g["nodes"]["mean"] = {{"type", "cumulative_average"}, {"in", "loss"}, {"key", "loss"}};
  return g;
}

struct Sharded : TinyTraining {
  explicit Sharded(const json& graph = sharded_graph()) { folder.write("g.json", graph.dump(1)); }
  // Weights, metrics and samples.
  std::string result(const std::string& name) const {
    return trained(name) + json_of(name + "/summary.json").value("samples", json()).dump();
  }
  // Weights and metrics, which a run has that was cut and gone on with.
  std::string trained(const std::string& name) const {
    const json s = json_of(name + "/summary.json");
    std::istringstream lines(folder.read(name + "/metrics.jsonl"));
    // When a metric beside the turns is told depends on timing, in one process too.
    std::multiset<std::string> all;
    for (std::string line; std::getline(lines, line);) all.insert(line);
    std::string told;
    for (const auto& line : all) told += line + "\n";
    return s.value("weights_sha256", "none") + s.value("metrics", json()).dump() + told;
  }
};

// Two processes that a launcher's variables join; their environment may begin their commands. The
// code is rank 0's, rank 1's stands in what is printed.
shell::Result as_ranks(const TinyTraining& t, const std::string& first, const std::string& second) {
  return shell::run(t.in_folder +
                    "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1\n"
                    "export MASTER_PORT=$((20000 + $$ % 10000))\n"
                    "(RANK=1 LOCAL_RANK=1; export RANK LOCAL_RANK; " +
                    second + ") & other=$!\n(RANK=0 LOCAL_RANK=0; export RANK LOCAL_RANK; " +
                    first + ")\ncode=$?\nwait $other\necho other $?\nexit $code");
}

// A socket at a free port of 127.0.0.1, and the port.
std::pair<int, std::string> bound() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(s, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(s, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return {s, std::to_string(ntohs(address.sin_port))};
}

// Passes on what goes between those who connect to port() and a port of this machine, until
// `silent` holds: from then on nothing, while all connections stay.
class SilentProxy {
 public:
  SilentProxy(int to, std::function<bool()> silent)
      : to_(to), silent_(std::move(silent)), own_(bound()) {
    REQUIRE(listen(own_.first, 8) == 0);
    thread_ = std::jthread([this](const std::stop_token& ended) { pass(ended); });
  }
  ~SilentProxy() {
    thread_.request_stop();
    thread_.join();
    close(own_.first);
    for (const int s : sockets_) close(s);
  }
  const std::string& port() const { return own_.second; }

 private:
  // Sockets 2 k and 2 k + 1 are two ends of one way.
  void pass(const std::stop_token& ended) {
    while (!ended.stop_requested()) {
      if (silent_()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        continue;
      }
      std::vector<pollfd> all{{own_.first, POLLIN, 0}};
      for (const int s : sockets_) all.push_back({s, POLLIN, 0});
      if (poll(all.data(), all.size(), 20) <= 0) continue;
      for (std::size_t i = 0; i + 1 < all.size(); ++i)
        if (all[i + 1].revents != 0) pass_on(sockets_[i], sockets_[i ^ 1]);
      if (all[0].revents != 0) take_in();
    }
  }
  void take_in() {
    const int from = accept(own_.first, nullptr, nullptr), to = connected();
    sockets_.insert(sockets_.end(), {from, to});
  }
  // Once its server is there.
  int connected() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(to_));
    for (int left = 600;; --left) {
      const int to = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(to, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || left == 0)
        return to;
      close(to);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  void pass_on(int from, int to) const {
    char bytes[1 << 14];
    const ssize_t n = recv(from, bytes, sizeof bytes, 0);
    if (n <= 0) shutdown(to, SHUT_WR);
    for (ssize_t sent = 0; sent < n;) {
      const ssize_t more = send(to, bytes + sent, static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += more;
    }
  }

  const int to_;
  const std::function<bool()> silent_;
  const std::pair<int, std::string> own_;
  std::vector<int> sockets_;
  std::jthread thread_;
};

// 40 epochs of three processes, cut by a signal once `log` is there, and gone on with to the
// weights of the run `whole`.
void check_cut_and_resumed(const Sharded& t, const std::string& log, const std::string& whole) {
  const auto cut =
      shell::run(t.in_folder +
                 "$SLUICE run g.json --quiet --processes 3 --set run.epochs=40 --out r & all=$!\n"
                 "while ! grep -q " +
                 log +
                 " r/metrics.jsonl; do sleep 0.01; done\n"
                 "kill -TERM $all\nwait $all\necho code $?");
  CHECK_MESSAGE(contains(cut.out, "code 143"), cut.out, cut.err);
  CHECK_MESSAGE(occurrences(cut.err, "stopping") == 1, cut.err);
  CHECK(t.json_of("r/summary.json").at("status") == "cut");
  REQUIRE(shell::run(t.in_folder + "$SLUICE run --quiet --resume r").code == 0);
  CHECK(t.weights("r") == t.weights(whole));
}

}  // namespace

TEST_CASE("sharded training gives the same bits with any number of processes and threads") {
  const Sharded t;
  REQUIRE(t.run("--out one").code == 0);
  CHECK(t.json_of("one/summary.json").at("shards") == 4);
  CHECK(t.json_of("one/summary.json")["samples"]["delivered"].get<int>() > 0);
  for (const std::string options : {"--threads 1", "--threads 8", "--processes 2",
                                    "--processes 3 --threads 1", "--processes 4"}) {
    const std::string out = "r" + std::to_string(options.size()) + options.substr(2, 1);
    const auto run = t.run(options + " --overwrite --out " + out);
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK_MESSAGE(t.result(out) == t.result("one"), options, "\n", t.result(out), "\n",
                  t.result("one"));
  }
}

TEST_CASE("each process leaves its trace and profile, which read as one run's") {
  const Sharded t;
  REQUIRE(t.run("--processes 3 --trace --out r").code == 0);
  const json profile = t.json_of("r/profile.json");
  CHECK(profile.contains("straggler"));
  CHECK(t.json_of("r/summary.json")["world"] ==
        json{{"processes", 3}, {"launcher", "sluice run --processes"}});
  double items = profile["nodes"]["batch"]["items"];
  for (const std::string rank : {"1", "2"})
    items +=
        t.json_of("r/ranks/" + rank + "/profile.json")["nodes"]["batch"]["items"].get<double>();
  const json busy = profile["nodes"]["batch"]["ranks"]["busy_s"];
  REQUIRE(busy.size() == 3);
  CHECK(busy[1] == t.json_of("r/ranks/1/profile.json")["nodes"]["batch"]["busy_s"]);
  const auto read =
      shell::run(t.in_folder +
                 "$SLUICE trace r --json; $SLUICE trace r --merge m.pftrace\n"
                 "$SLUICE trace m.pftrace --json > m; $SLUICE trace r --json | cmp - m "
                 "&& echo same\n"
                 "$SLUICE trace r/ranks/2/trace.pftrace --json > two && echo alone");
  INFO(read.out, read.err);
  CHECK(contains(read.out, "same\nalone\n"));
  const json trace = json::parse(read.out.substr(0, read.out.rfind('}') + 1));
  CHECK(trace["nodes"]["batch"]["bodies"] == items);
  CHECK(trace["samples"] == t.json_of("r/summary.json")["samples"]["emitted"]);
  // Fewer processes leave nothing of more.
  REQUIRE(t.run("--processes 2 --overwrite --out r").code == 0);
  CHECK_FALSE(fs::exists(t.folder.path / "r/ranks/2"));
  CHECK_FALSE(fs::exists(t.folder.path / "r/ranks/1/trace.pftrace"));
  REQUIRE(t.run("--overwrite --out r").code == 0);
  CHECK_FALSE(fs::exists(t.folder.path / "r/ranks"));
}

TEST_CASE("metrics await each other's parts on threads of their own") {
  json g = sharded_graph();
  g["run"]["shards"] = 2;
  g["run"]["watchdog_s"] = 20;  // with one compute thread a process, both stood still
  g["nodes"]["batch"]["size"] = 4;
  for (const char* name : {"a", "b", "c", "d", "e"})
    g["nodes"][name] = {{"type", "dice_metric"}, {"in", "infer"}};
  const Sharded t(g);
  REQUIRE(t.run("--out one").code == 0);
  const auto two = t.run("--processes 2 --threads 1 --out two");
  CHECK(!t.json_of("two/environment.json")["variables"].contains("SLUICE_STORE_SOCKET"));
  CHECK_MESSAGE(two.code == 0, two.err);
  CHECK(t.result("two") == t.result("one"));
}

TEST_CASE("where one process stands still all end as stalled, within seconds") {
  json g = sharded_graph();
  g["run"]["shards"] = 2;
  g["run"]["watchdog_s"] = 0.2;
  g["nodes"]["train"]["num_samples"] = 1;  // the second process has none, and waits for the first
  g["nodes"]["train"]["spatial_size"] = {320, 320, 320};
  const Sharded t(g);
  const std::string run = "exec timeout -k 1 300 $SLUICE run g.json --quiet --out r",
                    later =  // once the second one waits, since the first alone writes files
                    "export FILE_CALLS_UNDER=$(realpath .)/r FILE_CALLS_WAIT_US=300000 "
                    "LD_PRELOAD=" SLUICE_BINARY_DIR "/fake/libfile_calls.so; ";
  const auto r = as_ranks(t, later + run, run);
  CHECK_MESSAGE(r.code == 7, r.err);
  CHECK_MESSAGE(contains(r.out, "other 7"), r.out, r.err);
  CHECK_MESSAGE(contains(r.err, "stalled: no firing ended for 0.2 s"), r.err);
}

TEST_CASE("gradients in bfloat16 give the same bits with any number of processes, from half") {
  const Sharded t;
  REQUIRE(t.run("--out floats --processes 2").code == 0);
  const std::string half = "--set +run.transfer=bfloat16 ";
  REQUIRE(t.run(half + "--out one").code == 0);
  CHECK(t.weights("one") != t.weights("floats"));
  for (const std::string processes : {"2", "3", "4"}) {
    const auto run =
        t.run(half + "--overwrite --out more" + processes + " --processes " + processes);
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK(t.result("more" + processes) == t.result("one"));
  }
  const json whole = t.json_of("floats/profile.json").at("step"),
             halves = t.json_of("more2/profile.json").at("step");
  CHECK(whole.at("sent_bytes") == 2 * halves.at("sent_bytes").get<std::uint64_t>());
  CHECK(halves.at("sent_bytes") > 0);
  const auto unknown = t.run("--no-out --set +run.transfer=float16");
  CHECK(unknown.code == 2);
  CHECK_MESSAGE(contains(unknown.err, "bfloat16"), unknown.err);
}

namespace {

json with_settings(json g, const json& run) {
  g["run"].update(run);
  return g;
}

// A classifier with batch norm: one ball of one of two classes.
json classifier() {
  json g = sharded_graph();
  g["models"]["net"] = {{"type", "densenet121"}, {"spatial_dims", 3},      {"in_channels", 1},
                        {"out_channels", 2},     {"block_config", {2, 2}}, {"init_features", 8}};
  for (const char* name : {"dice", "infer", "val", "mean"}) g["nodes"].erase(name);
  g["nodes"]["train"].update({{"num_objs", 1}, {"num_seg_classes", 2}});
  g["nodes"]["class"] = {{"type", "set_label_class"}, {"in", "noise"}};
  g["nodes"]["batch"]["in"] = "class";
  g["nodes"]["loss"] = {{"type", "cross_entropy_loss"}, {"in", "fwd"}};
  return g;
}

}  // namespace

TEST_CASE("buckets of gradients that go out during the backward pass change no bit") {
  json norm = sharded_graph();
  norm["models"]["net"].update(
      {{"norm", "INSTANCE"}, {"channels", {4, 8, 16}}, {"strides", {2, 2}}, {"num_res_units", 1}});
  for (const json& g :
       {norm, classifier(), with_settings(sharded_graph(), {{"transfer", "bfloat16"}})}) {
    const Sharded t(g);
    REQUIRE(t.run("--out one").code == 0);
    for (const std::string bucket : {"0", "0.0001", "0.01", "1"})
      for (const std::string processes : {"2", "3"}) {
        const auto run = t.run("--overwrite --out more --set +run.bucket_mb=" + bucket +
                               " --processes " + processes);
        CHECK_MESSAGE(run.code == 0, run.err);
        CHECK_MESSAGE(t.result("more") == t.result("one"), bucket, " MB, ", processes);
      }
  }
}

namespace {

// A network that makes images, and one that tells them from those that are there.
json opposed_graph() {
  json g = sharded_graph();
  json& nodes = g["nodes"];
  for (const char* name : {"fwd", "loss", "step", "mean", "val", "infer", "dice"})
    nodes.erase(name);
  g["models"]["net"]["out_channels"] = 1;
  g["models"]["judge"] = {{"type", "discriminator"}, {"in_shape", {1, 16, 16, 16}},
                          {"channels", {4, 1}},      {"strides", {2, 2}},
                          {"norm", "BATCH"},         {"last_act", nullptr}};
  const auto model = [](const char* in, const char* net, const char* key, const char* output) {
    return json{
        {"type", "model"}, {"in", in}, {"net", net}, {"keys", key}, {"output_keys", output}};
  };
  const auto loss = [](const char* in, const char* key, bool real) {
    return json{{"type", "patch_adversarial_loss"},
                {"in", in},
                {"key", key},
                {"criterion", "bce"},
                {"target_is_real", real}};
  };
  nodes["make"] = model("batch", "net", "image", "made");
  nodes["judged"] = model("make", "judge", "made", "said");
  nodes["fooled"] = loss("judged", "said", true);
  nodes["maker_step"] = {{"type", "adam"}, {"in", "fooled"}, {"net", "net"}, {"lr", 0.01}};
  nodes["of_made"] = model("maker_step", "judge", "made", "said");
  nodes["no"] = loss("of_made", "said", false);
  nodes["no"]["output_key"] = "no";
  nodes["of_real"] = model("no", "judge", "image", "said_of_real");
  nodes["yes"] = loss("of_real", "said_of_real", true);
  nodes["yes"]["output_key"] = "yes";
  nodes["both"] = {{"type", "sum_losses"}, {"in", "yes"}, {"keys", {"no", "yes"}}};
  nodes["judge_step"] = {{"type", "adam"}, {"in", "both"}, {"net", "judge"}, {"lr", 0.01}};
  return g;
}

}  // namespace

TEST_CASE("two optimizers of one stream have the same bits with any number of processes") {
  const Sharded t(opposed_graph());
  const auto one = t.run("--out one");
  REQUIRE_MESSAGE(one.code == 0, one.err);
  for (const std::string more : {"--processes 2", "--processes 3 --threads 1", "--processes 4",
                                 "--processes 3 --set +run.bucket_mb=0.0001",
                                 "--processes 2 --set +run.shard_optimizer=true"}) {
    const auto run = t.run(more + " --overwrite --out more");
    CHECK_MESSAGE(run.code == 0, more, "\n", run.err);
    CHECK_MESSAGE(t.result("more") == t.result("one"), more);
  }
  // A cut comes behind both.
  REQUIRE(t.run("--overwrite --set run.epochs=40 --out one").code == 0);
  check_cut_and_resumed(t, "judge_step.loss", "one");
}

TEST_CASE("a bucket below nothing is refused, and told where it stands") {
  const Sharded t;
  for (const std::string bad : {"-1", "\"much\""}) {
    const auto run = t.run("--no-out --set +run.bucket_mb=" + bad);
    CHECK(run.code == 2);
    CHECK_MESSAGE(contains(run.err, "bucket_mb"), run.err);
  }
}

TEST_CASE("a sharded optimizer has the bits of a whole one, keeps less, and goes on anywhere") {
  json g = sharded_graph();
  // Blocks of 16,384 weights stay together, so fewer would be one rank's.
  g["models"]["net"].update({{"channels", {32, 64}}, {"num_res_units", 1}});
  for (const json& step :
       std::vector<json>{{{"type", "adam"}, {"clip_grad_norm", 0.1}, {"amsgrad", true}},
                         {{"type", "novograd"}, {"lr", 0.001}},
                         {{"type", "lamb"}},
                         {{"type", "lars"}, {"clip_grad_value", 0.01}},
                         {{"type", "sgd"}, {"momentum", 0.9}}}) {
    CAPTURE(step.dump());
    g["nodes"]["step"] = {{"in", "loss"}, {"net", "net"}};
    g["nodes"]["step"].update(step);
    g["run"].erase("shard_optimizer");
    const Sharded t(g);
    REQUIRE(t.run("--out one").code == 0);
    const std::string sharded = "--set +run.shard_optimizer=true --overwrite ";
    const auto moments = [&](const std::string& run) {
      return t.json_of(run + "/profile.json").at("step").at("moments").get<std::int64_t>();
    };
    for (const std::string processes : {"1", "2", "4"}) {
      const auto run = t.run(sharded + "--out more --processes " + processes);
      CHECK_MESSAGE(run.code == 0, run.err);
      CHECK_MESSAGE(t.result("more") == t.result("one"), processes);
      if (processes == "4") CHECK(moments("more") < moments("one") / 2);
    }
    const auto ends = [&](const std::string& words) {
      const auto run = t.run(words);
      REQUIRE_MESSAGE(run.code == 0, run.err);
    };
    ends(sharded + "--processes 3 --set run.epochs=1 --out cut");
    ends("--set +run.shard_optimizer=true --processes 2 --resume cut");
    CHECK(t.weights("cut") == t.weights("one"));
    ends("--processes 2 --set run.epochs=1 --overwrite --out cut");
    ends("--set +run.shard_optimizer=true --processes 4 --resume cut");
    CHECK(t.weights("cut") == t.weights("one"));
  }
}

TEST_CASE("one shard is the whole batch: the bits of a run without shards") {
  Sharded t;
  json g = sharded_graph();
  g["run"]["shards"] = 1;
  t.folder.write("g.json", g.dump(1));
  REQUIRE(t.run("--out one").code == 0);
  g["run"].erase("shards");
  t.folder.write("g.json", g.dump(1));
  REQUIRE(t.run("--out none").code == 0);
  CHECK(t.weights("one") == t.weights("none"));
}

TEST_CASE("a damaged or filtered sample leaves its place empty, in every process alike") {
  json g = sharded_graph();
  g["nodes"]["flip"]["prob"] = 1;
  const Sharded t(g);
  const std::string damage =
      " --set +nodes.noise.on_error=quarantine --set nodes.noise.prob=1 "
      "--set +nodes.noise.keys='[\"image\"]'";
  REQUIRE(t.run("--out one" + damage).code == 0);
  REQUIRE(t.run("--processes 3 --out three" + damage).code == 0);
  CHECK(t.result("three") == t.result("one"));
}

TEST_CASE("a run of several processes goes on with another number of them, to the same bits") {
  const Sharded t;
  REQUIRE(t.run("--out whole").code == 0);
  REQUIRE(t.run("--processes 3 --set run.epochs=1 --out cut").code == 0);
  const auto more = t.run("--processes 2 --resume cut");
  REQUIRE(more.code == 0);
  CHECK_MESSAGE(occurrences(more.err, "settings differ") == 1, more.err);
  CHECK(t.weights("cut") == t.weights("whole"));
}

TEST_CASE("a running mean is over batches, also of their shards, in any number of processes") {
  json g = sharded_graph();
  g["nodes"]["train"]["num_samples"] = 15;
  g["nodes"]["often"] = {{"type", "running_mean"}, {"in", "loss"}, {"every", 1}};
  const Sharded t(g);
  for (const std::string processes : {"1", "2", "4"}) {
    REQUIRE(t.run("--overwrite --out r --processes " + processes).code == 0);
    CHECK(occurrences(t.folder.read("r/metrics.jsonl"), "\"log\":\"often.mean\"") == 6);
  }
}

TEST_CASE("a process that is bound to a core takes no thread for another one") {
  const TinyTraining t;
  const auto run = shell::run(
      t.in_folder +
      "core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/self/status)\n"
      "taskset -c $core $SLUICE run g.json --quiet --out r");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(t.json_of("r/summary.json").at("threads") == 1);
  CHECK(t.json_of("r/summary.json").at("step_threads") == 1);
}

TEST_CASE("a list dealt out to shards gives the same bits with any number of processes") {
  json g = sharded_graph();
  g["nodes"]["train"].update({{"shuffle", true}, {"by_shard", true}});
  const Sharded t(g);
  const std::string mixed = "--set nodes.train.by_shard=false --out mixed";
  REQUIRE(t.run(mixed).code == 0);
  REQUIRE(t.run("--out one").code == 0);
  CHECK(t.weights("one") != t.weights("mixed"));
  for (const std::string processes : {"2", "3", "4"}) {
    const auto run = t.run("--overwrite --out more --processes " + processes);
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK(t.result("more") == t.result("one"));
  }
  REQUIRE(t.run("--processes 3 --set run.epochs=1 --out cut").code == 0);
  REQUIRE(t.run("--processes 2 --resume cut").code == 0);
  CHECK(t.weights("cut") == t.weights("one"));
  // One shard is the whole list, shuffled as ever.
  REQUIRE(t.run("--set run.shards=1 --overwrite " + mixed).code == 0);
  REQUIRE(t.run("--set run.shards=1 --overwrite --out one").code == 0);
  CHECK(t.weights("one") == t.weights("mixed"));
}

TEST_CASE("windows of a smart cache by shard give the same bits with any number of processes") {
  json g = sharded_graph();
  g["nodes"]["train"]["num_samples"] = 23;
  g["nodes"]["batch"]["size"] = 8;
  g["nodes"]["kept"] = {
      {"type", "smart_cache"}, {"in", "train"}, {"by_shard", true}, {"cache_num", 12}};
  g["nodes"]["flip"]["in"] = "kept";
  const Sharded t(g);
  REQUIRE(t.run("--out one").code == 0);
  for (const std::string processes : {"2", "3", "4"}) {
    const auto run = t.run("--overwrite --out more --processes " + processes);
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK(t.result("more") == t.result("one"));
  }
  const auto whole = t.run("--out whole --set nodes.kept.by_shard=false");
  CHECK_MESSAGE(whole.code == 0, whole.err);
  CHECK(t.weights("whole") != t.weights("one"));
  const auto mixed = t.run("--no-out --set +nodes.train.shuffle=true");
  CHECK(mixed.code == 2);
  CHECK_MESSAGE(contains(mixed.err, "would mix the parts of by_shard"), mixed.err);
  const std::string within = " --set +nodes.train.shuffle=true --set +nodes.train.by_shard=true";
  REQUIRE(t.run("--out within" + within).code == 0);
  CHECK(t.weights("within") != t.weights("one"));
  REQUIRE(t.run("--out within3 --processes 3" + within).code == 0);
  CHECK(t.result("within3") == t.result("within"));
  const auto half = t.run("--no-out --set nodes.kept.by_shard=false" + within);
  CHECK(half.code == 2);
  CHECK_MESSAGE(contains(half.err, "for all shards together"), half.err);
  const auto uneven = t.run("--no-out --set nodes.batch.size=6");
  CHECK(uneven.code == 2);
  CHECK_MESSAGE(contains(uneven.err, "no equal share of each of 4 parts"), uneven.err);
}

TEST_CASE("--steps ends a run in shards behind that step, in one process and in two") {
  const Sharded t;  // three steps an epoch
  for (const std::string steps : {"1", "2", "3", "4"})
    for (const std::string processes : {"1", "2"}) {
      const auto run =
          t.run("--overwrite --out some --steps " + steps + " --processes " + processes);
      CHECK_MESSAGE(run.code == 0, run.err);
      CHECK(t.json_of("some/summary.json").at("steps") == std::stoi(steps));
    }
}

TEST_CASE("two gates side by side are one process's, where --steps ends them behind an epoch") {
  json g = sharded_graph();
  json& nodes = g["nodes"];
  g["models"]["net2"] = g["models"]["net"];
  for (const char* name : {"fwd", "loss", "step"}) nodes[std::string(name) + "2"] = nodes[name];
  nodes["fwd2"]["net"] = nodes["step2"]["net"] = "net2";
  nodes["loss2"]["in"] = "fwd2";
  nodes["step2"]["in"] = "loss2";
  const Sharded t(g);
  REQUIRE(t.run("--set run.epochs=1 --out whole").code == 0);
  REQUIRE(t.run("--steps 1 --out r").code == 0);
  CHECK(t.json_of("r/summary.json").at("steps") == 6);
  CHECK(t.weights("r") == t.weights("whole"));
  const auto two = t.run("--no-out --processes 2");
  CHECK(two.code == 2);
  CHECK_MESSAGE(contains(two.err, "\"fwd\" and \"fwd2\" begin training side by side"), two.err);
}

TEST_CASE("a process that waits for one that works does not stand still") {
  json g = sharded_graph();
  g["run"]["watchdog_s"] = 1;
  g["run"]["epochs"] = 1;
  g["nodes"]["val"]["num_samples"] = 150;
  g["nodes"]["val"]["spatial_size"] = {48, 48, 48};
  g["nodes"]["kept"] = {{"type", "digest"}, {"in", "infer"}};  // the first process's alone
  const Sharded t(g);
  const auto two = t.run("--no-out --processes 2");
  CHECK_MESSAGE(two.code == 0, two.err);
}

TEST_CASE("a running mean goes on in every process, so that all judge alike by it") {
  json g = sharded_graph();
  json& nodes = g["nodes"];
  nodes["vb"] = {{"type", "batch"}, {"in", "val"}, {"size", 1}};
  nodes["vm"] = {{"type", "model"}, {"in", "vb"}, {"net", "net"}};
  nodes["pd"] = {{"type", "patch_dice"}, {"in", "vm"}};
  nodes["step"].update({{"lr", 0.002},
                        {"lr_schedule", "reduce_on_plateau"},
                        {"metric", "pd.ema"},
                        {"mode", "max"},
                        {"patience", 0},
                        {"threshold", 0.12},
                        {"threshold_mode", "abs"}});
  nodes["train"]["num_samples"] = 25;
  const Sharded t(g);
  REQUIRE(t.run("--set run.epochs=8 --out one").code == 0);
  REQUIRE(t.run("--out r --processes 2").code == 0);
  const auto more =
      shell::run(t.in_folder + "$SLUICE run --quiet --resume r --set run.epochs=8 --processes 2");
  CHECK_MESSAGE(more.code == 0, more.err);
  CHECK(t.weights("r") == t.weights("one"));
}

TEST_CASE("several processes cannot stop by a metric that the first of them alone computes") {
  json g = sharded_graph();
  json& nodes = g["nodes"];
  nodes["val_batch"] = {{"type", "batch"}, {"in", "infer"}, {"size", 1}};
  nodes["val_loss"] = nodes["loss"];
  nodes["val_loss"]["in"] = "val_batch";
  nodes["mean_loss"] = {{"type", "running_mean"}, {"in", "val_loss"}};
  g["run"]["stop"] = {{"metric", "mean_loss.mean"}, {"mode", "min"}, {"patience", 1}};
  const Sharded t(g);
  const auto one = t.run("--no-out");
  CHECK_MESSAGE(one.code == 0, one.err);
  const auto two = t.run("--no-out --processes 2");
  CHECK(two.code == 2);
  CHECK_MESSAGE(contains(two.err, "of several processes the first alone computes \"mean_loss\""),
                two.err);
}

TEST_CASE("more processes than shards, and batches that shards do not divide, are refused") {
  const Sharded t;
  const auto many = t.run("--processes 5 --no-out");
  CHECK(many.code == 2);
  CHECK_MESSAGE(occurrences(many.err, "5 processes, but run.shards is 4") == 1, many.err);
  const auto small = t.run("--set run.shards=6 --no-out");
  CHECK(small.code == 2);
  CHECK_MESSAGE(contains(small.err, "SL0450"), small.err);
}

TEST_CASE("a stream that shards cannot divide is refused with what stands in the way") {
  const auto said = [](const std::function<void(json&)>& change) {
    json g = sharded_graph();
    change(g["nodes"]);
    const Sharded t(g);
    const auto r = shell::run(t.in_folder + "$SLUICE check g.json");
    return r.out + r.err;
  };
  const auto in_front_of_batch = [](const json& node) {
    return [=](json& nodes) {
      nodes["new"] = node;
      nodes["new"]["in"] = nodes["batch"]["in"];
      nodes["batch"]["in"] = "new";
    };
  };
  const auto all = [&](const std::function<void(json&)>& change, const std::string& why) {
    const std::string text = said(change);
    CHECK_MESSAGE(contains(text, why), text);
    CHECK(contains(text, "SL0450"));
  };
  all([](json& n) { n["step"]["grad_accumulation"] = 2; },
      "\"step\" adds up gradients of several batches");
  all([](json& n) { n["batch"]["drop_last"] = true; }, "drops an epoch's last batch");
  all(in_front_of_batch({{"type", "shuffle"}, {"window", 4}}),
      "\"new\" mixes samples of different shards");
  all(in_front_of_batch(
          {{"type", "rand_spatial_crop_samples"}, {"roi_size", {8, 8, 8}}, {"num_samples", 3}}),
      "a batch of 5 is no whole number of items of 3 samples each");
  all(in_front_of_batch({{"type", "split_slices"}}),
      "makes now more, now fewer samples of an item");
  all(
      [](json& n) {
        n["twice"] = {{"type", "batch"}, {"in", "batch"}, {"size", 2}}, n["fwd"]["in"] = "twice";
      },
      "has several batches one after the other");
  all([](json& n) { n["fwd"]["in"] = n["batch"]["in"], n.erase("batch"); },
      "the stream of \"train\" has no batch");
  all(
      [](json& n) {
        n["again"] = {{"type", "model"}, {"in", "step"}, {"net", "net"}};
      },
      "\"again\" reads network \"net\" behind \"step\"");
  all(
      [](json& n) {
        n["rep"] = {{"type", "repeat_sample"}, {"in", "batch"}, {"times", 2}};
        n["fwd"]["in"] = "rep";
      },
      "\"rep\" makes several of each shard in front of \"step\"");
  const auto warned = [&](const std::function<void(json&)>& change, const std::string& code) {
    const std::string text = said(change);
    CHECK_MESSAGE(contains(text, code), text);
    CHECK_FALSE(contains(text, "error["));
  };
  warned([](json& n) { n["loss"]["batch"] = true; }, "SL0452");
  warned([](json& n) { n["loss"]["reduction"] = "sum"; }, "SL0452");
  warned([](json& n) { n["loss"]["weight"] = {0.5, 2}; }, "SL0452");
  warned(
      [](json& n) {
        n["mix"] = {{"type", "mix_up"}, {"in", "batch"}, {"keys", "image"}};
        n["fwd"]["in"] = "mix";
      },
      "SL0452");
  warned(
      [](json& n) {
        n["m"] = {{"type", "running_mean"}, {"in", "loss"}, {"key", "loss"}};
      },
      "SL0453");
}

TEST_CASE("launchers' variables make a process one of several, and ranks that differ are told") {
  const Sharded t;
  const auto both = [&](const std::string& first, const std::string& second) {
    return as_ranks(t, "$SLUICE run g.json --quiet " + first, "$SLUICE run g.json " + second);
  };
  REQUIRE(t.run("--out one").code == 0);
  const auto alike = both("--out two", "--out two");
  CHECK_MESSAGE(alike.code == 0, alike.err);
  CHECK(contains(alike.out, "other 0"));
  CHECK(t.result("two") == t.result("one"));
  CHECK(t.json_of("two/summary.json")["world"] == json{{"processes", 2}, {"launcher", "torchrun"}});
  const auto again = both("--continue --out two", "--continue --out two");
  CHECK_MESSAGE(again.code == 0, again.err);
  CHECK_MESSAGE(!contains(again.out, "nothing is left"), again.out);  // which rank 0 would say
  const auto differ = both("--no-out", "--no-out --set run.seed=4");
  CHECK(differ.code == 9);
  CHECK(contains(differ.out, "other 2"));
  CHECK_MESSAGE(contains(differ.err, "rank 1 has another graph"), differ.err);
}

TEST_CASE(
    "--processes within a launcher's processes is refused, and beside a launcher of one is not") {
  const Sharded t;
  const std::string run = "$SLUICE run g.json --quiet --no-out --processes 2";
  const auto within = as_ranks(t, run, "true");
  CHECK(within.code == 2);
  CHECK_MESSAGE(contains(within.err, "one of 2 that torchrun has started"), within.err);
  const auto beside = shell::run(t.in_folder +
                                 "export RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1\n"
                                 "TORCHELASTIC_USE_AGENT_STORE=True " +
                                 run + " --set +run.join_timeout_s=20");
  CHECK_MESSAGE(beside.code == 0, beside.err);
}

TEST_CASE("variables that contradict each other are told once") {
  const Sharded t;
  const auto r = shell::run(t.in_folder +
                            "RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "
                            "$SLUICE run g.json --quiet --no-out");
  CHECK(r.code == 2);
  CHECK(r.err == "error: RANK is 2, but there are 2 processes\n");
}

TEST_CASE("a rank whose list holds other items, or another order of them, is told") {
  json g = sharded_graph();
  g["nodes"]["files"] = {{"type", "file_patterns"},
                         {"root", "data"},
                         {"patterns", {{"image", "*_i.nii"}, {"label", "*_l.nii"}}}};
  g["nodes"]["train"] = {{"type", "load_image"}, {"in", "files"}};
  const Sharded t(g);
  const auto fill = [&](const std::string& folder, const std::string& last) {
    t.folder.write(folder + "/g.json", g.dump());
    for (const std::string& name :
         {std::string("a"), std::string("b"), std::string("c"), std::string("d"), last}) {
      const fs::path at = t.folder.path / folder / "data" / name;
      nii::write_pair(at.string() + "_i.nii", at.string() + "_l.nii", {16, 16, 16}, {1, 1, 1});
    }
  };
  fill("one", "e");
  fill("two", "f");
  const std::string run = "$SLUICE run g.json --quiet --no-out";
  const auto alike = as_ranks(t, "cd one; " + run, "cd one; " + run);
  CHECK_MESSAGE(alike.code == 0, alike.err);
  const auto differ = as_ranks(t, "cd one; " + run, "cd two; " + run);
  CHECK(differ.code == 9);
  CHECK(contains(differ.out, "other 2"));
  CHECK_MESSAGE(contains(differ.err, "rank 1 has another order of items"), differ.err);
}

TEST_CASE("rank 0 serves the port that its launcher holds for it") {
  const Sharded t;
  const auto [held, port] = bound();
  const std::string run = "$SLUICE run g.json --quiet --no-out",
                    there = "export MASTER_PORT=" + port + "; " + run;
  const auto with =
      as_ranks(t, "export SLUICE_STORE_SOCKET=" + std::to_string(held) + "; " + there, there);
  CHECK_MESSAGE(with.code == 0, with.err);
  CHECK_MESSAGE(contains(with.out, "other 0"), with.out);
  const auto without = as_ranks(t, there, "true");  // the port is taken
  CHECK(without.code == 9);
  CHECK_MESSAGE(contains(without.err, "port " + port + " cannot be served"), without.err);
  close(held);
}

TEST_CASE("a rank 0 that answers nothing is given up after run.join_timeout_s, and named") {
  const Sharded t;
  const auto [silent, listening] = bound();
  REQUIRE(listen(silent, 8) == 0);
  for (const std::string& port : {listening, std::string("1")}) {  // silence, and nobody there
    const auto r = shell::run(
        t.in_folder + "export RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
        "\ntimeout -k 1 30 $SLUICE run g.json --no-out --set run.join_timeout_s=2");
    CHECK(r.code == 9);
    CHECK_MESSAGE(contains(r.err, "rank 0 does not answer at 127.0.0.1:" + port), r.err);
  }
  const auto agent =
      shell::run(t.in_folder +
                 "export RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "
                 "TORCHELASTIC_USE_AGENT_STORE=True\n"
                 "timeout -k 1 30 $SLUICE run g.json --no-out --set run.join_timeout_s=2");
  CHECK(agent.code == 9);
  CHECK_MESSAGE(contains(agent.err, "torchrun does not answer at 127.0.0.1:1"), agent.err);
  // A signal, once the process has connected.
  pollfd waiting{silent, POLLIN, 0};
  while (poll(&waiting, 1, 0) > 0) ::close(accept(silent, nullptr, nullptr));
  std::thread taker([&] {
    if (poll(&waiting, 1, 60000) > 0) std::ofstream(t.folder.path / "connected");
  });
  const auto ended = shell::run(
      t.in_folder + "export RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + listening +
      "\n$SLUICE run g.json --no-out &\n"
      "for i in $(seq 600); do [ -e connected ] && break; sleep 0.1; done\n"
      "kill -TERM $!\nwait $!\necho $?");
  taker.join();
  CHECK(ended.out == "143\n");
  CHECK_MESSAGE(contains(ended.err, "ended before all processes were there"), ended.err);
  close(silent);
  const auto alone =
      shell::run(t.in_folder + "export RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                 "$((20000 + $$ % 10000))\ntimeout 100 $SLUICE run g.json --no-out --set "
                 "run.join_timeout_s=2");
  CHECK(alone.code == 9);
  CHECK_MESSAGE(contains(alone.err, "rank 1 did not come"), alone.err);
}

TEST_CASE(
    "a full disk on one rank ends all, in its words, and the run goes on where there is room") {
  const Sharded t;
  const std::string settings = "--set +run.checkpoint.every_epochs=1";
  REQUIRE(t.run(settings + " --out whole").code == 0);
  const std::string run = "$SLUICE run g.json --quiet --continue --out r " + settings;
  const std::string full = "export FILE_CALLS_UNDER=" + fs::canonical(t.folder.path).string() +
                           " FILE_CALLS_ROOM=20000 LD_PRELOAD=" SLUICE_BINARY_DIR
                           "/fake/libfile_calls.so; ";
  const auto r = as_ranks(t, full + run, run);
  CHECK_MESSAGE(r.code == 4, r.err);
  CHECK(contains(r.out, "other 9"));
  CHECK_MESSAGE(contains(r.err, "another process failed: rank 0"), r.err);
  CHECK_MESSAGE(contains(r.err, "No space left on device"), r.err);
  REQUIRE(as_ranks(t, run, run).code == 0);
  CHECK(t.weights("r") == t.weights("whole"));
}

TEST_CASE("a rank that is killed ends the others at once, and a resume gives the same bits") {
  const Sharded t;
  const std::string longer = "--set run.epochs=6 --set +run.checkpoint.every_epochs=1 ";
  REQUIRE(t.run(longer + "--out whole").code == 0);
  std::mt19937 random(static_cast<unsigned>(campaign::seed()));
  int killed = 0;
  double longest = 0;
  for (campaign::Cases cases("rank_kills", 3, 130); cases.next();) {
    const int processes = 2 + static_cast<int>(random() % 3);
    const auto after = std::to_string(0.1 + static_cast<double>(random() % 500) * 1e-3);
    const auto victim = std::to_string(1 + random() % static_cast<unsigned>(processes));
    fs::remove_all(t.folder.path / "r");
    const auto run =
        shell::run(t.in_folder + "$SLUICE run g.json --quiet " + longer +
                   "--continue --out r --processes " + std::to_string(processes) +
                   " & all=$!\nsleep " + after + "\nkill -9 $(pgrep -P $all | sed -n " + victim +
                   "p)\nbegin=$(date +%s%N)\nwait $all\necho code $?\n" +
                   "echo $((($(date +%s%N) - begin) / 1000000))");
    if (contains(run.out, "code 0")) continue;  // it was over
    ++killed;
    if (fs::exists(t.folder.path / "r/sessions.jsonl"))
      CHECK(occurrences(t.folder.read("r/sessions.jsonl"), "\"event\":\"end\"") <= 1);
    CHECK_MESSAGE(!contains(run.err, "cannot write"), run.err);
    // The launcher's code is the killed rank's own.
    CHECK_MESSAGE(contains(run.out, "code 137"), run.out, run.err);
    longest = std::max(longest,
                       std::atof(run.out.substr(run.out.rfind('\n', run.out.size() - 2)).c_str()));
    const auto more =
        t.run(longer + "--continue --out r --processes " + std::to_string(1 + random() % 4));
    CHECK_MESSAGE(more.code == 0, more.err);
    CHECK(t.weights("r") == t.weights("whole"));
  }
  CHECK(killed > 0);
  MESSAGE(killed << " ranks killed; the others ended within " << longest << " ms");
}

namespace {

// Kills a run with -9 once it has a checkpoint within an epoch; whether it was still going on, and
// so many packets of the epoch that its last checkpoint is in.
std::optional<int> killed_within_epoch(const TinyTraining& t, const std::string& command,
                                       const std::string& out) {
  const std::string last = out + "/checkpoints/last/state.json";
  const auto r = shell::run(t.in_folder + command + " --out " + out +
                            " & all=$!\nuntil grep -qs '\"batch\": [1-9]' " + last +
                            " || ! kill -0 $all 2>/dev/null; do sleep 0.01; done\nkill -9 $all\n"
                            "wait $all\necho code $?\nflock -w 20 " +
                            out + "/.lock true");
  INFO(r.err);
  if (!contains(r.out, "code 137")) return std::nullopt;
  return t.json_of(last).at("state").at("batch").get<int>();
}

// At a turn's end what still works on the epoch is not in the checkpoint.
void check_gone_on(const Sharded& t, const std::string& out, int packets) {
  CHECK(t.weights(out) == t.weights("whole"));
  if (packets > 0) CHECK(t.trained(out) == t.trained("whole"));
}

const std::string often = " --set +run.checkpoint.every_s=1e-9";

}  // namespace

TEST_CASE("processes killed behind a checkpoint within an epoch go on to the same bits") {
  json g = sharded_graph();
  g["nodes"]["train"]["num_samples"] = 43;
  const Sharded t(g);
  REQUIRE(t.run("--out whole").code == 0);
  for (const std::string processes : {"1", "3"}) {  // nor do checkpoints change the run itself
    const auto saved = t.run("--overwrite --out saved --processes " + processes + often);
    CHECK_MESSAGE(saved.code == 0, saved.err);
    CHECK(t.result("saved") == t.result("whole"));
  }
  const std::vector<std::pair<std::string, std::string>> ways{{"3", "1"}, {"1", "2"}, {"2", "3"}};
  int killed = 0;
  for (campaign::Cases cases("kills_within_epochs", 3, 60); cases.next();) {
    const auto& [before, then] = ways[cases.index() % ways.size()];
    const std::string out = "r" + std::to_string(cases.index());
    const std::string command = "$SLUICE run g.json --quiet --processes " + before + often;
    const auto packets = killed_within_epoch(t, command, out);
    if (!packets) continue;
    killed += *packets > 0;
    const auto more = t.run("--resume " + out + " --processes " + then + often);
    CHECK_MESSAGE(more.code == 0, more.err);
    check_gone_on(t, out, *packets);
  }
  CHECK(killed > 0);
}

TEST_CASE("one process killed behind a checkpoint within an epoch goes on to the same bits") {
  json host = json::parse(tiny_training);
  host["run"]["step_threads"] = 1;
  host["nodes"]["train"]["num_samples"] = 41;
  host["nodes"]["step"]["grad_accumulation"] = 3;
  host["nodes"]["mean"] = {{"type", "cumulative_average"}, {"in", "loss"}, {"key", "loss"}};
  const json device =
      json::parse(device_training({{"channels", {2, 4}}, {"strides", {2}}}, 41, 2).dump());
  int killed = 0;
  for (const json& g : {host, device}) {
    const Sharded t(g);
    const std::string run = "SLUICE_DEVICE=simulated $SLUICE run g.json --quiet ";
    const auto ends = [&](const std::string& words) {
      const auto r = shell::run(t.in_folder + run + words);
      REQUIRE_MESSAGE(r.code == 0, r.err);
    };
    ends("--out whole");
    ends("--out saved" + often);
    CHECK(t.result("saved") == t.result("whole"));
    const auto packets = killed_within_epoch(t, run + often, "r");
    if (!packets) continue;
    killed += *packets > 0;
    ends("--resume r" + often);
    check_gone_on(t, "r", *packets);
  }
  CHECK(killed > 0);
}

TEST_CASE("a checkpoint's time that is none is told where it stands") {
  const TinyTraining t;
  const auto check = [&](const std::string& time) {
    return shell::run(t.in_folder + "$SLUICE check g.json --set '+run.checkpoint.every_s=" + time +
                      "'");
  };
  for (const std::string bad : {"-1", "nan", "1e999", "often", "[1]"}) {
    const auto r = check(bad);
    CHECK_MESSAGE(r.code == 2, bad, "\n", r.out, r.err);
    CHECK_MESSAGE(contains(r.err, "every_s"), r.err);
  }
  for (const std::string good : {"null", "0", "0.5"}) CHECK(check(good).code == 0);
}

namespace {

// 13 images in batches of 5, of which two processes have four shards.
struct WithImages : Sharded {
  WithImages() : Sharded(graph()) {
    for (char name = 'a'; name <= 'm'; ++name)
      nii::write_pair(file(name, 'i'), file(name, 'l'), {16, 16, 16}, {1, 1, 1});
  }
  static json graph() {
    json g = sharded_graph();
    g["nodes"]["files"] = {{"type", "file_patterns"},
                           {"root", "data"},
                           {"patterns", {{"image", "*_i.nii"}, {"label", "*_l.nii"}}}};
    g["nodes"]["train"] = {{"type", "load_image"}, {"in", "files"}, {"on_error", "quarantine"}};
    return g;
  }
  std::string file(char name, char kind) const {
    fs::create_directories(folder.path / "data");
    return (folder.path / "data").string() + "/" + name + "_" + kind + ".nii";
  }
  void damage(const std::string& names) const {
    for (const char name : names) {
      fs::rename(file(name, 'i'), file(name, 'i') + ".whole");
      std::ofstream(file(name, 'i')) << "no image";
    }
  }
  void mend(const std::string& names) const {
    for (const char name : names) fs::rename(file(name, 'i') + ".whole", file(name, 'i'));
  }
};

}  // namespace

TEST_CASE("a run that is gone on with knows what each process found bad") {
  const WithImages t;
  const std::string bad = "cdeh";  // all are rank 1's
  t.damage(bad);
  REQUIRE(t.run("--set run.epochs=1 --processes 2 --out r").code == 0);
  CHECK(occurrences(t.folder.read("r/quarantine.jsonl"), "\n") == 4);
  t.mend(bad);
  fs::copy(t.folder.path / "r", t.folder.path / "s", fs::copy_options::recursive);
  const auto more = t.run("--set +run.max_bad=3 --resume r");
  CHECK(more.code == 3);
  CHECK_MESSAGE(contains(more.err, "more than the 3 allowed"), more.err);
  const auto all = t.run("--set +run.max_bad=4 --resume s --processes 2");
  CHECK_MESSAGE(all.code == 0, all.err);
}

TEST_CASE("what each process found bad is told also where the run fails") {
  const WithImages t;
  t.damage("cdeh");  // all are rank 1's
  REQUIRE(t.run("--set run.epochs=1 --set +run.max_bad=3 --processes 2 --out r").code == 3);
  CHECK(occurrences(t.folder.read("r/quarantine.jsonl"), "\n") == 4);
}

TEST_CASE("a budget of bad samples is of all processes together") {
  const WithImages t;
  t.damage("abcd");  // two of each of two processes
  for (const std::string processes : {"1", "2"}) {
    const auto few = t.run("--no-out --set +run.max_bad=3 --processes " + processes);
    CHECK_MESSAGE(few.code == 3, few.err);
    CHECK_MESSAGE(contains(few.err, "more than the 3 allowed"), few.err);
    const auto all = t.run("--no-out --set +run.max_bad=4 --processes " + processes);
    CHECK_MESSAGE(all.code == 0, all.err);
  }
}

TEST_CASE("a rank that hangs is named, also the first one, which serves the others' messages") {
  const Sharded t;
  for (const std::string victim : {"0", "1"}) {
    const auto run =
        shell::run(t.in_folder +
                   "timeout 90 $SLUICE run g.json --quiet --processes 3 --set run.epochs=100000 "
                   "--set +run.peer_timeout_s=2 --out r" +
                   victim + " & guard=$!\nwhile ! grep -q step.loss r" + victim +
                   "/metrics.jsonl; do sleep 0.05; done\n"
                   "kill -STOP $(pgrep -P $(pgrep -P $guard) | sed -n $((" +
                   victim + " + 1))p)\nwait $guard\necho code $?");
    CHECK_MESSAGE(contains(run.out, "code 9"), run.out, run.err);  // of those that say who hangs
    CHECK_MESSAGE(contains(run.err, "rank " + victim + " did not end and was killed"), run.err);
    CHECK_MESSAGE(contains(run.err, "another process failed: rank " + victim), run.err);
    CHECK_MESSAGE(contains(run.err, "is gone, or hangs"), run.err);
    CHECK_MESSAGE(!contains(run.err, "c10d"), run.err);
  }
}

TEST_CASE(
    "a connection to the store that stays open and says nothing counts as a rank that is lost") {
  const Sharded t;
  auto [free, store] = bound();
  close(free);
  const SilentProxy proxy(std::stoi(store),
                          [&t] { return contains(t.folder.read("r/metrics.jsonl"), "step.loss"); });
  const std::string run =
      " timeout 90 $SLUICE run g.json --quiet --out r --set run.epochs=100000 "
      "--set +run.peer_timeout_s=2";
  const auto both = as_ranks(t, "MASTER_PORT=" + store + run, "MASTER_PORT=" + proxy.port() + run);
  CHECK_MESSAGE(both.code == 9, both.err);
  CHECK_MESSAGE(contains(both.out, "other 9"), both.out, both.err);
  CHECK_MESSAGE(contains(both.err, "rank 0 is gone, or hangs: it has not answered for 2 s"),
                both.err);
}

TEST_CASE("a second run at a port that is taken leaves the first one alone") {
  const Sharded t;
  const std::string run = "$SLUICE run g.json --quiet --out r --set run.epochs=100000";
  const auto both = as_ranks(t, run,
                             run +
                                 " & mine=$!\nwhile ! [ -e r/metrics.jsonl ]; do sleep 0.05; done\n"
                                 "$SLUICE run g.json --quiet --no-out; echo second $?\n"
                                 "kill -TERM $mine\nwait $mine");
  CHECK_MESSAGE(both.code == 143, both.err);
  CHECK_MESSAGE(contains(both.out, "second 9"), both.out);
  CHECK_MESSAGE(contains(both.err, "rank 1 is there already"), both.err);
  CHECK(t.json_of("r/summary.json").at("status") == "cut");
}

TEST_CASE("a signal to one process ends all with its code, and is said once") {
  const auto check = [](const json& graph, const std::string& begun) {
    const Sharded t(graph);
    const std::string run = "$SLUICE run g.json --quiet --out r --set run.epochs=100000";
    for (const bool first : {false, true}) {
      const std::string signalled = run + " & mine=$!\nuntil " + begun +
                                    "; do sleep 0.05; done\nkill -USR1 $mine\nwait $mine";
      const auto both = first ? as_ranks(t, signalled, run) : as_ranks(t, run, signalled);
      CHECK_MESSAGE(both.code == 138, both.err);
      CHECK_MESSAGE(contains(both.out, "other 138"), both.out, both.err);
      CHECK_MESSAGE(occurrences(both.err, "stopping") == 1, both.err);
      CHECK(t.json_of("r/summary.json").at("status") == "cut");
      fs::remove_all(t.folder.path / "r");
    }
  };
  check(sharded_graph(), "grep -qs step.loss r/metrics.jsonl");
  json predicts = sharded_graph();  // no steps to agree on
  for (const char* name : {"train", "flip", "noise", "batch", "fwd", "loss", "step", "mean"})
    predicts["nodes"].erase(name);
  predicts["nodes"]["val"].erase("after");
  check(predicts, "[ -e r/graph.dot ]");
}

TEST_CASE("a killed launcher leaves no process behind") {
  const Sharded t;
  const std::string run = "$SLUICE run g.json --quiet --out r --set run.epochs=100000",
                    begun = "until grep -qs step.loss r/metrics.jsonl; do sleep 0.05; done\n",
                    gone =
                        "alive() { for p in $all; do "
                        "state=$(sed 's/.*) //; s/ .*//' /proc/$p/stat 2>/dev/null)\n"
                        "[ -n \"$state\" ] && [ \"$state\" != Z ] && return 0; done; return 1; }\n"
                        "for i in $(seq 300); do alive || break; sleep 0.1; done\n"
                        "alive || echo gone\n";
  const auto own = shell::run(t.in_folder + run + " --processes 3 & launcher=$!\n" + begun +
                              "all=$(pgrep -P $launcher)\nkill -9 $launcher\n" + gone);
  CHECK_MESSAGE(contains(own.out, "gone"), own.out, own.err);
  fs::remove_all(t.folder.path / "r");
  // Another one's processes end as if it had asked for it, with a checkpoint.
  t.folder.write("launch",
                 "for r in 0 1; do\n"
                 "OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_LOCAL_RANK=$r " +
                     run + " & echo $! >> pids\ndone\nwait\n");
  const auto other =
      shell::run(t.in_folder +
                 "export SLUICE OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2\n"
                 "export MASTER_PORT=$((20000 + $$ % 10000))\nbash launch & launcher=$!\n" +
                 begun + "all=$(cat pids)\nkill -9 $launcher\n" + gone);
  CHECK_MESSAGE(contains(other.out, "gone"), other.out, other.err);
  CHECK(t.json_of("r/summary.json").at("status") == "cut");
  CHECK(fs::exists(t.folder.path / "r/checkpoints/last/state.json"));
}

TEST_CASE("a signal ends processes of which one awaits the others' part of a metric") {
  json g = sharded_graph();
  for (const char* name : {"train", "flip", "noise", "batch", "fwd", "loss", "step", "mean"})
    g["nodes"].erase(name);
  g["nodes"]["val"].erase("after");
  g["nodes"]["val"].update({{"num_samples", 400}, {"spatial_size", {32, 32, 32}}});
  const Sharded t(g);
  const auto run = shell::run(t.in_folder +
                              "timeout 90 $SLUICE run g.json --quiet --processes 2 --out r & "
                              "guard=$!\nwhile ! [ -e r/run.json ]; do sleep 0.01; done\n"
                              "all=$(pgrep -P $guard)\nsecond=$(pgrep -P $all | sed -n 2p)\n"
                              "kill -STOP $second\nsleep 5\nkill -TERM $all\nsleep 0.2\n"
                              "kill -CONT $second\nwait $guard\necho code $?");
  CHECK_MESSAGE(contains(run.out, "code 143"), run.out, run.err);
  CHECK(t.json_of("r/summary.json").at("status") == "cut");
  CHECK(t.json_of("r/summary.json").at("metrics").empty());
}

TEST_CASE("--continue begins a run, and goes on with the one that is there") {
  const Sharded t;
  REQUIRE(t.run("--out whole").code == 0);
  REQUIRE(t.run("--set run.epochs=1 --continue --out r").code == 0);
  CHECK(t.weights("r") != t.weights("whole"));
  REQUIRE(t.run("--continue --out r --processes 2").code == 0);
  CHECK(t.weights("r") == t.weights("whole"));
}

TEST_CASE("a signal ends all processes behind the same step, and a resume gives the same bits") {
  const Sharded t;
  REQUIRE(t.run("--set run.epochs=40 --out whole").code == 0);
  check_cut_and_resumed(t, "step.loss", "whole");
}

TEST_CASE("processes that only predict write each case once") {
  const TinyTraining t;
  REQUIRE(t.run("--out r --set run.epochs=1").code == 0);
  json g = json::parse(tiny_training);
  g["models"]["net"]["weights"] = "r";
  for (const char* name : {"train", "flip", "noise", "batch", "fwd", "loss", "step", "dice"})
    g["nodes"].erase(name);
  g["nodes"]["val"].erase("after");
  g["nodes"]["val"]["num_samples"] = 7;
  g["nodes"]["save"] = {{"type", "save_image"}, {"in", "infer"}, {"keys", {"pred"}}};
  t.folder.write("p.json", g.dump());
  const auto predict = [&](const std::string& out, const std::string& more) {
    const auto run = shell::run(t.in_folder + "$SLUICE run p.json --quiet --out " + out + more);
    CHECK_MESSAGE(run.code == 0, run.err);
    return shell::run(t.in_folder + "cd " + out +
                      " && find . -name '*.nii*' | sort | xargs sha256sum")
        .out;
  };
  const std::string one = predict("one", ""), three = predict("three", " --processes 3");
  CHECK(std::count(one.begin(), one.end(), '\n') == 7);
  CHECK(three == one);
  CHECK(t.json_of("three/summary.json")["samples"] == t.json_of("one/summary.json")["samples"]);
}

TEST_CASE("two samples of one file are told, also where each is another process's") {
  const TinyTraining t;
  for (const char* name : {"1", "2"}) {
    const fs::path folder = t.folder.path / "data" / name;
    fs::create_directories(folder);
    nii::write_pair(folder / "case.nii", folder / "label.nii", {16, 16, 16}, {1, 1, 1});
  }
  t.folder.write("g.json", R"({ "nodes": {
    "files": { "type": "file_patterns", "root": "data", "patterns": { "image": "*/case.nii" } },
    "load": { "type": "load_image", "in": "files", "keys": ["image"] },
    "save": { "type": "save_image", "in": "load", "keys": ["image"], "name_by": "file",
              "separate_folder": false } } })");
  for (const std::string processes : {"1", "2"}) {
    const auto run = t.run("--out r" + processes + " --processes " + processes);
    CHECK(run.code == 3);
    CHECK_MESSAGE(contains(run.err, "case_trans.nii.gz is the file of two samples"), run.err);
  }
}
