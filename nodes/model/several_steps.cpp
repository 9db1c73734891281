// several_steps: several steps of one network on the same batch: k steps of a discriminator for one
// of its generator (Goodfellow et al. 2014, algorithm 1; MONAI's GanTrainer, d_train_steps).
//
//   batch ──▶ [ model ── loss ── ... ── adam ] `times` times ──▶ the batch as it came
//
// Why inside one node: a batch is one packet in and one out, so stamps, credits, turns and
// checkpoints know nothing of the loop, and a run is cut before it or after it.
//
// Invariants:
//  - each step sees the weights that the one before has left, and the batch as it came: what the
//    step's nodes add is gone after it, and what other networks made is numbers to this one;
//  - a step's draws depend on its number, its node's path and the stamp;
//  - the state is that of the updater inside.
#include <memory>

#include "engine/base/error.h"
#include "engine/run/inner_node.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

class SeveralSteps final : public Node {
 public:
  struct Params {
    std::string net;
    std::int64_t times = 1;
    Json step = Json::array();
  } p;

  static Spec spec() {
    return Spec("several_steps",
                "Takes several steps of one network on each batch, as a discriminator does for one "
                "of its generator (d_train_steps of MONAI's GanTrainer).")
        .in("sample")
        .out("sample", "The same, when the steps are taken.")
        .param("net", &Params::net, "The network's name in \"models\".")
        .required()
        .param("times", &Params::times, "Steps a batch.")
        .required()
        .range(1, 1000)
        .param("step", &Params::step,
               "The nodes of one step, {\"type\": ..., parameters}, one after the other: model, "
               "losses, and the optimizer last. Networks that they name are \"net\" alone; what "
               "other networks made of the batch is constant to them.")
        .required()
        .updates("net")
        .passes()
        .any_device()
        .lane(LaneKind::step)
        .ordered()
        .reports({"loss", "lr", "grad_norm", "loss_scale", "skipped_steps"});
  }

  void open(const OpenContext& context) override {
    const Catalogue& catalogue = Registry::global().catalogue();
    if (const auto fault = wrong_step(p.step, p.net, catalogue))
      throw Error(Exit::usage, "\"step\": " + fault->text);
    if (context.division.sharded())
      throw Error(Exit::usage, "several steps of a batch need all of it: no shards");
    OpenContext inside = context;
    inside.fuse = false;  // each node's work is done when it ends
    for (std::size_t k = 0; k < p.step.size(); ++k) {
      nodes_.push_back(InnerNode::make(p.step[k], context.node + "/" + std::to_string(k), inside,
                                       &may_stand_in_step));
      const std::string type = p.step[k]["type"];
      if (host_only_.empty() && catalogue.find(type)->host_only) host_only_ = type;
    }
    if (p.step.back().value("lr_schedule", Json()) == "reduce_on_plateau")
      throw Error(Exit::usage, "reduce_on_plateau is for an optimizer that is a node of the graph");
  }

  void process(Firing& f) override {
    if (f.stream() && !host_only_.empty())
      throw Error(Exit::usage, "\"" + host_only_ +
                                   "\" of the step works on host memory, but the batch is on the "
                                   "device: put it in front of to_device");
    const SamplePtr batch = numbers(f.in());
    for (std::int64_t n = 0; n < p.times; ++n)
      if (!step(f, batch, static_cast<std::uint64_t>(n))) return;
    f.emit_ptr(f.ptr());
  }

  void flush(Flush& end) override { updater().flush(end); }
  void save(State& state) const override {
    updater().save(state);
    state.values["updater"] = p.step.back()["type"];
  }
  void load(const State& state) override {
    if (const Json type = state.values.value("updater", Json()); type != p.step.back()["type"])
      throw DataError("the checkpoint does not fit: it is of the optimizer " + type.dump());
    updater().load(state);
  }

 private:
  // A firing of a node inside. It lives until the device is done, since what the node says then
  // refers to it.
  struct Inner {
    std::function<bool()> stopped;
    Firing firing;
    Inner(const Firing& outer, std::uint64_t key, SamplePtr sample)
        : stopped([&outer] { return outer.stopped(); }),
          firing(outer.stamp(), key, {{std::move(sample)}}, stopped) {
      firing.on(outer.stream());
    }
  };

  Node& updater() const { return *nodes_.back().node; }

  // What came without the way that it was made: gradients end here.
  static SamplePtr numbers(const Sample& in) {
    auto out = std::make_shared<Sample>(in);
    for (auto& [key, field] : out->fields())
      if (field.tensor.defined() && field.tensor.requires_grad())
        field.tensor = field.tensor.detach();
    return out;
  }

  // False: the run is being stopped, and a node has given up.
  bool step(Firing& f, SamplePtr sample, std::uint64_t number) const {
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const InnerNode& node = nodes_[k];
      const std::string name = "\"" + p.step[k]["type"].get<std::string>() + "\" of the step";
      auto inner = std::make_shared<Inner>(f, number == 0 ? node.key : mix(node.key ^ number),
                                           std::move(sample));
      try {
        node.node->process(inner->firing);
      } catch (Error& error) {  // of the type that it has
        static_cast<std::runtime_error&>(error) = std::runtime_error(name + ": " + error.what());
        throw;
      }
      if (inner->firing.outs().empty()) {
        if (f.stopped()) return false;
        throw DataError(name + " keeps the batch back: " + inner->firing.skip_reason());
      }
      sample = inner->firing.outs().front().sample;
      f.when_done([&f, inner] {
        for (const auto& look : inner->firing.later()) look();
        for (const auto& [name, value] : inner->firing.logs()) f.log(name, value);
        inner->firing.clear();
      });
    }
    return true;
  }

  std::vector<InnerNode> nodes_;
  std::string host_only_;  // the first such type of the step; "": none
};

const Register<SeveralSteps> registered;

}  // namespace
}  // namespace sluice
