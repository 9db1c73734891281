// Manifests: what every file of a data set held when it was indexed, as SHA-256 digests, so that a
// run notices when a file changes. An uncompressed image has no checksum of its own.
//
// The format is that of `sha256sum`, which checks it too, with two comments around the lines:
//
//   # sluice data manifest 1
//   9f86d081...  imagesTr/case_001.nii.gz        (64 digits, two blanks, a path)
//   # end: 440 files, 2c26b46b...                (the digest of all bytes above this line)
//
// Paths are relative to the manifest's folder and sorted. As in sha256sum, a line whose path holds
// a line break or a backslash begins with a backslash and has them as \n and \\.
//
// Invariant: a Manifest that was read is whole: a cut or edited one is a DataError.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "kernels/files/file_io.h"

namespace sluice {

std::string sha256(std::span<const std::uint8_t> bytes);        // 64 hexadecimal digits
std::string sha256_of_file(const std::filesystem::path& path);  // in pieces; may be empty or large

class Manifest {
 public:
  static constexpr const char* usual_name = "manifest.sha256";

  // `folder`: the one that its paths are relative to.
  explicit Manifest(std::filesystem::path folder);
  static Manifest read(const std::filesystem::path& file);
  void write(const std::filesystem::path& file) const;

  // A path as the manifest has it.
  std::string relative(const std::filesystem::path& path) const;
  // The digest that is listed for a file; "" where it is not listed.
  std::string digest(const std::filesystem::path& path) const;
  // The file's bytes; DataError where they are not what was indexed, or it is not listed.
  FileBytes read_listed(const std::filesystem::path& path) const;
  // DataError as above, for bytes that were read.
  void verify(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::map<std::string, std::string> digests;  // relative path -> digest

 private:
  std::filesystem::path folder_;
};

}  // namespace sluice
