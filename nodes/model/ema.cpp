// ema: a second network whose weights are the running mean of another's.
//
// The formula is timm's ModelEmaV3: a = d a + (1 - d) w, for parameters and float buffers alike, so
// that batch norm's statistics fit the weights; other buffers are copied. Sources: Polyak, Juditsky
// 1992; Tarvainen, Valpola 2017. The warm-up, min(d, (1 + n) / (10 + n)) after n steps, is
// TensorFlow's ExponentialMovingAverage.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/lerp.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

class Ema final : public Node {
 public:
  struct Params {
    std::string net, of;
    double decay = 0.999;
    bool warmup = false;
  } p;

  static Spec spec() {
    return Spec("ema", "Keeps the running mean of a network's weights in a second network.")
        .in("sample", "What the optimizer of \"of\" sends on, after its step.")
        .out("sample", "The same.")
        .param("net", &Params::net, "The network that holds the mean; of the same type as \"of\".")
        .required()
        .param("of", &Params::of, "The network that is trained.")
        .required()
        .param("decay", &Params::decay, "Share of the mean so far.")
        .range(0, 1)
        .param(
            "warmup", &Params::warmup,
            "min(decay, (1 + n) / (10 + n)) after n steps: the first weights are forgotten soon.")
        .updates("net")
        .follows("of")
        .passes()
        .any_device()
        .lane(LaneKind::step)
        .ordered()
        .reports({"decay"});
  }

  void open(const OpenContext& context) override {
    division_ = context.division;
    mean_ = context.resources->network(p.net);
    trained_ = context.resources->network(p.of);
    const auto mean = all(*mean_), trained = all(*trained_);
    bool fits = mean.size() == trained.size();
    for (std::size_t i = 0; fits && i < mean.size(); ++i)
      fits =
          mean[i].first == trained[i].first && mean[i].second.sizes() == trained[i].second.sizes();
    if (!fits)
      throw Error(Exit::usage, "\"" + p.net + "\" and \"" + p.of +
                                   "\" are networks of other shapes: declare both alike");
    follow(0);
  }

  void process(Firing& f) override {
    if (division_.ends_step(f.stamp().index)) {
      follow(decay());
      ++steps_;
    }
    if (!f.is_hole()) f.emit_ptr(f.ptr());
  }
  void flush(Flush& end) override { end.metric("decay", decay()); }

  void save(State& state) const override { state.values["steps"] = steps_; }
  void load(const State& state) override { steps_ = state.values.at("steps"); }

 private:
  double decay() const {
    const auto n = static_cast<double>(steps_);
    return p.warmup ? std::min(p.decay, (1 + n) / (10 + n)) : p.decay;
  }

  static Network::Named all(const Network& network) {
    Network::Named list = network.parameters();
    for (auto& buffer : network.buffers()) list.push_back(std::move(buffer));
    return list;
  }

  void follow(double decay) {
    const at::NoGradGuard no_grad;
    const auto mean = all(*mean_), trained = all(*trained_);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const at::Tensor &a = mean[i].second, w = trained[i].second.detach();
      if (a.device() != w.device()) a.set_data(a.detach().to(w.device()));
      if (w.is_floating_point() && decay > 0)
        a.detach().lerp_(w, 1 - decay);
      else
        a.detach().copy_(w);
    }
  }

  std::shared_ptr<Network> mean_, trained_;
  Division division_;
  std::int64_t steps_ = 0;
};

const Register<Ema> registered;

}  // namespace
}  // namespace sluice
