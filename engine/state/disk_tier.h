// Cached samples in a folder that outlives the run and that others may use at the same time.
//
// Invariant: an entry's key is the digest of all that its sample was computed from: the record
// (what its files hold, not where they are), types and parameters of the nodes in between, weights
// of networks that they read, and the build itself. So whatever is changed, there is nothing to
// invalidate: it is another key. An entry is written only where the key is the same before and
// after the sample was computed.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/cache/cache_folder.h"
#include "engine/cache/file_digests.h"
#include "engine/state/cache_tiers.h"

namespace sluice {

class DiskTier final : public Tier {
 public:
  struct Settings {
    std::filesystem::path folder;
    std::optional<std::uint64_t> budget;
    bool verify = false;
  };
  DiskTier(const Settings& settings, const OpenContext& context);

  std::optional<CacheStore::Entry> find(std::uint64_t item) override;
  bool put(std::uint64_t item, const CacheStore::Entry& entry) override;
  bool bounded() const override { return bounded_; }
  bool reads() const override { return true; }
  CacheStore::Held held() const override;

 private:
  std::optional<CacheKey> key_of(const Sample& record);
  bool add_field(CacheDigest& digest, const std::string& name, const Field& field);
  const CacheKey& computation();

  CacheFolder folder_;
  FileDigests digests_;
  const bool bounded_;
  const Upstream upstream_;
  const std::shared_ptr<Resources> resources_;
  const int step_threads_;
  std::vector<std::string> parameter_files_;
  std::string chain_;  // for `sluice cache list`: "load_image, orientation"
  std::once_flag once_;
  CacheKey computation_;

  std::mutex mutex_;  // what follows
  // An item that was looked for and is being computed, in several epochs where the list is short.
  struct Pending {
    std::optional<CacheKey> key;  // none: it cannot be known, or it changed meanwhile
    int times = 0;
  };
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::map<CacheKey, std::string> quarantined_;  // for this run: a failure may pass
};

}  // namespace sluice
