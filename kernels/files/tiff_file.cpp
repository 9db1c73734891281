#include "kernels/files/tiff_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace sluice {

namespace {

// More than any tile, table of tiles or tag that is read (tiff_slide.cpp's limits).
constexpr tmsize_t most_at_once = tmsize_t{256} << 20;

}  // namespace

std::unique_ptr<TIFFOpenOptions, TiffFile::FreeOptions> TiffFile::options() {
  std::unique_ptr<TIFFOpenOptions, FreeOptions> o(TIFFOpenOptionsAlloc());
  if (!o) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(o.get(), most_at_once);
  // 1: the functions of the process are not called too.
  const auto keep = [](TIFF*, void* to, const char*, const char* format, va_list list) {
    char text[512];
    std::vsnprintf(text, sizeof text, format, list);
    auto& messages = *static_cast<Messages*>(to);
    if (messages.text.empty()) messages.text = text;
    return 1;
  };
  TIFFOpenOptionsSetErrorHandlerExtR(o.get(), keep, &messages_);
  TIFFOpenOptionsSetWarningHandlerExtR(o.get(), keep, &messages_);
  return o;
}

TiffFile::TiffFile(int fd, const std::string& name) : name_(name), source_{fd} {
  const auto read = [](thandle_t h, void* to, tmsize_t n) -> tmsize_t {
    auto& s = *static_cast<Source*>(h);
    tmsize_t done = 0;
    while (done < n) {
      const ssize_t got = ::pread(s.fd, static_cast<char*>(to) + done,
                                  static_cast<std::size_t>(n - done), static_cast<off_t>(s.at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += got;
      s.at += static_cast<std::uint64_t>(got);
    }
    return done;
  };
  const auto write = [](thandle_t, void*, tmsize_t) -> tmsize_t { return -1; };
  const auto size = [](thandle_t h) -> toff_t {
    struct stat s {};
    return ::fstat(static_cast<Source*>(h)->fd, &s) == 0 ? static_cast<toff_t>(s.st_size) : 0;
  };
  const auto seek = [](thandle_t h, toff_t to, int whence) -> toff_t {
    auto& s = *static_cast<Source*>(h);
    struct stat st {};
    if (whence == SEEK_END && ::fstat(s.fd, &st) != 0) return static_cast<toff_t>(-1);
    s.at = to + (whence == SEEK_CUR   ? s.at
                 : whence == SEEK_END ? static_cast<std::uint64_t>(st.st_size)
                                      : 0);
    return s.at;
  };
  const auto close = [](thandle_t) { return 0; };
  // O: of a table of tiles only what is asked for is read; m: no memory map, which a file that is
  // shortened while it is read would turn into a signal.
  tiff_.reset(TIFFClientOpenExt(name.c_str(), "rOm", &source_, read, write, seek, close, size,
                                nullptr, nullptr, options().get()));
  if (!tiff_) throw DataError(name + ": is no TIFF file: " + said());
}

TiffFile::TiffFile(const std::filesystem::path& path, const char* mode) : name_(path.string()) {
  tiff_.reset(TIFFOpenExt(path.c_str(), mode, options().get()));
  if (!tiff_) throw IoError("cannot write " + name_ + ": " + said());
}

void TiffFile::close() {
  const bool written = TIFFFlush(get()) == 1;
  tiff_.reset();
  if (const std::string why = said(); !written || !why.empty())
    throw IoError("cannot write " + name_ + ": " + why);
}

}  // namespace sluice
