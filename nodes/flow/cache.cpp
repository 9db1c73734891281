// cache: keeps samples from their first epoch on, so that what stands in front fires once an item;
// MONAI's CacheDataset, PersistentDataset and LMDBDataset.
//
// The engine asks the store at the source and fills it here; process() only passes samples on.
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/cache_tiers.h"
#include "engine/state/disk_tier.h"
#include "nodes/flow/narrow_sample.h"

namespace sluice {
namespace {

struct Cache final : Node {
  struct Params {
    std::string store = "memory";
    std::string dir;
    std::optional<std::int64_t> budget, disk_budget, num;
    double rate = 1;
    bool verify = false;
  } p;

  static Spec spec() {
    return Spec("cache", "Keeps each item's sample; later epochs take it from here.")
        .in("sample")
        .out("sample")
        .param(
            "store", &Params::store,
            "Where samples are kept. disk: in files that later runs find again, by what the "
            "source's files hold and what was done to them, so that no edit of either can bring "
            "back an old sample. auto: in memory as far as the budget goes, then on disk. device: "
            "in the memory of the device that to_device in front moved them to; with a cache in "
            "front of to_device too, what finds no room there comes from the host.")
        .choices({"memory", "disk", "auto", "device"})
        .param("dir", &Params::dir,
               "Folder of disk and auto; any number of runs may share it. \"\": ~/.cache/sluice.")
        .param("budget", &Params::budget,
               "Bytes to keep at most, of tensors in memory, of files with store disk; items "
               "beyond it are computed in every epoch and counted in the log as \"refused\". Files "
               "that earlier runs left make room, the longest unused first. null: no bound; on a "
               "device its part of run.device_budget.")
        .at_least(0)
        .param(
            "disk_budget", &Params::disk_budget,
            "auto: the same for its files. null: no bound, and what is in memory is on disk too.")
        .at_least(0)
        .param("num", &Params::num, "Keeps the list's first so many items only. null: all.")
        .at_least(0)
        .param("rate", &Params::rate, "Keeps this share of the list only, from its beginning.")
        .range(0, 1)
        .param("verify", &Params::verify,
               "disk, auto: reads each source file once a run to see what it holds. false: trusts "
               "size, times and inode for a file that was read before.")
        .cache()
        .passes()
        .any_device();
  }

  void open(const OpenContext& context) override {
    narrow_ = context.narrow && (p.store == "memory" || p.store == "device");
    if (p.store != "disk") {
      auto budget = bytes(p.budget);
      if (p.store == "device" && !budget) budget = context.cache_budget;
      store_.tiers.push_back(std::make_unique<MemoryTier>(budget, memory_form(context)));
    }
    if (p.store == "disk" || p.store == "auto") {
      const auto folder = p.dir.empty() ? default_cache_folder() : std::filesystem::path(p.dir);
      const auto budget = bytes(p.store == "disk" ? p.budget : p.disk_budget);
      store_.tiers.push_back(
          std::make_unique<DiskTier>(DiskTier::Settings{folder, budget, p.verify}, context));
    }
    if (p.num || p.rate < 1)
      store_.keeps = [this, items = context.upstream.items](std::uint64_t item) {
        std::call_once(counted_, [&] { kept_ = first_items(items ? items() : std::nullopt); });
        return item < kept_;
      };
  }

  void process(Firing& f) override {
    const CacheStore::Held held = store_.held();
    log(f, "refused", held.refused, refused_);
    log(f, "damaged", held.damaged, damaged_);
    f.emit_ptr(narrow_ ? narrow_sample(f.ptr()) : f.ptr());
  }

  CacheStore* store() override { return &store_; }

 private:
  static std::optional<std::uint64_t> bytes(const std::optional<std::int64_t>& budget) {
    if (!budget) return std::nullopt;
    return static_cast<std::uint64_t>(*budget);
  }

  static void log(Firing& f, const char* name, std::uint64_t now,
                  std::atomic<std::uint64_t>& logged) {
    if (logged.exchange(now) != now) f.log(name, static_cast<double>(now));
  }

  // MONAI's min(cache_num, int(len * cache_rate), len).
  std::uint64_t first_items(std::optional<std::uint64_t> listed) const {
    std::uint64_t n =
        p.num ? static_cast<std::uint64_t>(*p.num) : std::numeric_limits<std::uint64_t>::max();
    if (p.rate == 1) return n;
    if (!listed)
      throw Error(Exit::usage, "\"rate\" needs a source that knows how many items it has");
    return std::min(n, static_cast<std::uint64_t>(static_cast<double>(*listed) * p.rate));
  }

  Tiers store_;
  bool narrow_ = false;
  std::once_flag counted_;
  std::uint64_t kept_ = 0;
  std::atomic<std::uint64_t> refused_ = 0, damaged_ = 0;
};

const Register<Cache> registered;

}  // namespace
}  // namespace sluice
