// A handle of libtiff that says what is wrong.
//
// libtiff's handles are not thread-safe, so a slide has several on one file descriptor. It reports
// errors and warnings to functions; here both are kept in the handle, and whoever calls libtiff
// decides what they mean. Nothing is printed.
#pragma once

#include <tiffio.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "engine/base/error.h"

namespace sluice {

class TiffFile {
 public:
  // To read from `fd`, which stays the caller's; DataError where it is no TIFF.
  TiffFile(int fd, const std::string& name);
  // The same of bytes in memory, which stay the caller's.
  TiffFile(std::span<const std::uint8_t> bytes, const std::string& name);
  // To write a new file: mode "w", or "w8" for a BigTIFF.
  TiffFile(const std::filesystem::path& path, const char* mode);
  TiffFile(const TiffFile&) = delete;

  TIFF* get() const { return tiff_.get(); }
  // What libtiff said since the last call of this; "" for nothing. The first message counts: others
  // follow from it.
  std::string said() { return std::exchange(messages_.text, ""); }

  template <class T>
  T tag(std::uint32_t number, T fallback) const {
    T value = fallback;
    return TIFFGetField(get(), number, &value) == 1 ? value : fallback;
  }
  // Those with a default that the format gives them.
  std::uint16_t short_tag(std::uint32_t number) const {
    std::uint16_t value = 0;
    TIFFGetFieldDefaulted(get(), number, &value);
    return value;
  }
  void close();  // IoError where not all could be written

 private:
  struct Messages {
    std::string text;
  };
  struct Source {  // a position of one's own on a descriptor that is shared, or on bytes
    int fd = -1;
    std::uint64_t at = 0;
    std::span<const std::uint8_t> bytes;
  };
  struct Close {
    void operator()(TIFF* t) const { TIFFClose(t); }
  };
  struct FreeOptions {
    void operator()(TIFFOpenOptions* o) const { TIFFOpenOptionsFree(o); }
  };
  std::unique_ptr<TIFFOpenOptions, FreeOptions> options();
  void open_source(TIFFReadWriteProc read, TIFFSizeProc size);

  std::string name_;
  Messages messages_;
  Source source_;
  std::unique_ptr<TIFF, Close> tiff_;
};

}  // namespace sluice
