// Files that are whole or not there: every system call is checked, and what was written is on the
// disk when close() returns.
//
// Invariant: whatever fails is an IoError that names the path and the cause; nobody has to look at
// errno. The digest covers every byte in the order it was written or read.
#pragma once

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/read_file.h"
#include "engine/base/system_call.h"

namespace sluice {

[[noreturn]] inline void fail_io(const char* what, const std::filesystem::path& path, int cause) {
  fail_call(std::string("cannot ") + what + " " + path.string(), cause);
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
      throw Error(Exit::memory, "cannot start a SHA-256 digest");
  }
  void update(const void* data, std::size_t bytes) {
    if (EVP_DigestUpdate(context_.get(), data, bytes) != 1)
      throw Error(Exit::memory, "cannot go on with a SHA-256 digest");
  }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (EVP_DigestFinal_ex(context_.get(), digest, &size) != 1)
      throw Error(Exit::memory, "cannot finish a SHA-256 digest");
    std::string out;
    for (unsigned int i = 0; i < size; ++i)
      for (int nibble : {digest[i] >> 4, digest[i] & 15}) out += "0123456789abcdef"[nibble];
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// fsync, also where a signal comes.
inline int sync_file(int fd) {
  int result = 0;
  do result = ::fsync(fd);
  while (result != 0 && errno == EINTR);
  return result;
}

class File {
 public:
  // To read from: regular files only.
  File(std::filesystem::path path, int flags) : path_(std::move(path)) {
    const bool reads = (flags & O_ACCMODE) == O_RDONLY;
    fd_ = reads ? open_to_read(path_.c_str()) : ::open(path_.c_str(), flags | O_CLOEXEC, 0644);
    if (fd_ >= 0) return;
    if (reads && (errno == ENOTSUP || errno == ENXIO || errno == EISDIR))
      throw IoError(path_.string() + " is not a regular file");
    fail_io("open", path_, errno);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Takes the space before anything is written, so that a full disk shows at once. File systems
  // that cannot promise space say so; then the writes find out.
  void reserve(std::uint64_t bytes) {
    const int cause = bytes > 0 ? ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes)) : 0;
    if (cause != 0 && cause != EOPNOTSUPP && cause != EINVAL) fail_io("write", path_, cause);
  }

  void write(const void* data, std::size_t bytes) {
    sha256.update(data, bytes);
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t n = ::write(fd_, at, std::min(bytes, largest_call));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail_io("write", path_, n < 0 ? errno : ENOSPC);
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }

  // Reads exactly that many bytes; a file that ends before is a DataError.
  void read(void* data, std::size_t bytes) {
    char* at = static_cast<char*>(data);
    for (std::size_t left = bytes; left > 0;) {
      const ssize_t n = ::read(fd_, at, std::min(left, largest_call));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_io("read", path_, errno);
      if (n == 0) throw DataError(path_.string() + " ends too early");
      at += n;
      left -= static_cast<std::size_t>(n);
    }
    sha256.update(data, bytes);
  }

  std::uint64_t size() const {
    struct stat s {};
    if (::fstat(fd_, &s) != 0) fail_io("read", path_, errno);
    return static_cast<std::uint64_t>(s.st_size);
  }

  void close() {
    if (sync_file(fd_) != 0) fail_io("write", path_, errno);
    if (::close(std::exchange(fd_, -1)) != 0) fail_io("write", path_, errno);
  }

  Sha256 sha256;

 private:
  static constexpr std::size_t largest_call = std::size_t{1} << 30;
  std::filesystem::path path_;
  int fd_ = -1;
};

// Makes names that were created, renamed or removed in a folder last.
inline void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_io("open", folder, errno);
  const int failed = sync_file(fd) != 0 ? errno : 0;
  ::close(fd);
  if (failed != 0 && failed != EINVAL) fail_io("write", folder, failed);  // EINVAL: no such need
}

}  // namespace sluice
