// A session in this process: what it goes on from.
#include <doctest/doctest.h>

#include <fstream>

#include "engine/base/error.h"
#include "engine/base/message_listener.h"
#include "engine/session/save_interval.h"
#include "engine/session/session.h"
#include "engine/state/checkpoint.h"
#include "tests/temporary_folder.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

// Of every kind of state that a checkpoint holds one: an optimizer's moments, a stop rule, a
// metric's sums.
constexpr const char* graph = R"({
  "run": { "epochs": 1, "seed": 3, "checkpoint": { "best": "dice.mean" },
           "stop": { "metric": "dice.mean", "patience": 5 } },
  "models": { "net": { "type": "unet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2,
                       "channels": [2, 4], "strides": [2] } },
  "nodes": {
    "train": { "type": "synthetic", "num_samples": 4, "spatial_size": [16, 16], "rad_max": 6,
               "rad_min": 3, "num_seg_classes": 1 },
    "batch": { "type": "batch", "in": "train", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":   { "type": "synthetic", "num_samples": 2, "spatial_size": [16, 16], "rad_max": 6,
               "rad_min": 3, "num_seg_classes": 1, "after": "step" },
    "infer": { "type": "sliding_window", "in": "val", "net": "net", "roi_size": [16, 16] },
    "dice":  { "type": "dice_metric", "in": "infer", "spatial_dims": 2,
               "include_background": false } } })";

struct Silence {
  Silence() {
    tell_to([](const std::string&) {});
  }
  ~Silence() { tell_to({}); }
};

Options options(int epochs) {
  Options o;
  o.graphs = {"g.json"};
  o.text = graph;
  o.set = {"run.epochs=" + std::to_string(epochs)};
  o.quiet = true;
  o.threads = o.io_threads = o.step_threads = 1;
  return o;
}

struct Run {
  const Silence silence;
  const TemporaryFolder folder;
  const fs::path out = folder.path / "run", last = out / "checkpoints" / "last",
                 state = last / "state.json";

  Run() {
    Options o = options(1);
    o.out = out.string();
    const auto session = Session::open(o);
    REQUIRE(session);
    REQUIRE((session->run().status == Outcome::Status::done));
  }
  std::unique_ptr<Session> resumed(int epochs = 2) const {
    Options o = options(epochs);
    o.resume = out.string();
    return Session::open(o);
  }
  Json read() const {
    std::ifstream in(state);
    return Json::parse(in);
  }
  // Whole by its own checksum.
  void write(Json j) const {
    j.erase("sha256");
    j["sha256"] = sha256_of(j.dump());
    std::ofstream(state) << j.dump();
  }
  // It opens, or says which file or folder is wrong.
  void check_opens_or_says() const {
    try {
      const auto session = resumed();
      CHECK(session != nullptr);
    } catch (const Error& e) {
      CHECK_MESSAGE(contains(e.what(), out.string()), e.what());
    } catch (const std::exception& e) {
      FAIL_CHECK("nobody said where: " << std::string(e.what()));
    }
  }
};

}  // namespace

TEST_CASE("a run is saved every ten minutes, as often as its graph says, or not before its end") {
  RunSettings run;
  CHECK(save_interval_s(run) == 600);
  run.checkpoint_every_s = 2.5;
  CHECK(save_interval_s(run) == 2.5);
  run.checkpoint_every_s = 0;
  CHECK(save_interval_s(run) > 1e300);
}

TEST_CASE("a resume with a part of its state gone or of another kind names the file, or goes on") {
  const Run run;
  const Json whole = run.read();
  const auto tried = [&](const Json::json_pointer& at, const Json& value) {
    CAPTURE(at.to_string());
    CAPTURE(value.dump());
    Json j = whole;
    if (value.is_discarded())
      j[at.parent_pointer()].erase(at.back());
    else
      j[at] = value;
    run.write(j);
    run.check_opens_or_says();
  };
  const Json values[] = {Json(Json::value_t::discarded),
                         Json(),
                         Json(-1),
                         Json("x"),
                         Json::array({1}),
                         Json{{"a", 1}}};
  for (const auto& [key, unused] : whole.at("state").items())
    for (const Json& value : values) tried(Json::json_pointer("/state") / key, value);
  for (const auto& [path, node] : whole.at("state").at("nodes").items()) {
    for (const Json& value : values) tried(Json::json_pointer("/state/nodes") / path, value);
    for (const auto& [key, unused] : node.items())
      for (const Json& value : values)
        tried(Json::json_pointer("/state/nodes") / path / key, value);
  }
  run.write(whole);
  CHECK(run.resumed());
}

TEST_CASE("a resume with tensors gone or of another shape names them") {
  const Run run;
  const Json whole = run.read();
  const fs::path file = run.last / "optimizer.safetensors";
  const auto all = read_safetensors(file);
  REQUIRE(all.size() > 4);
  const auto tried = [&](const std::map<std::string, at::Tensor>& tensors) {
    write_safetensors(file, tensors);
    const Bytes bytes = bytes_of(file);
    Json j = whole;
    j["files"]["optimizer.safetensors"] = sha256_of(std::string(bytes.begin(), bytes.end()));
    run.write(j);
    run.check_opens_or_says();
  };
  for (const auto& [name, tensor] : all) {
    CAPTURE(name);
    auto changed = all;
    changed.erase(name);
    tried(changed);
    for (const at::Tensor& other : {at::zeros({1, 2, 3}), at::zeros({0}), tensor.to(at::kLong)}) {
      changed[name] = other;
      tried(changed);
    }
  }
}

TEST_CASE("a run that is at its end has nothing left, and one with more epochs has") {
  const Run run;
  CHECK(run.resumed(1)->nothing_left());
  CHECK_FALSE(run.resumed(2)->nothing_left());
  fs::remove(run.out / "summary.json");
  CHECK_FALSE(run.resumed(1)->nothing_left());
}
