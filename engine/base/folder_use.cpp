#include "engine/base/folder_use.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "engine/base/warnings.h"

namespace sluice {
namespace {

struct Open {
  int fd;
  explicit Open(const std::filesystem::path& folder)
      : fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~Open() {
    if (fd >= 0) ::close(fd);
  }
  Open(const Open&) = delete;
};

// Who has locked it, as /proc/locks says: "1: FLOCK  ADVISORY  READ  4711 08:02:131090 0 EOF". On
// file systems whose devices it calls otherwise (btrfs) nobody is found.
std::string holder(const struct stat& is) {
  const std::string own = std::to_string(::getpid());
  char file[64];
  std::snprintf(file, sizeof file, "%02x:%02x:%ju", ::major(is.st_dev), ::minor(is.st_dev),
                std::uintmax_t{is.st_ino});
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, how, access, pid, of;
    words >> number >> kind >> how >> access >> pid >> of;
    if (kind == "FLOCK" && of == file && pid != own) return "process " + pid;
  }
  return "another process";  // on another host, or in another container
}

}  // namespace

std::shared_ptr<const void> use_folder(const std::filesystem::path& folder) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<const void>> held;
  const auto mine = std::make_shared<const Open>(folder);
  struct stat is {};
  if (mine->fd < 0 || ::fstat(mine->fd, &is) != 0) return nullptr;
  std::lock_guard lock(mutex);
  auto& known = held[{is.st_dev, is.st_ino}];
  if (auto same = known.lock()) return same;
  // Alone it can be had for itself; others have it shared. From the one to the other it is nobody's
  // for a moment, in which another process may have it for itself. Some file systems have no locks.
  const auto refused = [&](int lock) {
    return ::flock(mine->fd, lock | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  };
  const bool was_there = refused(LOCK_EX);
  if (refused(LOCK_SH) || was_there)
    warn(folder.string() + ": " + holder(is) +
         " writes there too; of files with one name the last one written stays");
  known = mine;
  return mine;
}

}  // namespace sluice
