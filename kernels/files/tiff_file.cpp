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

void TiffFile::open_source(TIFFReadWriteProc read, TIFFSizeProc size) {
  const auto write = [](thandle_t, void*, tmsize_t) -> tmsize_t { return -1; };
  const auto seek = [](thandle_t h, toff_t to, int whence) -> toff_t {
    auto& s = *static_cast<Source*>(h);
    struct stat st {};
    if (whence == SEEK_END && s.fd >= 0 && ::fstat(s.fd, &st) != 0) return static_cast<toff_t>(-1);
    const auto end = s.fd >= 0 ? static_cast<std::uint64_t>(st.st_size) : s.bytes.size();
    s.at = to + (whence == SEEK_CUR ? s.at : whence == SEEK_END ? end : 0);
    return s.at;
  };
  const auto close = [](thandle_t) { return 0; };
  // O: of a table of tiles only what is asked for is read; m: no memory map, which a file that is
  // shortened while it is read would turn into a signal.
  tiff_.reset(TIFFClientOpenExt(name_.c_str(), "rOm", &source_, read, write, seek, close, size,
                                nullptr, nullptr, options().get()));
  if (!tiff_) throw DataError(name_ + ": is no TIFF file: " + said());
}

TiffFile::TiffFile(int fd, const std::string& name) : name_(name), source_{fd, 0, {}} {
  open_source(
      [](thandle_t h, void* to, tmsize_t n) -> tmsize_t {
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
      },
      [](thandle_t h) -> toff_t {
        struct stat s {};
        return ::fstat(static_cast<Source*>(h)->fd, &s) == 0 ? static_cast<toff_t>(s.st_size) : 0;
      });
}

TiffFile::TiffFile(std::span<const std::uint8_t> bytes, const std::string& name)
    : name_(name), source_{-1, 0, bytes} {
  open_source(
      [](thandle_t h, void* to, tmsize_t n) -> tmsize_t {
        auto& s = *static_cast<Source*>(h);
        const std::uint64_t from = std::min<std::uint64_t>(s.at, s.bytes.size());
        const auto rest = s.bytes.subspan(from, std::min(s.bytes.size() - from, std::size_t(n)));
        std::copy(rest.begin(), rest.end(), static_cast<std::uint8_t*>(to));
        s.at += rest.size();
        return static_cast<tmsize_t>(rest.size());
      },
      [](thandle_t h) -> toff_t { return static_cast<Source*>(h)->bytes.size(); });
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
