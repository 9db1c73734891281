#include "kernels/files/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <utility>

#include "engine/base/missing_folder.h"
#include "engine/base/system_call.h"

namespace sluice {
namespace {

constexpr std::size_t huge_page = 2u << 20;
constexpr std::size_t largest_request = 1u << 30;  // Linux moves at most 2 GiB in one call

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail(const std::filesystem::path& path, const char* action, int error) {
  fail_call(path.string() + ": " + action, error);
}

void write_all(int fd, std::span<const std::uint8_t> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), largest_request));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

// Removes the temporary file unless it was renamed.
struct Temporary {
  std::filesystem::path path;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(path.c_str());
  }
};

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<std::uint64_t> count{0};
  std::filesystem::path name = path;
  name += std::string(".").append(std::to_string(::getpid())).append("-");
  name += std::to_string(count++).append(".tmp");
  return name;
}

// So that the rename itself survives a crash.
void sync_folder(const std::filesystem::path& folder) {
  Descriptor d{::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (d.fd >= 0) ::fsync(d.fd);
}

}  // namespace

FileBytes::FileBytes(std::size_t size) : size_(size) {
  const std::size_t alignment = size >= 2 * huge_page ? huge_page : 64;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) & ~(alignment - 1);
  bytes_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(alignment, rounded)));
  if (!bytes_) throw std::bad_alloc();
  advise_huge_pages(bytes_.get(), rounded);
}

void advise_huge_pages(void* data, std::size_t size) {
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + huge_page - 1) & ~(huge_page - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + size) & ~(huge_page - 1);
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

namespace {

// An open regular file that is not empty.
Descriptor open_file(const std::filesystem::path& path, std::uint64_t& size) {
  // Not blocking: a FIFO with nobody at its other end would wait for ever.
  Descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0 && (errno == ENOENT || errno == ENOTDIR))
    throw DataError(path.string() + ": no such file" + missing_folder(path));
  if (d.fd < 0) fail(path, "cannot open", errno);
  struct stat info {};
  if (::fstat(d.fd, &info) != 0) fail(path, "cannot stat", errno);
  if (S_ISDIR(info.st_mode)) throw DataError(path.string() + ": is a directory");
  if (!S_ISREG(info.st_mode)) throw DataError(path.string() + ": is not a regular file");
  size = static_cast<std::uint64_t>(info.st_size);
  if (size == 0) throw DataError(path.string() + ": empty file");
  return d;
}

FileBytes read_bytes(int fd, std::uint64_t size, const std::filesystem::path& path) {
  FileBytes buffer(size);
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t n =
        ::read(fd, buffer.data() + done, std::min<std::uint64_t>(size - done, largest_request));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot read", errno);
    if (n == 0) throw IoError(path.string() + ": became shorter while it was read");
    done += static_cast<std::uint64_t>(n);
  }
  return buffer;
}

}  // namespace

FileBytes read_file(const std::filesystem::path& path, std::uint64_t limit) {
  std::uint64_t size = 0;
  const Descriptor d = open_file(path, size);
  if (size > limit)
    throw DataError(path.string() + ": is " + with_commas(size) + " bytes, the limit is " +
                    with_commas(limit));
  return read_bytes(d.fd, size, path);
}

FileBytes read_file_front(const std::filesystem::path& path, std::size_t most) {
  std::uint64_t size = 0;
  const Descriptor d = open_file(path, size);
  return read_bytes(d.fd, std::min<std::uint64_t>(size, most), path);
}

void write_file(const std::filesystem::path& path, FileParts parts) {
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) fail(path.parent_path(), "cannot make the folder", error.value());
  }
  write_file_there(path, parts);
}

void write_file_there(const std::filesystem::path& path, FileParts parts) {
  Temporary temporary{temporary_name(path)};
  {
    Descriptor d{::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (d.fd < 0) {
      temporary.kept = true;  // not ours
      fail(path, "cannot create", errno);
    }
    for (auto part : parts) write_all(d.fd, part, path);
    int synced = 0;
    do synced = ::fsync(d.fd);
    while (synced != 0 && errno == EINTR);
    if (synced != 0) fail(path, "cannot write", errno);
    const int fd = std::exchange(d.fd, -1);
    if (::close(fd) != 0) fail(path, "cannot write", errno);
  }
  if (::rename(temporary.path.c_str(), path.c_str()) != 0) fail(path, "cannot rename to", errno);
  temporary.kept = true;
  sync_folder(path.parent_path());
}

void fail_to_list(const std::filesystem::path& folder, const std::error_code& why) {
  const std::string text = folder.string() + ": cannot list the folder";
  if (is_of_machine(why.value())) fail_call(text, why.value());
  throw DataError(text + ": " + why.message());
}

std::string with_commas(std::uint64_t n) {
  std::string reversed;
  for (int digits = 0; n > 0 || digits == 0; ++digits, n /= 10) {
    if (digits > 0 && digits % 3 == 0) reversed.push_back(',');
    reversed.push_back(static_cast<char>('0' + n % 10));
  }
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace sluice
