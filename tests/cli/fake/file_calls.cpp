// For LD_PRELOAD: the k-th call that changes files below a folder fails, or all are written down.
//   FILE_CALLS_UNDER=dir   only files below it count; an absolute path without links
//   FILE_CALLS_COUNT=f     a file that the number of calls is written to at the end
//   FILE_CALLS_AT=k        the k-th fails, from 1; 0: none
//   FILE_CALLS_FOR=n       and so many in all; 1 unless told
//   FILE_CALLS_ERROR=e     its errno; 0: a write of half of the bytes, the other half at the next
//                          call
//   FILE_CALLS_ROOM=b      writes beyond so many bytes in all find no space (ENOSPC)
//   FILE_CALLS_WAIT_US=t   each takes so many microseconds more: a slow disk
//   FILE_CALLS_RECORD=f    a file that gets a line a call: its name, paths, place, and where its
//                          bytes stand in F.data
// Calls: open (that makes or empties a file), write, fsync, rename, mkdir, unlink, rmdir, truncate.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>

namespace {

unsigned long number(const char* name, unsigned long otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoul(text, nullptr, 10) : otherwise;
}
std::string text(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

struct Rule {
  std::string under = text("FILE_CALLS_UNDER"), record = text("FILE_CALLS_RECORD"),
              count_file = text("FILE_CALLS_COUNT");
  unsigned long at = number("FILE_CALLS_AT", 0), how_many = number("FILE_CALLS_FOR", 1);
  int error = static_cast<int>(number("FILE_CALLS_ERROR", ENOSPC));
  unsigned long room = number("FILE_CALLS_ROOM", 0), wait_us = number("FILE_CALLS_WAIT_US", 0);
  std::atomic<unsigned long> calls{0}, written{0};
  std::recursive_mutex mutex;
  unsigned long data = 0;  // bytes in RECORD.data

  void write_count() const {
    if (count_file.empty()) return;
    const std::string line = std::to_string(calls.load()) + "\n";
    const int fd = static_cast<int>(
        syscall(SYS_openat, AT_FDCWD, count_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
    if (fd < 0 || syscall(SYS_write, fd, line.data(), line.size()) < 0) abort();
    syscall(SYS_close, fd);
  }

  bool covers(const std::string& path) const {
    return !under.empty() && path.compare(0, under.size(), under) == 0 &&
           (path.size() == under.size() || path[under.size()] == '/');
  }
  // Whether this call, which counts, is one that fails.
  bool fails(bool is_write = false) {
    const unsigned long n = ++calls;
    if (wait_us > 0) usleep(static_cast<useconds_t>(wait_us));
    if (error == EINTR && !is_write) return false;  // a signal breaks off writes and syncs alone
    return at > 0 && n >= at && n < at + how_many;
  }
};

Rule& rule() {
  static Rule& one = *new Rule;  // outlives every other static object
  static struct End {
    ~End() { one.write_count(); }
  } end;
  return one;
}

std::string absolute(int folder, const char* path) {
  if (path[0] == '/') return path;
  char base[PATH_MAX];
  if (folder == AT_FDCWD) {
    if (!getcwd(base, sizeof base)) return path;
  } else {
    const std::string link = "/proc/self/fd/" + std::to_string(folder);
    const ssize_t n = readlink(link.c_str(), base, sizeof base - 1);
    if (n < 0) return path;
    base[n] = 0;
  }
  return std::string(base) + "/" + path;
}
std::string of_descriptor(int fd) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(link.c_str(), target, sizeof target);
  return n < 0 ? "" : std::string(target, static_cast<size_t>(n));
}

void append(const std::string& file, const void* bytes, size_t n) {
  const int fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
  if (fd < 0 || syscall(SYS_write, fd, bytes, n) < 0) abort();
  syscall(SYS_close, fd);
}

// Where calls are written down, one is done after the other.
std::unique_lock<std::recursive_mutex> turn() {
  return rule().record.empty() ? std::unique_lock<std::recursive_mutex>()
                               : std::unique_lock(rule().mutex);
}

// What was done, after it was done. Paths hold no blanks.
void write_down(const std::string& line, const void* bytes = nullptr, size_t n = 0) {
  Rule& r = rule();
  if (r.record.empty()) return;
  std::string all = line;
  if (bytes) {
    all += " " + std::to_string(r.data) + " " + std::to_string(n);
    append(r.record + ".data", bytes, n);
    r.data += n;
  }
  all += "\n";
  append(r.record, all.data(), all.size());
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

int refuse() {
  errno = rule().error;
  return -1;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const bool changes = flags & (O_CREAT | O_TRUNC);
  const std::string whole = changes ? absolute(folder, path) : "";
  const bool counts = changes && rule().covers(whole);
  if (counts && rule().error != 0 && rule().fails()) return refuse();
  const auto lock = turn();
  const int fd = static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  if (counts && fd >= 0) write_down((flags & O_TRUNC ? "empty " : "make ") + whole);
  return fd;
}

// Writes through `call(bytes)` as many as are asked for, half of them, or none.
template <class Call>
ssize_t put(int fd, const void* bytes, size_t n, Call&& call) {
  Rule& r = rule();
  const std::string path = r.under.empty() ? "" : of_descriptor(fd);
  if (path.empty() || !r.covers(path)) return call(n);
  if (r.fails(true)) {
    if (r.error != 0) return refuse();
    n = n > 1 ? n / 2 : n;
  }
  if (r.room > 0 && r.written.fetch_add(n) + n > r.room) {
    errno = ENOSPC;
    return -1;
  }
  const auto lock = turn();
  const off_t at = r.record.empty() ? 0 : lseek(fd, 0, SEEK_CUR);
  const ssize_t done = call(n);
  if (done > 0) {
    struct stat now {};
    // An appended part stands at the file's end whatever the place was.
    const bool appends = fcntl(fd, F_GETFL) & O_APPEND;
    const long place = appends && fstat(fd, &now) == 0 ? now.st_size - done : at;
    write_down("write " + path + " " + std::to_string(place), bytes, static_cast<size_t>(done));
  }
  return done;
}

template <class Call>
int sync_of(int fd, Call&& call) {
  Rule& r = rule();
  const std::string path = r.under.empty() ? "" : of_descriptor(fd);
  if (path.empty() || !r.covers(path)) return call();
  if (r.error != 0 && r.fails(true)) return refuse();
  const auto lock = turn();
  const int result = call();
  if (result == 0) write_down("sync " + path);
  return result;
}

// A call on one path or two.
template <class Call>
int named(const char* what, const std::string& a, const std::string& b, Call&& call) {
  Rule& r = rule();
  if (!r.covers(a)) return call();
  if (r.error != 0 && r.fails()) return refuse();
  const auto lock = turn();
  const int result = call();
  if (result == 0) write_down(std::string(what) + " " + a + (b.empty() ? "" : " " + b));
  return result;
}

mode_t mode_in(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode);
}
// What streams of the C++ library open.
FILE* fopen64(const char* path, const char* mode) {
  const bool changes = strpbrk(mode, "wa+");
  const std::string whole = changes ? absolute(AT_FDCWD, path) : "";
  const bool counts = changes && rule().covers(whole);
  if (counts && rule().error != 0 && rule().fails()) return refuse(), nullptr;
  const auto lock = turn();
  FILE* file = next<FILE* (*)(const char*, const char*)>("fopen64")(path, mode);
  if (counts && file) write_down((strchr(mode, 'w') ? "empty " : "make ") + whole);
  return file;
}
FILE* fopen(const char* path, const char* mode) { return fopen64(path, mode); }

ssize_t write(int fd, const void* bytes, size_t n) {
  return put(fd, bytes, n, [&](size_t m) { return syscall(SYS_write, fd, bytes, m); });
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (rule().under.empty() || !rule().covers(of_descriptor(fd)))
    return syscall(SYS_writev, fd, parts, count);
  std::string all;
  for (int i = 0; i < count; ++i)
    all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write(fd, all.data(), all.size());
}
int fsync(int fd) {
  return sync_of(fd, [&] { return static_cast<int>(syscall(SYS_fsync, fd)); });
}
int fdatasync(int fd) {
  return sync_of(fd, [&] { return static_cast<int>(syscall(SYS_fdatasync, fd)); });
}
int rename(const char* from, const char* to) {
  return named("rename", absolute(AT_FDCWD, from), absolute(AT_FDCWD, to),
               [&] { return static_cast<int>(syscall(SYS_rename, from, to)); });
}
int renameat(int a, const char* from, int b, const char* to) {
  return named("rename", absolute(a, from), absolute(b, to),
               [&] { return static_cast<int>(syscall(SYS_renameat, a, from, b, to)); });
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  return named(flags & 2 ? "exchange" : "rename", absolute(a, from), absolute(b, to),
               [&] { return static_cast<int>(syscall(SYS_renameat2, a, from, b, to, flags)); });
}
int mkdir(const char* path, mode_t mode) {
  return named("mkdir", absolute(AT_FDCWD, path), "",
               [&] { return static_cast<int>(syscall(SYS_mkdir, path, mode)); });
}
int unlink(const char* path) {
  return named("unlink", absolute(AT_FDCWD, path), "",
               [&] { return static_cast<int>(syscall(SYS_unlink, path)); });
}
int unlinkat(int folder, const char* path, int flags) {
  return named(flags & AT_REMOVEDIR ? "rmdir" : "unlink", absolute(folder, path), "",
               [&] { return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags)); });
}
int rmdir(const char* path) {
  return named("rmdir", absolute(AT_FDCWD, path), "",
               [&] { return static_cast<int>(syscall(SYS_rmdir, path)); });
}
int remove(const char* path) {
  struct stat what {};
  return lstat(path, &what) == 0 && S_ISDIR(what.st_mode) ? rmdir(path) : unlink(path);
}
int ftruncate(int fd, off_t length) {
  return named("truncate", rule().under.empty() ? "" : of_descriptor(fd), std::to_string(length),
               [&] { return static_cast<int>(syscall(SYS_ftruncate, fd, length)); });
}
int posix_fallocate(int fd, off_t begin, off_t length) {
  const auto real = next<int (*)(int, off_t, off_t)>("posix_fallocate");
  const std::string path = rule().under.empty() ? "" : of_descriptor(fd);
  if (path.empty() || !rule().covers(path)) return real(fd, begin, length);
  if (rule().error != 0 && rule().fails()) return rule().error;
  const auto lock = turn();
  const int result = real(fd, begin, length);
  if (result == 0) write_down("extend " + path + " " + std::to_string(begin + length));
  return result;
}
int truncate(const char* path, off_t length) {
  return named("truncate", absolute(AT_FDCWD, path), std::to_string(length),
               [&] { return static_cast<int>(syscall(SYS_truncate, path, length)); });
}

}  // extern "C"
