// Whole files in, whole files out.
//
// Invariant: a reader gets every byte of the file or an exception that names it; a written file
// appears under its name complete and on disk, or not at all (temporary name in the same folder,
// fsync, rename), so a full disk leaves no half of it behind.
//
// DataError: this file cannot be used (missing, empty, a directory). IoError: the file system
// failed (no rights, read error, disk full).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

namespace sluice {

// Bytes that are not cleared when they are made. Large ones ask for huge pages: a fresh 50 MB
// buffer costs 12,000 page faults otherwise, a fifth of the time that decoding into it takes.
class FileBytes {
 public:
  FileBytes() = default;
  explicit FileBytes(std::size_t size);
  std::uint8_t* data() { return bytes_.get(); }
  const std::uint8_t* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  void shorten(std::size_t size) { size_ = std::min(size, size_); }
  std::span<const std::uint8_t> view() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<std::uint8_t[], Free> bytes_;
  std::size_t size_ = 0;
};

// Asks the kernel to back a large block, about to be filled, with huge pages. Harmless.
void advise_huge_pages(void* data, std::size_t size);

inline constexpr std::uint64_t max_volume_bytes = 8ull << 30;

// Refuses files of more than `limit` bytes before any of them is read.
FileBytes read_file(const std::filesystem::path& path, std::uint64_t limit = max_volume_bytes);

// How readers of images get at the bytes of files: as they are, or checked against a manifest.
using ReadBytes = std::function<FileBytes(const std::filesystem::path&)>;
inline FileBytes read_plain(const std::filesystem::path& path) { return read_file(path); }

// The first `most` bytes, or all of a shorter file.
FileBytes read_file_front(const std::filesystem::path& path, std::size_t most);

using FileParts = std::initializer_list<std::span<const std::uint8_t>>;

// Writes the parts one after the other; makes missing folders.
void write_file(const std::filesystem::path& path, FileParts parts);

// The same into a folder that must be there.
void write_file_there(const std::filesystem::path& path, FileParts parts);

// A folder that cannot be listed is bad data, unless the machine has run out of something.
[[noreturn]] void fail_to_list(const std::filesystem::path& folder, const std::error_code& why);

// "52,429,152"
std::string with_commas(std::uint64_t n);

}  // namespace sluice
