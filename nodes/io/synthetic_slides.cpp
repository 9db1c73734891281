// synthetic_slides: slides with tumours and masks of them, of any size, for trying graphs out: no
// package brings a slide.
//
// A slide is a mosaic of two textures, tissue with blue nuclei and tumour with brown cells between
// them, turned and mirrored block by block; both are functions of the place, so a slide is written
// from the top down and never held.
#include <ATen/Functions.h>

#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "kernels/base/inner_parallel.h"
#include "kernels/files/slide.h"
#include "nodes/slide_params.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t block_size = 512;
using SlidePixel = std::array<std::uint8_t, 3>;
using SlideTexture = std::vector<SlidePixel>;  // block_size x block_size

// Nuclei on a disturbed lattice; in a tumour they are denser and brown lies between them.
SlideTexture make_texture(bool tumour) {
  constexpr SlidePixel stroma{228, 205, 216}, brown{176, 132, 96}, nucleus{112, 100, 164};
  Random random(random_key(0, tumour ? "tumour" : "tissue"), Stamp{});
  SlideTexture texture(block_size * block_size);
  const std::int64_t pitch = tumour ? 16 : 22;
  std::vector<double> depth(block_size * block_size);
  for (std::int64_t gy = 0; gy < block_size; gy += pitch)
    for (std::int64_t gx = 0; gx < block_size; gx += pitch) {
      const double cy = static_cast<double>(gy) + random.uniform(0, static_cast<double>(pitch)),
                   cx = static_cast<double>(gx) + random.uniform(0, static_cast<double>(pitch)),
                   radius = random.uniform(3.5, 6.5), stretch = random.uniform(0.7, 1.4);
      for (auto y = std::llrint(cy - 10); y < std::llrint(cy + 10); ++y)
        for (auto x = std::llrint(cx - 10); x < std::llrint(cx + 10); ++x) {
          const double dy = (static_cast<double>(y) - cy) * stretch,
                       dx = (static_cast<double>(x) - cx) / stretch;
          const double inside = std::clamp(radius - std::hypot(dy, dx), 0.0, 1.0);
          double& d = depth[static_cast<std::size_t>((y + block_size) % block_size * block_size +
                                                     (x + block_size) % block_size)];
          d = std::max(d, inside);
        }
    }
  for (std::int64_t y = 0; y < block_size; ++y)
    for (std::int64_t x = 0; x < block_size; ++x) {
      const auto i = static_cast<std::size_t>(y * block_size + x);
      const auto wave = [&](double a, double b) {
        constexpr double turn = 2 * std::numbers::pi / block_size;
        return std::sin(turn * (a * static_cast<double>(x) + b * static_cast<double>(y)));
      };
      const double cloud = 0.5 + 0.25 * (wave(3, 5) + wave(7, -4)), noise = random.uniform(-7, 7);
      for (std::size_t c = 0; c < 3; ++c) {
        const double between =
            tumour ? brown[c] * cloud + stroma[c] * (1 - cloud) : stroma[c] - 14 * cloud;
        const double value = depth[i] * nucleus[c] + (1 - depth[i]) * between + noise;
        texture[i][c] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  return texture;
}

// Where a slide has tissue and tumours; coordinates are shares of its size.
class SlideLayout {
 public:
  SlideLayout(std::uint64_t seed, std::int64_t number, std::int64_t size)
      : size_(size), number_(static_cast<double>(number)) {
    Stamp stamp;
    stamp.index = static_cast<std::uint64_t>(number);
    Random random(random_key(seed, "synthetic_slides"), stamp);
    for (std::int64_t i = 0; i < 3 + number % 3; ++i)
      tumours_.push_back({random.uniform(0.25, 0.75), random.uniform(0.25, 0.75),
                          random.uniform(0.05, 0.11), random.uniform(0.8, 1.3)});
    turns_ = random.bits64();
    for (std::int64_t x = 0; x < size; ++x) wave_.push_back(std::sin(9 * share(x) + number_));
    rest_ = random;
  }
  std::int64_t size() const { return size_; }
  Random& draws() { return rest_; }

  bool tissue(std::int64_t y, std::int64_t x) const {
    const double a = (share(y) - 0.5) / 0.46, b = (share(x) - 0.5) / 0.42;
    return a * a + b * b + 0.1 * wave_[static_cast<std::size_t>(x)] * std::sin(7 * share(y)) < 1;
  }
  bool tumour(std::int64_t y, std::int64_t x) const {
    for (const Tumour& t : tumours_) {
      const double a = share(y) - t.y, b = (share(x) - t.x) * t.stretch;
      if (a * a + b * b < t.radius * t.radius) return tissue(y, x);
    }
    return false;
  }
  // The pixel of a texture that stands there: each block is turned by eighths of its own.
  std::size_t in_texture(std::int64_t y, std::int64_t x) const {
    const auto way =
        mix(turns_ ^ mix(static_cast<std::uint64_t>(y / block_size << 32 | x / block_size)));
    std::int64_t v = y % block_size, u = x % block_size;
    if (way & 1) std::swap(u, v);
    if (way & 2) u = block_size - 1 - u;
    if (way & 4) v = block_size - 1 - v;
    return static_cast<std::size_t>(v * block_size + u);
  }

 private:
  struct Tumour {
    double y, x, radius, stretch;
  };
  double share(std::int64_t i) const { return static_cast<double>(i) / static_cast<double>(size_); }

  std::int64_t size_;
  double number_;
  std::vector<Tumour> tumours_;
  std::uint64_t turns_ = 0;
  std::vector<double> wave_;  // by column
  Random rest_{0, Stamp{}};
};

struct SyntheticSlides final : Node {
  struct Params {
    std::string output_dir, regions_file = "regions.csv", compression = "jpeg";
    std::int64_t num_slides = 1, first = 0, seed = 0, size = 4096, tile = 256, levels = 0;
    std::int64_t regions = 0, region_size = 192, grid = 3;
    double mpp = 0.5;
  } p;

  static Spec spec() {
    Spec s("synthetic_slides",
           "Writes slides of tissue with tumours, images/slide_00.tif, ..., and their masks, "
           "masks/slide_00.tif, ..., as pyramidal TIFF files of any size.");
    s.out("sample", "The paths: image, and tumor_mask.")
        .param("output_dir", &Params::output_dir, "Folder of the files.")
        .required()
        .param("num_slides", &Params::num_slides, "Slides.")
        .at_least(1)
        .param("first", &Params::first, "Number of the first one: slide n is the same everywhere.")
        .at_least(0)
        .param("seed", &Params::seed, "Of the slides; not of the run.")
        .at_least(0)
        .param("size", &Params::size, "Rows and columns.")
        .range(256, 1 << 20);
    return add_pyramid_params<Params>(s)
        .param("compression", &Params::compression, "Of the slides; masks are deflated.")
        .choices(slide_compressions)
        .param("mpp", &Params::mpp, "Micrometres a pixel.")
        .above(0)
        .param("regions", &Params::regions,
               "Regions a slide that regions_file lists to train on, half of them about tumour.")
        .at_least(0)
        .param("regions_file", &Params::regions_file,
               "CSV without names: slide, x and y of the region's centre, and for each cell of its "
               "grid, row by row, whether most of it is tumour.")
        .param("region_size", &Params::region_size, "Rows and columns of a region.")
        .at_least(1)
        .param("grid", &Params::grid, "Cells of a region along each axis.")
        .at_least(1)
        .lane(LaneKind::io)
        .source()
        .gives("image", Form::record)
        .gives("tumor_mask", Form::record);
  }

  void open(const OpenContext&) override {
    if (p.region_size % p.grid != 0 || p.region_size > p.size / 2 || p.tile % 16 != 0)
      throw Error(Exit::usage,
                  "region_size is a multiple of grid and at most half of size, tile one of 16");
  }

  void process(Firing& f) override {
    const auto n = static_cast<std::uint64_t>(p.num_slides), i = f.stamp().index;
    if (i < n) return f.emit_item(i, write(p.first + static_cast<std::int64_t>(i)));
    if (p.regions > 0)
      write_file(folder() / p.regions_file,
                 {{reinterpret_cast<const std::uint8_t*>(rows_.data()), rows_.size()}});
    rows_.clear();
    f.end_epoch();
  }

  std::optional<std::uint64_t> epoch_size() const override {
    return static_cast<std::uint64_t>(p.num_slides);
  }

 private:
  fs::path folder() const { return p.output_dir; }

  Sample write(std::int64_t number) {
    SlideLayout layout(static_cast<std::uint64_t>(p.seed), number, p.size);
    char name[32];
    std::snprintf(name, sizeof name, "slide_%02lld", static_cast<long long>(number));
    const fs::path image = folder() / "images" / (std::string(name) + ".tif"),
                   mask = folder() / "masks" / (std::string(name) + ".tif");
    static const SlideTexture tissue = make_texture(false), tumour = make_texture(true);
    constexpr SlidePixel glass{243, 242, 244};
    write_slide(image, p.size, p.size, 3,
                {.tile = p.tile, .levels = p.levels, .compression = p.compression, .mpp = p.mpp},
                [&](std::int64_t top, std::int64_t rows, std::uint8_t* to) {
                  each_row(rows, [&](std::int64_t r) {
                    std::uint8_t* out = to + r * p.size * 3;
                    for (std::int64_t x = 0; x < p.size; ++x) {
                      const std::size_t i = layout.in_texture(top + r, x);
                      const SlidePixel pixel = layout.tumour(top + r, x)   ? tumour[i]
                                               : layout.tissue(top + r, x) ? tissue[i]
                                                                           : glass;
                      out = std::copy(pixel.begin(), pixel.end(), out);
                    }
                  });
                });
    write_slide(mask, p.size, p.size, 1,
                {.tile = p.tile,
                 .levels = p.levels,
                 .compression = "deflate",
                 .nearest = true,
                 .mpp = p.mpp},
                [&](std::int64_t top, std::int64_t rows, std::uint8_t* to) {
                  each_row(rows, [&](std::int64_t r) {
                    for (std::int64_t x = 0; x < p.size; ++x)
                      to[r * p.size + x] = layout.tumour(top + r, x);
                  });
                });
    for (std::int64_t i = 0; i < p.regions; ++i) add_region(name, layout, i % 2 == 1);
    Sample out;
    out.name = name;
    out.set("image", with_path({}, image.string()));
    out.set("tumor_mask", with_path({}, mask.string()));
    return out;
  }

  template <class Fn>
  static void each_row(std::int64_t rows, Fn&& fn) {
    for_range(rows, true, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) fn(r);
    });
  }

  void add_region(const std::string& name, SlideLayout& layout, bool about_tumour) {
    const std::int64_t half = p.region_size / 2;
    const auto draw = [&] {
      return half + static_cast<std::int64_t>(
                        layout.draws().integer(static_cast<std::uint64_t>(p.size - p.region_size)));
    };
    std::int64_t y = 0, x = 0;
    do {
      y = draw();
      x = draw();
    } while (!layout.tissue(y, x) || layout.tumour(y, x) != about_tumour);
    rows_ += name + "," + std::to_string(x) + "," + std::to_string(y);
    const std::int64_t cell = p.region_size / p.grid;
    for (std::int64_t i = 0; i < p.grid; ++i)
      for (std::int64_t j = 0; j < p.grid; ++j) {
        std::int64_t inside = 0;
        for (std::int64_t v = 0; v < cell; ++v)
          for (std::int64_t u = 0; u < cell; ++u)
            inside += layout.tumour(y - half + i * cell + v, x - half + j * cell + u);
        rows_ += 2 * inside > cell * cell ? ",1" : ",0";
      }
    rows_ += "\n";
  }

  std::string rows_;  // of regions_file
};

const Register<SyntheticSlides> registered;

}  // namespace
}  // namespace sluice
