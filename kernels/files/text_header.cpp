#include "kernels/files/text_header.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/trimmed.h"
#include "kernels/files/gzip.h"
#include "kernels/files/text_voxels.h"

namespace sluice {

namespace fs = std::filesystem;

void refuse(const std::string& name, const std::string& why) { throw DataError(name + ": " + why); }

std::optional<std::string> HeaderLines::next() {
  constexpr std::size_t longest = 4096;
  if (at_ == file_.size()) return std::nullopt;
  const auto* begin = file_.data() + at_;
  const std::size_t most = std::min(file_.size() - at_, longest + 1);
  const auto* end = std::find(begin, begin + most, std::uint8_t{'\n'});
  if (end == begin + most && most > longest)
    refuse(name_, "has a header line of more than 4,096 characters");
  at_ += static_cast<std::size_t>(end - begin) + (end == begin + most ? 0 : 1);
  return trimmed(std::string(begin, end));
}

namespace {

template <class T>
std::optional<std::vector<T>> numbers(const std::string& text) {
  std::vector<T> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

}  // namespace

std::optional<std::vector<double>> reals_in(const std::string& text) {
  return numbers<double>(text);
}

void HeaderFields::add(const std::string& key, const std::string& value) {
  if (!known_.count(key)) refuse(name_, "has a header field that is not read: \"" + key + "\"");
  if (!map_.emplace(key, value).second) refuse(name_, "has two fields \"" + key + "\"");
}

std::string HeaderFields::text(const std::string& key, const std::string& fallback) const {
  const auto found = map_.find(key);
  return found == map_.end() ? fallback : found->second;
}

std::vector<std::int64_t> HeaderFields::sizes(const std::string& key, std::size_t count) const {
  const auto v = numbers<std::int64_t>(text(key));
  if (!v || v->size() != count || (count > 0 && *std::min_element(v->begin(), v->end()) < 1))
    wrong(key);
  return *v;
}

std::int64_t HeaderFields::whole(const std::string& key, std::int64_t fallback) const {
  if (!has(key)) return fallback;
  const auto v = numbers<std::int64_t>(text(key));
  if (!v || v->size() != 1) wrong(key);
  return v->front();
}

std::vector<double> HeaderFields::reals(const std::string& key, std::size_t count) const {
  if (!has(key)) return {};
  const auto v = numbers<double>(text(key));
  if (!v || v->size() != count) wrong(key);
  for (const double x : *v)
    if (!std::isfinite(x)) wrong(key);
  return *v;
}

std::vector<double> HeaderFields::positive(const std::string& key, std::size_t count) const {
  const auto v = reals(key, count);
  for (const double x : v)
    if (!(x > 0)) wrong(key);
  return v;
}

std::string HeaderFields::one_of(std::initializer_list<const char*> keys) const {
  std::string found;
  for (const char* key : keys) {
    if (!has(key)) continue;
    if (!found.empty() && text(key) != text(found))
      refuse(name_, "says two things: \"" + found + "\" and \"" + key + "\"");
    found = key;
  }
  return found;
}

void HeaderFields::wrong(const std::string& key) const {
  refuse(name_, has(key) ? "field \"" + key + "\" cannot be " + text(key)
                         : "has no field \"" + key + "\"");
}

std::uint64_t voxel_bytes(const RawVolume& raw, const std::string& name) {
  // As float32 it stays under the limit too.
  std::uint64_t voxels = 1;
  const auto limit = max_volume_bytes / std::max<std::uint64_t>(4, size_of(raw.type));
  const auto times = [&](std::int64_t n) {
    if (static_cast<std::uint64_t>(n) > limit / voxels)
      refuse(name, "declares more than " + with_commas(max_volume_bytes) + " bytes of voxels");
    voxels *= static_cast<std::uint64_t>(n);
  };
  for (const auto n : raw.dim) times(n);
  times(raw.channels);
  return voxels * size_of(raw.type);
}

namespace {

// A file beside the header or below its folder, and no other.
fs::path beside(const fs::path& header, const std::string& file) {
  const fs::path relative = fs::path(file).lexically_normal();
  if (relative.empty() || relative.is_absolute() || *relative.begin() == "..")
    refuse(header.string(), "keeps its voxels in \"" + file + "\", which is not beside it");
  return header.parent_path() / relative;
}

std::uint64_t behind_line(std::span<const std::uint8_t> file, std::uint64_t at,
                          const std::string& name) {
  const auto end = std::find(file.begin() + static_cast<std::ptrdiff_t>(at), file.end(), '\n');
  if (end == file.end()) refuse(name, "ends before its voxels begin");
  return static_cast<std::uint64_t>(end - file.begin()) + 1;
}

// The voxels of several files, one after the other.
FileBytes joined(const VoxelSource& source, std::uint64_t expected, const fs::path& path,
                 const ReadBytes& read) {
  const std::uint64_t each = expected / source.files.size();
  FileBytes all;
  std::uint8_t* to = nullptr;
  for (const auto& file : source.files) {
    const fs::path part = beside(path, file);
    const FileBytes bytes = read(part);
    const std::uint64_t skip = source.skip >= 0      ? static_cast<std::uint64_t>(source.skip)
                               : bytes.size() < each ? 0
                                                     : bytes.size() - each;
    if (skip > bytes.size() || bytes.size() - skip != each)
      refuse(part.string(), "ends early or is too long (expected " + with_commas(each) +
                                " bytes of voxels, got " +
                                with_commas(bytes.size() - std::min(skip, bytes.size())) + ")");
    if (!to) {
      all = FileBytes(expected);
      to = all.data();
    }
    to = std::copy_n(bytes.data() + skip, each, to);
  }
  return all;
}

// What an editor or a text's end adds: "\n", "\r\n" or a 0.
bool is_line_end(std::span<const std::uint8_t> bytes) {
  return bytes.size() == 1 ? bytes[0] == '\n' || bytes[0] == 0
                           : bytes.size() == 2 && bytes[0] == '\r' && bytes[1] == '\n';
}

}  // namespace

Volume read_voxels(const RawVolume& raw, const VoxelSource& source, FileBytes header,
                   const fs::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const std::uint64_t expected = voxel_bytes(raw, path.string());
  if (!source.files.empty()) {
    FileBytes all = joined(source, expected, path, read);
    return to_volume(raw, all, 0, dtype, path.string());
  }
  const bool detached = !source.file.empty();
  const fs::path voxels = detached ? beside(path, source.file) : path;
  const std::string name = voxels.string();
  FileBytes file = detached ? read(voxels) : std::move(header);
  std::uint64_t begin = detached ? 0 : source.header_end;
  for (auto line = source.lines; line > 0; --line) begin = behind_line(file.view(), begin, name);
  if (source.skip > 0) begin += static_cast<std::uint64_t>(source.skip);
  if (source.skip < 0 && source.packing == Packing::raw && expected <= file.size())
    begin = file.size() - expected;
  if (begin > file.size()) refuse(name, "ends before its voxels begin");
  const auto rest = file.view().subspan(begin);
  if (source.packing == Packing::gzip) {
    file = gunzip(rest, expected, name);
    begin = 0;
  } else if (source.packing == Packing::zlib) {
    file = inflate_zlib(rest, expected, name);
    begin = 0;
  } else if (source.packing == Packing::numbers) {
    file = voxels_of_numbers(rest, raw.type, expected, name);
    begin = 0;
  } else if (source.packing == Packing::hex) {
    file = voxels_of_hex(rest, expected, name);
    begin = 0;
  } else if (rest.size() > expected && is_line_end(rest.subspan(expected))) {
    file.shorten(begin + expected);
  } else if (rest.size() != expected) {
    refuse(name, std::string(rest.size() < expected ? "ends early" : "is too long") +
                     " (expected " + with_commas(expected) + " bytes of voxels, got " +
                     with_commas(rest.size()) + ")");
  }
  return to_volume(raw, file, begin, dtype, name);
}

}  // namespace sluice
