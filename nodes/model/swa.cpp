// swa: a second network whose weights are the mean of another's at the end of epochs.
//
// Stochastic weight averaging (Izmailov et al. 2018), as torch.optim.swa_utils.AveragedModel with
// use_buffers: batch norm's statistics are averaged like the weights, instead of being taken anew
// from the data afterwards; other buffers are copied.
#include <ATen/core/grad_mode.h>

#include "engine/state/checkpoint.h"
#include "nodes/model/second_network.h"

namespace sluice {
namespace {

class Swa final : public Node {
 public:
  struct Params : SecondNetworkParams {
    std::int64_t from_epoch = 0, swa_freq = 1;
  } p;

  static Spec spec() {
    return second_network_spec<Params>(
               "swa", "Keeps the mean of a network's weights at epochs' ends in a second network.")
        .param("from_epoch", &Params::from_epoch,
               "The first epoch, from 0, whose weights count; before it the second network has "
               "the trained one's.")
        .required()
        .at_least(0)
        .begins_at("its network ends as the trained one's last weights")
        .param("swa_freq", &Params::swa_freq, "Only every so many epochs count.")
        .at_least(1)
        .reports({"averaged"});
  }

  void open(const OpenContext& context) override {
    networks_.open(context, p);
    networks_.follow(1);
  }

  void process(Firing& f) override {
    if (!f.is_hole()) f.emit_ptr(f.ptr());
  }

  void flush(Flush& end) override {
    const std::int64_t behind = static_cast<std::int64_t>(end.epoch) - p.from_epoch;
    if (behind < 0) {
      networks_.follow(1);
    } else if (behind % p.swa_freq == 0) {
      networks_.follow(1.0 / static_cast<double>(averaged_ + 1));
      ++averaged_;
    }
    end.metric("averaged", static_cast<double>(averaged_));
  }

  void save(State& state) const override { state.values["averaged"] = averaged_; }
  void load(const State& state) override { averaged_ = state.values.at("averaged"); }

 private:
  SecondNetwork networks_;
  std::int64_t averaged_ = 0;
};

const Register<Swa> registered;

}  // namespace
}  // namespace sluice
