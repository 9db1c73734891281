// running_mean: the mean of a number over every so many batches, as training loops print the loss.
#include <limits>

#include "engine/base/error.h"
#include "engine/group/ranks.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

struct RunningMean final : Node {
  struct Params {
    std::string key = "loss";
    std::int64_t every = 2000;
  } p;

  static Spec spec() {
    return Spec("running_mean",
                "Logs the mean of a number over every so many batches as \"mean\"; an epoch's "
                "rest becomes its metric. Metrics: mean.")
        .in("sample")
        .param("key", &Params::key, "Field with one number.")
        .param("every", &Params::every,
               "Batches a mean, with run.shards the shards of batches that the first process "
               "computes; a "
               "new epoch begins anew.")
        .at_least(1)
        .ordered()
        .reports({"mean"})
        .takes("@key", Form::scalar)
        .lane(LaneKind::step)
        .any_device();
  }

  // Of a batch in shards each comes by itself, and of several processes the first has its own
  // alone.
  void open(const OpenContext& context) override {
    if (!context.division.sharded()) return;
    const int processes = context.ranks ? context.ranks->world.size : 1;
    shards_ = first_shard(1, processes, context.division.parts);
  }

  void process(Firing& f) override {
    f.when_done([this, &f] { add(f); });
  }

  // Where an epoch has a multiple of `every` batches, the last mean that was logged.
  void flush(Flush& end) override {
    end.metric("mean", count_ > 0 ? sum_ / static_cast<double>(count_) : last_);
    sum_ = 0;
    count_ = 0;
  }

  void save(State& state) const override {
    state.values = {{"sum", sum_}, {"count", count_}, {"last", last_}};
  }
  void load(const State& state) override {
    sum_ = state.values.at("sum");
    count_ = state.values.at("count");
    last_ = state.values.at("last");
  }

 private:
  void add(Firing& f) {
    sum_ += f.in().tensor(p.key).item<double>();
    if (++count_ < p.every * shards_) return;
    last_ = sum_ / static_cast<double>(count_);
    sum_ = 0;
    count_ = 0;
    f.log("mean", last_);
  }

  double sum_ = 0, last_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t count_ = 0, shards_ = 1;
};

const Register<RunningMean> registered;

}  // namespace
}  // namespace sluice
