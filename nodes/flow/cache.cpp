// cache: keeps samples from their first epoch on, so that what stands in front fires once an item.
//
// The engine asks the store at the source and fills it here; process() only passes samples on.
#include <ATen/ops/clone.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "engine/registry.h"
#include "engine/sample.h"

namespace sluice {
namespace {

// The sample with tensors that own just their bytes: a crop is a view, and keeping it as it is
// would keep the whole volume. The sample itself where all its tensors do.
SamplePtr compact(const SamplePtr& sample) {
  const auto is_view = [](const at::Tensor& t) {
    return t.defined() && t.has_storage() && t.storage().nbytes() > t.nbytes();
  };
  bool any = false;
  for (const auto& [key, field] : sample->fields()) any = any || is_view(field.tensor);
  if (!any) return sample;
  Sample copy = *sample;
  for (auto& [key, field] : copy.fields())
    if (is_view(field.tensor)) field.tensor = field.tensor.contiguous().clone();
  return std::make_shared<const Sample>(std::move(copy));
}

// Shared samples by item; a hit copies a pointer. Where the budget is spent an item is refused and
// will be computed again; those that are kept stay, so an epoch's cost does not change later.
class MemoryStore final : public CacheStore {
 public:
  std::optional<std::uint64_t> budget;

  std::optional<Entry> find(std::uint64_t item) override {
    std::shared_lock lock(mutex_);
    const auto it = entries_.find(item);
    if (it == entries_.end()) return std::nullopt;
    return it->second;
  }

  void put(std::uint64_t item, Entry entry) override {
    if (entry.sample) entry.sample = compact(entry.sample);
    const std::uint64_t bytes = entry.sample ? sample_bytes(*entry.sample) : 0;
    std::unique_lock lock(mutex_);
    if (entries_.contains(item)) return;
    if (budget && bytes > *budget - bytes_) {
      ++refused_;
      return;
    }
    bytes_ += bytes;
    entries_.emplace(item, std::move(entry));
  }

  std::uint64_t refused() const { return refused_; }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

struct Cache final : Node {
  struct Params {
    std::string store = "memory";
    std::optional<std::int64_t> budget;
  } p;

  static Spec spec() {
    return Spec("cache", "Keeps each item's sample; later epochs take it from here.")
        .in("sample")
        .out("sample")
        .param("store", &Params::store, "Where samples are kept.")
        .choices({"memory"})
        .param("budget", &Params::budget,
               "Bytes of tensors to keep at most; items beyond it are computed in every epoch and "
               "counted in the log as \"refused\". null: no bound.")
        .at_least(0)
        .cache()
        .passes()
        .any_device();
  }

  void open(const OpenContext&) override {
    if (p.budget) store_.budget = static_cast<std::uint64_t>(*p.budget);
  }

  void process(Firing& f) override {
    const std::uint64_t refused = store_.refused();
    if (logged_.exchange(refused) != refused) f.log("refused", static_cast<double>(refused));
    f.emit_ptr(f.ptr());
  }

  CacheStore* store() override { return &store_; }

 private:
  MemoryStore store_;
  std::atomic<std::uint64_t> logged_ = 0;
};

const Register<Cache> registered;

}  // namespace
}  // namespace sluice
