// weighted_random_sampler: which of the list's items an epoch has, by weights; torch's
// WeightedRandomSampler, and class balancing.
//
// Without replacement: Efraimidis, Spirakis 2006 (the smallest of -log(u) / w).
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

struct WeightedRandomSampler final : Node {
  struct Params {
    std::string weight_key, class_key;
    std::vector<double> weights;
    std::optional<std::int64_t> num_samples;
    bool replacement = true;
  } p;

  static Spec spec() {
    return Spec("weighted_random_sampler",
                "Draws an epoch's items from its source's list, by weight or class by class.")
        .in("sample", "What the source emits.")
        .out("sample", "The same.")
        .param("weights", &Params::weights, "A weight for each item of the list.")
        .at_least(0)
        .param("weight_key", &Params::weight_key, "Or the source's field that holds it, a number.")
        .param("class_key", &Params::class_key,
               "Or the source's field with an item's class: weights are 1 / its class's frequency.")
        .param("num_samples", &Params::num_samples, "Items of an epoch; null: as many as listed.")
        .at_least(1)
        .param("replacement", &Params::replacement, "An item may come several times an epoch.")
        .exclusive("weight_key", "class_key")
        .exclusive("weights", "weight_key")
        .exclusive("weights", "class_key")
        .chooses()
        .passes()
        .any_device();
  }

  void open(const OpenContext& context) override {
    key_ = random_key(context.seed, context.node);
    record_ = context.upstream.record;
  }

  void process(Firing& f) override { f.emit_ptr(f.ptr()); }

  std::optional<std::vector<std::uint64_t>> epoch_items(std::uint32_t epoch,
                                                        std::uint64_t listed) override {
    if (weights_.empty()) weights_ = weights_of(listed);
    const auto wanted = p.num_samples ? static_cast<std::uint64_t>(*p.num_samples) : listed;
    Random draws(key_, Stamp::first(0, epoch, 0));
    return p.replacement ? with_replacement(wanted, draws) : without(wanted, draws);
  }

 private:
  std::vector<double> weights_of(std::uint64_t listed) const {
    std::vector<double> w(listed, 1.0);
    if (!p.weights.empty()) {
      if (p.weights.size() != listed)
        throw Error(Exit::usage, "weights: " + std::to_string(p.weights.size()) +
                                     " for a list of " + std::to_string(listed) + " items");
      w = p.weights;
    }
    const std::string& key = p.weight_key.empty() ? p.class_key : p.weight_key;
    if (!key.empty())
      for (std::uint64_t i = 0; i < listed; ++i) w[i] = number(key, i);
    if (!p.class_key.empty()) {
      std::map<double, double> count;
      for (const double c : w) ++count[c];
      for (double& c : w) c = 1 / count[c];
    }
    if (std::accumulate(w.begin(), w.end(), 0.0) <= 0)
      throw Error(Exit::usage, "all weights are 0: nothing can be drawn");
    return w;
  }

  double number(const std::string& key, std::uint64_t item) const {
    const SamplePtr record = record_(item);
    const Field* field = record->find(key);
    if (!field || !field->tensor.defined() || field->tensor.numel() != 1)
      throw DataError(record->name + ": the source gives no number \"" + key + "\"");
    const double value = field->tensor.item<double>();
    if (p.weight_key.empty() || value >= 0) return value;
    throw DataError(record->name + ": the weight \"" + key + "\" is " + std::to_string(value));
  }

  std::vector<std::uint64_t> with_replacement(std::uint64_t wanted, Random& draws) const {
    std::vector<double> below(weights_.size());
    std::partial_sum(weights_.begin(), weights_.end(), below.begin());
    std::vector<std::uint64_t> items(wanted);
    const double most = std::nextafter(below.back(), 0);  // a product may be rounded up
    for (auto& item : items) {
      const double u = std::min(draws.uniform() * below.back(), most);
      const auto at = std::upper_bound(below.begin(), below.end(), u);
      item = static_cast<std::uint64_t>(at - below.begin());
    }
    return items;
  }

  std::vector<std::uint64_t> without(std::uint64_t wanted, Random& draws) const {
    std::vector<std::pair<double, std::uint64_t>> race;
    for (std::uint64_t i = 0; i < weights_.size(); ++i) {
      const double u = 1 - draws.uniform();
      if (weights_[i] > 0) race.emplace_back(-std::log(u) / weights_[i], i);
    }
    if (race.size() < wanted)
      throw Error(Exit::usage, "without replacement, " + std::to_string(wanted) +
                                   " items cannot be drawn from " + std::to_string(race.size()) +
                                   " of a weight above 0");
    std::sort(race.begin(), race.end());
    std::vector<std::uint64_t> items(wanted);
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = race[i].second;
    return items;
  }

  std::uint64_t key_ = 0;
  std::function<SamplePtr(std::uint64_t)> record_;
  std::vector<double> weights_;
};

const Register<WeightedRandomSampler> registered;

}  // namespace
}  // namespace sluice
