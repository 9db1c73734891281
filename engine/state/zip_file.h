// A zip archive: the box that torch.save() packs, of entries that are stored as they are, and what
// clients send files in, which are deflated. Every entry's bytes are held against the CRC that the
// archive has of them, which LibTorch's own reader is built without.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

bool is_zip(std::string_view bytes);
// An archive of entries {name, content}, stored; throws Error where it would be 4 GiB or more.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries);

class ZipFile {
 public:
  enum class Packing : std::uint8_t { stored, deflated };
  // `bytes` must outlive it; `what` begins messages. Throws DataError, and so of a deflated entry
  // where `most` is stored.
  ZipFile(std::string_view bytes, std::string what, Packing most = Packing::stored);
  bool has(const std::string& name) const { return entries_.contains(name); }
  // An entry's bytes; throws DataError where it is not there or damaged.
  std::string_view read(const std::string& name) const;
  // The same of any entry, inflated where it is deflated.
  std::string unpacked(const std::string& name) const;
  // Names of entries, sorted.
  const auto& entries() const { return entries_; }

 private:
  struct Entry {
    std::uint64_t begin = 0, bytes = 0,
                  stored = 0;  // of its header; of its content; in the archive
    std::uint32_t crc = 0;
  };
  struct Directory {
    std::uint64_t begin = 0, entries = 0;
  };
  [[noreturn]] void fail(const std::string& why) const;
  std::uint64_t number(std::uint64_t at, int width) const;
  Directory directory() const;
  std::uint64_t add_entry(std::uint64_t at);
  const Entry& entry(const std::string& name) const;
  std::string_view content(const std::string& name, const Entry& entry) const;
  void check(const std::string& name, const Entry& entry, std::string_view content) const;

  std::string_view bytes_;
  std::string what_;
  const Packing most_;
  std::map<std::string, Entry> entries_;
};

}  // namespace sluice
