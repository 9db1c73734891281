// Slides through the OpenSlide library (LGPL), which is loaded where it is installed: no binary of
// ours needs it, nor its header. Its C interface has been the same since version 3.4.
#include <ATen/Functions.h>
#include <dlfcn.h>

#include <charconv>

#include "engine/base/error.h"
#include "kernels/files/slide.h"

namespace sluice {
namespace {

struct OpenSlide {
  void* (*open)(const char*) = nullptr;
  void (*close)(void*) = nullptr;
  const char* (*get_error)(void*) = nullptr;
  std::int32_t (*get_level_count)(void*) = nullptr;
  void (*get_level_dimensions)(void*, std::int32_t, std::int64_t*, std::int64_t*) = nullptr;
  double (*get_level_downsample)(void*, std::int32_t) = nullptr;
  const char* (*get_property_value)(void*, const char*) = nullptr;
  void (*read_region)(void*, std::uint32_t*, std::int64_t, std::int64_t, std::int32_t, std::int64_t,
                      std::int64_t) = nullptr;
};

const OpenSlide& library(const std::string& path) {
  static const OpenSlide loaded = [] {
    OpenSlide o;
    void* library = nullptr;
    for (const char* name : {"libopenslide.so.1", "libopenslide.so.0"})
      if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return o;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    find(o.close, "openslide_close");
    find(o.get_error, "openslide_get_error");
    find(o.get_level_count, "openslide_get_level_count");
    find(o.get_level_dimensions, "openslide_get_level_dimensions");
    find(o.get_level_downsample, "openslide_get_level_downsample");
    find(o.get_property_value, "openslide_get_property_value");
    find(o.read_region, "openslide_read_region");
    find(o.open, "openslide_open");
    return o;
  }();
  if (!loaded.open)
    throw DataError(path +
                    ": needs the OpenSlide library, libopenslide.so.0, which is not installed: "
                    "apt install libopenslide0");
  return loaded;
}

class OpenSlideFile final : public Slide {
 public:
  explicit OpenSlideFile(const std::filesystem::path& path) : lib_(library(path.string())) {
    path_ = path.string();
    handle_ = {lib_.open(path_.c_str()), lib_.close};
    if (!handle_) throw DataError(path_ + ": OpenSlide knows no such format, or no such file");
    check("cannot be opened");
    for (std::int32_t l = 0; l < lib_.get_level_count(handle_.get()); ++l) {
      SlideLevel level;
      lib_.get_level_dimensions(handle_.get(), l, &level.columns, &level.rows);
      level.downsample = lib_.get_level_downsample(handle_.get(), l);
      levels_.push_back(level);
    }
    check("cannot be read");
    mpp_ = number("openslide.mpp-x");
    // Plain TIFF files say it in tags of theirs.
    if (const auto across = number("tiff.XResolution"); across && !mpp_) {
      const std::string unit = text("tiff.ResolutionUnit");
      if (unit == "centimeter") mpp_ = 1e4 / *across;
      if (unit == "inch") mpp_ = 25400 / *across;
    }
  }

  at::Tensor read(std::int64_t number, std::int64_t top, std::int64_t left, std::int64_t rows,
                  std::int64_t columns, std::uint8_t outside) override {
    level(number);
    at::Tensor region = at::empty({rows, columns, 3}, at::kByte);
    std::vector<std::uint32_t> pixels(static_cast<std::size_t>(rows * columns));
    lib_.read_region(handle_.get(), pixels.data(), left, top, static_cast<std::int32_t>(number),
                     columns, rows);
    check("level " + std::to_string(number) + " cannot be read");
    // What comes is ARGB, multiplied by its opacity; outside of the slide all is transparent, and
    // at its rim, where a level's pixel is partly outside, the colour is that of what is inside.
    auto* to = region.mutable_data_ptr<std::uint8_t>();
    for (const std::uint32_t p : pixels) {
      const std::uint32_t alpha = p >> 24;
      for (const int shift : {16, 8, 0})
        *to++ = alpha == 0
                    ? outside
                    : static_cast<std::uint8_t>(std::min(255u, 255 * ((p >> shift) & 255) / alpha));
    }
    return region;
  }

 private:
  std::string text(const char* property) const {
    const char* value = lib_.get_property_value(handle_.get(), property);
    return value ? value : "";
  }
  std::optional<double> number(const char* property) const {
    const std::string t = text(property);
    double value = 0;
    if (std::from_chars(t.data(), t.data() + t.size(), value).ec != std::errc{} || !(value > 0))
      return {};
    return value;
  }
  // OpenSlide keeps its first error, and answers nothing more after it.
  void check(const std::string& what) const {
    if (const char* why = lib_.get_error(handle_.get()))
      throw DataError(path_ + ": " + what + ": OpenSlide: " + why);
  }

  const OpenSlide& lib_;
  std::unique_ptr<void, void (*)(void*)> handle_{nullptr, nullptr};
};

}  // namespace

std::unique_ptr<Slide> open_openslide(const std::filesystem::path& path) {
  return std::make_unique<OpenSlideFile>(path);
}

}  // namespace sluice
