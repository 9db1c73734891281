// TensorBoard's event files, written by hand: Debian packages no C++ library for them, and the four
// messages needed are a page of code.
//
//   record = u64 length | u32 masked crc32c(length) | payload | u32 masked crc32c(payload)
//   payload = Event (protobuf): wall_time, step, and a file_version, a Summary or a SessionLog
//
// Invariant: a file begins with its version and the step that this process goes on from, so that a
// reader drops what an earlier, killed process wrote of later steps. Whatever was flushed is whole
// records; a kill leaves at most one half record at the end, which readers pass over.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace sluice {

class EventFile {
 public:
  // Makes the folder and a new file in it that sorts behind those that are there.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;

  void scalar(const std::string& tag, double value, std::int64_t step);
  void image(const std::string& tag, const std::string& png, int width, int height,
             std::int64_t step);
  void flush();

 private:
  void event(const std::string& what, std::int64_t step);
  const std::filesystem::path path_;
  std::FILE* file_;
};

std::uint32_t crc32c(const std::string& bytes);  // Castagnoli's polynomial

}  // namespace sluice
