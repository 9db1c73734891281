// ema: a second network whose weights are the running mean of another's.
//
// The formula is timm's ModelEmaV3: a = d a + (1 - d) w, for parameters and float buffers alike, so
// that batch norm's statistics fit the weights; other buffers are copied. Sources: Polyak, Juditsky
// 1992; Tarvainen, Valpola 2017. The warm-up, min(d, (1 + n) / (10 + n)) after n steps, is
// TensorFlow's ExponentialMovingAverage.
#include <algorithm>

#include "engine/state/checkpoint.h"
#include "nodes/model/second_network.h"

namespace sluice {
namespace {

class Ema final : public Node {
 public:
  struct Params : SecondNetworkParams {
    double decay = 0.999;
    bool warmup = false;
  } p;

  static Spec spec() {
    return second_network_spec<Params>(
               "ema",
               "Keeps the running mean of a network's weights in a second network, which begins "
               "with the trained one's, or with its own where models.NET.weights gives them.")
        .param("decay", &Params::decay, "Share of the mean so far.")
        .range(0, 1)
        .param(
            "warmup", &Params::warmup,
            "min(decay, (1 + n) / (10 + n)) after n steps: the first weights are forgotten soon.")
        .reports({"decay"});
  }

  void open(const OpenContext& context) override {
    division_ = context.division;
    networks_.open(context, p);
    if (!context.resources->is_loaded(p.net)) networks_.follow(1);
  }

  void process(Firing& f) override {
    behind_ |= division_.ends_step(f.stamp().index);
    catch_up();
    if (!f.is_hole()) f.emit_ptr(f.ptr());
  }
  void flush(Flush& end) override {
    catch_up();
    end.metric("decay", decay());
  }

  void save(State& state) const override {
    state.values["steps"] = steps_;
    if (behind_) state.values["behind"] = true;
  }
  void load(const State& state) override {
    steps_ = state.values.at("steps");
    behind_ = state.values.value("behind", false);
  }

 private:
  void catch_up() {
    if (!behind_ || networks_.step_is_due()) return;
    networks_.follow(1 - decay());
    ++steps_;
    behind_ = false;
  }
  double decay() const {
    const auto n = static_cast<double>(steps_);
    return p.warmup ? std::min(p.decay, (1 + n) / (10 + n)) : p.decay;
  }

  SecondNetwork networks_;
  Division division_;
  std::int64_t steps_ = 0;
  bool behind_ = false;  // batches came since the last step
};

const Register<Ema> registered;

}  // namespace
}  // namespace sluice
