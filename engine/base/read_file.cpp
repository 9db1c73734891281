#include "engine/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/missing_folder.h"
#include "engine/base/system_call.h"

namespace sluice {

int open_to_read(const char* path) noexcept {
  // Without blocking: a FIFO with nobody at its other end would wait for ever.
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat s {};
  const int cause = ::fstat(fd, &s) != 0 ? errno
                    : S_ISREG(s.st_mode) ? 0
                    : S_ISDIR(s.st_mode) ? EISDIR
                                         : ENOTSUP;
  if (cause == 0) return fd;
  ::close(fd);
  errno = cause;
  return -1;
}

std::string why_not_opened(int cause) {
  if (cause == ENOTSUP || cause == ENXIO) return "it is not a regular file";  // ENXIO: a socket
  return cause == EISDIR ? "it is a folder" : std::strerror(cause);
}

std::string read_text(const std::filesystem::path& path, std::size_t most) {
  const int fd = open_to_read(path.c_str());
  if (fd < 0 && is_of_machine(errno)) fail_call("cannot read " + path.string(), errno);
  if (fd < 0) {
    const int cause = errno;
    const bool missing = cause == ENOENT || cause == ENOTDIR;
    throw IoError("cannot read " + path.string() + ": " + why_not_opened(cause) +
                  (missing ? missing_folder(path) : ""));
  }
  struct Close {
    int fd;
    ~Close() { ::close(fd); }
  } close{fd};
  std::string text;
  constexpr std::size_t piece = 1 << 16;
  for (ssize_t n = 1; n != 0 && text.size() < most;) {
    const std::size_t had = text.size(), wanted = std::min(std::max(piece, had), most - had);
    text.resize(had + wanted);
    n = ::read(fd, text.data() + had, wanted);
    const int cause = errno;
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && cause != EINTR) fail_call("cannot read " + path.string(), cause);
  }
  return text;
}

}  // namespace sluice
