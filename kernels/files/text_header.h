// What NRRD and MetaImage have in common: a header of lines with named fields, and voxels after it
// or in a file beside it.
//
// Invariant: a field that is asked for has exactly the numbers that it must have, or a DataError
// names file and field. Fields that no reader knows are refused: they might change what the voxels
// mean.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/files/raw_volume.h"

namespace sluice {

[[noreturn]] void refuse(const std::string& name, const std::string& why);

// The lines of a header; the voxels begin where it stops.
class HeaderLines {
 public:
  HeaderLines(std::span<const std::uint8_t> file, const std::string& name)
      : file_(file), name_(name) {}
  // The next one without its end and blanks around it; nullopt after the last.
  std::optional<std::string> next();
  std::size_t position() const { return at_; }

 private:
  std::span<const std::uint8_t> file_;
  const std::string& name_;
  std::size_t at_ = 0;
};

// Numbers separated by blanks, all of the text; nothing where it is anything else.
std::optional<std::vector<double>> reals_in(const std::string& text);

class HeaderFields {
 public:
  HeaderFields(const std::string& name, const std::set<std::string_view>& known)
      : name_(name), known_(known) {}
  void add(const std::string& key, const std::string& value);
  bool has(const std::string& key) const { return map_.count(key) != 0; }
  std::string text(const std::string& key, const std::string& fallback = "") const;
  // Exactly `count` whole numbers, each at least 1.
  std::vector<std::int64_t> sizes(const std::string& key, std::size_t count) const;
  // A whole number, `fallback` where the field is not there.
  std::int64_t whole(const std::string& key, std::int64_t fallback) const;
  // `count` numbers that are finite; empty where the field is not there.
  std::vector<double> reals(const std::string& key, std::size_t count) const;
  // The same, each above 0.
  std::vector<double> positive(const std::string& key, std::size_t count) const;
  // The one of several names that is there; "" where none is.
  std::string one_of(std::initializer_list<const char*> keys) const;
  [[noreturn]] void wrong(const std::string& key) const;

 private:
  const std::string& name_;
  const std::set<std::string_view>& known_;
  std::map<std::string, std::string> map_;
};

// Bytes of the voxels that a header announces, refused above the volume limit.
std::uint64_t voxel_bytes(const RawVolume& raw, const std::string& name);

enum class Packing { raw, gzip, zlib, numbers, hex };  // the last two are text

// Where the voxels are: after the header, or in a file beside it.
struct VoxelSource {
  std::size_t header_end = 0;
  std::string file;  // "": after the header
  // Several files in its place: each has as many of the voxels as the others.
  std::vector<std::string> files;
  std::int64_t lines = 0;  // of text before them
  std::int64_t skip = 0;   // bytes behind these; -1: the voxels are the file's last
  Packing packing = Packing::raw;
};
// The voxels decoded, exactly as many as the header announces; a line's end may follow plain ones.
Volume read_voxels(const RawVolume& raw, const VoxelSource& source, FileBytes header,
                   const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

}  // namespace sluice
