#include "engine/state/disk_tier.h"

#include <ATen/Version.h>
#include <dlfcn.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/base/image_files.h"
#include "engine/run/packet.h"
#include "engine/state/checkpoint.h"
#include "engine/state/packed_sample.h"
#include "engine/state/resource.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

// "load_image, orientation", from a lineage.
std::string chain_of(const std::string& lineage) {
  std::string chain;
  const Json nodes = Json::parse(lineage, nullptr, false);
  if (!nodes.is_array()) return chain;
  for (const Json& n : nodes)
    if (n.is_array() && !n.empty())
      chain += (chain.empty() ? "" : ", ") + n.front().get<std::string>();
  return chain;
}

// The library or program that this code is in, and with it every node and kernel.
std::string this_build() {
  Dl_info info{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<void*>(&chain_of), &info) != 0 && info.dli_fname &&
      fs::is_regular_file(info.dli_fname, ignored))
    return info.dli_fname;
  return fs::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace

DiskTier::DiskTier(const Settings& settings, const OpenContext& context)
    : folder_(settings.folder, settings.budget),
      digests_(settings.folder / "files.txt", settings.verify),
      bounded_(settings.budget.has_value()),
      upstream_(context.upstream),
      resources_(context.resources),
      step_threads_(context.step_threads),
      chain_(chain_of(upstream_.lineage)) {
  std::error_code ignored;
  for (const std::string& file : upstream_.files)
    if (fs::is_regular_file(file, ignored)) parameter_files_.push_back(file);
}

// ---- what an entry is known by ------------------------------------------------------------------

// The part that is the same for all items. Made at the first look-up: weights are loaded then.
const CacheKey& DiskTier::computation() {
  std::call_once(once_, [this] {
    CacheDigest digest;
    const auto build = digests_.of(this_build());
    if (!build) throw IoError("cannot read " + this_build() + ", which a cache's keys need");
    digest.add(&*build, sizeof *build).add(at::get_cpu_capability()).add(upstream_.lineage);
    for (const std::string& name : upstream_.networks) {
      const Network& network = *resources_->network(name);
      std::map<std::string, at::Tensor> weights;
      for (const auto& [key, tensor] : network.parameters()) weights[key] = tensor;
      for (const auto& [key, tensor] : network.buffers()) weights[key] = tensor;
      digest.add(weights_sha256(weights)).add(std::to_string(step_threads_));
    }
    computation_ = digest.key();
  });
  return computation_;
}

// Of a file its name and what it holds, not where it lies; of a tensor that the source made, its
// values.
bool DiskTier::add_field(CacheDigest& digest, const std::string& name, const Field& field) {
  digest.add(name);
  for (const MetaPtr& meta : field.meta) {
    digest.add(geometry_json(*meta).dump());
    if (meta->path.empty()) continue;
    for (const fs::path& file : image_files(meta->path)) {
      const auto content = digests_.of(file.string());
      if (!content && !field.tensor.defined()) return false;
      digest.add(file.filename().string());
      if (content) digest.add(&*content, sizeof *content);
    }
  }
  if (!field.tensor.defined()) return true;
  if (!field.tensor.device().is_cpu()) return false;
  const at::Tensor t = field.tensor.contiguous();
  digest.add(at::toString(t.scalar_type()));
  for (const std::int64_t extent : t.sizes()) digest.add(&extent, sizeof extent);
  digest.add(t.const_data_ptr(), t.nbytes());
  return true;
}

// nullopt where a file cannot be read: whoever needs it will say so.
std::optional<CacheKey> DiskTier::key_of(const Sample& record) {
  CacheDigest digest;
  digest.add(&computation(), sizeof(CacheKey)).add(record.name);
  for (const std::string& file : parameter_files_) {
    const auto content = digests_.of(file);
    if (!content) return std::nullopt;
    digest.add(&*content, sizeof *content);
  }
  for (const auto& [name, field] : record.fields())
    if (!add_field(digest, name, field)) return std::nullopt;
  return digest.key();
}

// ---- finding and filling ------------------------------------------------------------------------

std::optional<CacheStore::Entry> DiskTier::find(std::uint64_t item) {
  const SamplePtr record = upstream_.record ? upstream_.record(item) : nullptr;
  if (!record)
    throw Error(Exit::usage,
                "its source does not say what its items are, which \"store\": \"disk\" "
                "needs; use \"memory\"");
  const auto key = key_of(*record);
  if (key) {
    {
      std::lock_guard lock(mutex_);
      if (const auto it = quarantined_.find(*key); it != quarantined_.end())
        return CacheStore::Entry{nullptr, it->second};
    }
    if (const auto entry = folder_.read(*key)) {
      if (entry->header.contains("skip"))
        return CacheStore::Entry{nullptr, entry->header.value("skip", std::string())};
      if (SamplePtr sample = unpack(*entry, *record)) return CacheStore::Entry{sample, ""};
      folder_.remove(*key);
    }
  }
  std::lock_guard lock(mutex_);
  Pending& pending = pending_[item];
  if (pending.times++ == 0) pending.key = key;
  if (pending.key != key) pending.key.reset();
  return std::nullopt;
}

bool DiskTier::put(std::uint64_t item, const CacheStore::Entry& entry) {
  std::optional<CacheKey> key;
  {
    std::lock_guard lock(mutex_);
    const auto it = pending_.find(item);
    if (it == pending_.end()) return false;
    key = it->second.key;
    if (--it->second.times == 0) pending_.erase(it);
  }
  const SamplePtr record = upstream_.record(item);
  if (!key || key_of(*record) != key) return false;  // a file changed while it was computed
  if (folder_.uses(*key)) return true;
  if (!entry.sample && entry.skip_reason == *reasons::quarantined) {
    std::lock_guard lock(mutex_);
    quarantined_[*key] = entry.skip_reason;
    return true;
  }
  if (!entry.sample)
    return folder_.write(*key, {{"nodes", chain_}, {"skip", entry.skip_reason}}, {});
  auto packed = pack(*entry.sample, *record);
  if (!packed) return false;
  packed->header["nodes"] = chain_;
  return folder_.write(*key, packed->header, packed->parts);
}

CacheStore::Held DiskTier::held() const {
  const auto f = folder_.figures();
  return {.entries = f.entries, .bytes = f.bytes, .damaged = f.damaged};
}

}  // namespace sluice
