// What nodes that write files share: names of files, and that neither a second sample of an epoch,
// nor another node, nor another process of the run, nor another run at the same time overwrites
// what is there in silence.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/file_owners.h"
#include "engine/base/folder_use.h"
#include "engine/group/ranks.h"
#include "engine/run/node.h"
#include "engine/state/packed_state.h"
#include "engine/state/sample.h"

namespace sluice {

inline constexpr std::string_view output_dir_doc =
    "Folder; a relative one stands under the run's folder where there is one.";

// Refuses what is no name of one file: a folder's, or with folders in it. `hint` ends what is said.
inline const std::string& must_name_a_file(const std::string& name, const std::string& hint = "") {
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    throw DataError("\"" + name + "\" cannot be the name of a file" + hint);
  return name;
}

// The file that a field of one sample lies in, loaded or not.
inline const std::string& file_of(const Sample& sample, const std::string& key) {
  const Field& field = sample.at(key);
  if (field.meta.size() != 1)
    throw DataError("field \"" + key + "\" is a batch; decollate it before");
  if (field.geometry().path.empty()) throw DataError("field \"" + key + "\" is of no file");
  return field.geometry().path;
}

// `path` as seen from `folder`, "." for the folder itself; none where it lies outside. By the names
// alone: neither need exist.
inline std::optional<std::filesystem::path> path_within(const std::filesystem::path& path,
                                                        const std::filesystem::path& folder) {
  const auto plain = [](const auto& p) { return std::filesystem::absolute(p).lexically_normal(); };
  const std::filesystem::path relative = plain(path).lexically_relative(plain(folder));
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return relative;
}

// As long as what is returned is kept, another run that writes into `folder` says so, as this one
// does where the other was first. The run's own folder is locked as a whole, and of a run's ranks
// the first one speaks.
inline std::shared_ptr<const void> share_folder(const OpenContext& context,
                                                const std::filesystem::path& folder) {
  if (context.ranks && context.ranks->world.rank > 0) return nullptr;
  if (!context.out_dir.empty() && path_within(folder, context.out_dir)) return nullptr;
  std::error_code said_by_the_writer;
  std::filesystem::create_directories(folder, said_by_the_writer);
  return use_folder(folder);
}

// The same for a node that writes one file, which no other node of the run may write.
inline std::shared_ptr<const void> share_file(const OpenContext& context,
                                              const std::filesystem::path& file) {
  if (context.owners) context.owners->claim(file, context.node);
  return share_folder(context, file.parent_path());
}

class WrittenFiles {
 public:
  void open(const OpenContext& context, const std::filesystem::path& folder) {
    folder_ = share_folder(context, folder);
    owners_ = context.owners;
    node_ = context.node;
    if (context.ranks) wire_ = context.ranks->wire;
  }
  // DataError where another sample of the epoch has claimed the path, Error where another node has.
  // `source`: the file that this sample was made of, or ""; `advice` follows the message. Any
  // thread.
  void claim(const std::filesystem::path& path, const Stamp& stamp, const std::string& sample,
             const std::string& source, const std::string& advice = "") {
    if (owners_) owners_->claim(path, node_);
    const std::string told = "\"" + sample + "\"" + (source.empty() ? "" : " of " + source);
    if (wire_) claim_among_ranks(path, stamp.epoch, told, advice);
    std::lock_guard lock(mutex_);
    Claim& last = claims_.try_emplace(path.string(), Claim{stamp, told}).first->second;
    // A run that goes on repeats some samples, under --force perhaps in another order.
    const bool same =
        last.before ? last.stamp.index == stamp.index || last.told == told : last.stamp == stamp;
    if (last.stamp.epoch == stamp.epoch && !same) refuse(path, last.told, told, advice);
    last = {stamp, told};
  }

  // The newest epoch's, for a run that is resumed and goes on within it.
  void save(State& state) const {
    std::lock_guard lock(mutex_);
    std::uint32_t newest = 0;
    for (const auto& [path, claim] : claims_) newest = std::max(newest, claim.stamp.epoch);
    Json files = Json::array();
    for (const auto& [path, claim] : claims_)
      if (claim.stamp.epoch == newest) files.push_back({path, claim.stamp.index, claim.told});
    if (files.empty()) return;
    state.tensors[saved_as] = packed_json({{"epoch", newest}, {"files", std::move(files)}});
  }
  // Adds what was saved before, or by another process of the run, to what is known here.
  void load(const State& state) {
    const auto found = state.tensors.find(saved_as);
    if (found == state.tensors.end()) return;
    const Json all = unpacked_json(found->second);
    const std::uint32_t epoch = all.at("epoch");
    std::lock_guard lock(mutex_);
    for (const Json& file : all.at("files")) {
      Claim there{{.epoch = epoch, .index = file.at(1)}, file.at(2).get<std::string>(), true};
      const auto [at, is_new] = claims_.try_emplace(file.at(0).get<std::string>(), there);
      if (!is_new && at->second.stamp.epoch < epoch) at->second = std::move(there);
    }
  }

 private:
  static constexpr const char* saved_as = "written";
  [[noreturn]] static void refuse(const std::filesystem::path& path, const std::string& first,
                                  const std::string& second, const std::string& advice) {
    throw DataError(path.string() + " is the file of two samples, " + first + " and " + second +
                    advice);
  }
  // In an epoch a sample is one rank's alone. Each says its own before it looks for the others', so
  // of two at once at least one sees the other.
  void claim_among_ranks(const std::filesystem::path& path, std::uint32_t epoch,
                         const std::string& told, const std::string& advice) const {
    const std::string whole = std::filesystem::absolute(path).lexically_normal().string();
    const auto of = [&](int rank) { return "written/" + whole + "/" + std::to_string(rank); };
    wire_->put(of(wire_->rank()), text_of({epoch, told}));
    for (int r = 0; r < wire_->size(); ++r) {
      if (r == wire_->rank() || !wire_->has(of(r))) continue;
      const Json theirs = Json::parse(wire_->get(of(r)));
      if (theirs.at(0) == epoch) refuse(path, theirs.at(1), told, advice);
    }
  }
  static std::string text_of(const Json& claim) {
    return claim.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  struct Claim {
    Stamp stamp;
    std::string told;     // the sample, for the message
    bool before = false;  // of the run that this one goes on with: epoch and index alone
  };
  mutable std::mutex mutex_;
  std::shared_ptr<const void> folder_;
  std::shared_ptr<FileOwners> owners_;
  Wire* wire_ = nullptr;  // null: the process is alone
  std::string node_;
  std::map<std::string, Claim> claims_;
};

// A node that writes files of each sample, and has no other state.
class FileWriter : public Node {
 public:
  void save(State& state) const override { written_.save(state); }
  void load(const State& state) override { written_.load(state); }
  void merge(const State& part) override { written_.load(part); }

 protected:
  WrittenFiles written_;
};

}  // namespace sluice
