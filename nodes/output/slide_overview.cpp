// slide_overview: a slide in small, with its map of probabilities over it and its detections.
#include <ATen/Functions.h>

#include "kernels/files/png.h"
#include "nodes/slide_params.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SlideOverview final : FileWriter {
  struct Params {
    std::string key = "image", map_key = "prob_map", coords_key = "coords",
                output_dir = "overviews", backend = "auto";
    std::int64_t size = 1024;
  } p;

  static Spec spec() {
    return Spec(
               "slide_overview",
               "Draws a level of a slide with the map of probabilities over it, yellow to red, and "
               "a ring about each detection, as NAME.png: the report's page of slides shows it.")
        .in("sample", "What prob_nms emits.")
        .param("key", &Params::key, "The slide's path.")
        .param("map_key", &Params::map_key, "The map, [1, rows, columns].")
        .param("coords_key", &Params::coords_key,
               "Detections, [points, 2] in pixels of level 0; left out where a sample has none.")
        .param("size", &Params::size,
               "The level that is drawn: the largest whose longer side has at most so many pixels, "
               "else the smallest.")
        .range(16, 8192)
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("backend", &Params::backend, "As read_region's.")
        .choices(slide_backends)
        .lane(LaneKind::io)
        .takes("@key", Form::record)
        .takes("@map_key", Form::image, 2, 2);
  }

  void open(const OpenContext& context) override {
    folder_ = context.out_dir / p.output_dir;
    written_.open(context, folder_);
    reader_ = std::make_unique<SlideReader>(p.backend, std::size_t{16} << 20, 1);
  }

  void process(Firing& f) override {
    const auto slide = reader_->open(slide_path(f.in(), p.key));
    std::int64_t level = 0;
    const auto fits = [&](std::int64_t l) {
      return std::max(slide->level(l).rows, slide->level(l).columns) <= p.size;
    };
    while (level + 1 < std::ssize(slide->levels()) && !fits(level)) ++level;
    const SlideLevel& drawn = slide->level(level);
    if (drawn.rows > most_drawn / drawn.columns)
      throw DataError(slide->path() + ": its smallest level, " + std::to_string(drawn.rows) +
                      " x " + std::to_string(drawn.columns) + " pixels, is too large to draw");
    at::Tensor picture =
        channels_first(slide->read(level, 0, 0, drawn.rows, drawn.columns, 255), 3, *slide);
    picture = heated(picture, f.in().tensor(p.map_key)).permute({1, 2, 0}).contiguous();
    if (f.in().has(p.coords_key)) ring(picture, f.in().tensor(p.coords_key), drawn.downsample);
    const std::string png =
        encode_png(picture.const_data_ptr<std::uint8_t>(), static_cast<int>(drawn.columns),
                   static_cast<int>(drawn.rows), 3);
    const fs::path file = folder_ / (fs::path(slide->path()).stem().string() + ".png");
    written_.claim(file, f.stamp(), f.in().name, slide->path());
    write_file(file, {{reinterpret_cast<const std::uint8_t*>(png.data()), png.size()}});
  }

 private:
  static constexpr std::int64_t most_drawn = std::int64_t{1} << 26;

  // Each pixel under the map's nearest value: the higher, the redder and the less of the slide.
  static at::Tensor heated(const at::Tensor& picture, const at::Tensor& map) {
    const auto index = [](std::int64_t n, std::int64_t of) {
      return at::arange(n, at::kLong).mul(of).div(n, "floor");
    };
    const at::Tensor value = map[0]
                                 .to(at::kCPU, at::kFloat)
                                 .clamp(0, 1)
                                 .index_select(0, index(picture.size(1), map.size(1)))
                                 .index_select(1, index(picture.size(2), map.size(2)));
    const at::Tensor color =
        at::stack({at::full_like(value, 225), 205 * (1 - value), at::full_like(value, 20)});
    const at::Tensor share = at::where(value.gt(0), 0.15 + 0.5 * value, at::zeros_like(value));
    return (picture.to(at::kFloat) * (1 - share) + color * share).round().to(at::kByte);
  }

  static void ring(at::Tensor& picture, const at::Tensor& coords, double downsample) {
    auto* v = picture.mutable_data_ptr<std::uint8_t>();
    const std::int64_t rows = picture.size(0), columns = picture.size(1),
                       radius = std::max<std::int64_t>(4, std::max(rows, columns) / 128);
    for (std::int64_t i = 0; i < coords.size(0); ++i) {
      const auto at = [&](std::int64_t d) {
        return static_cast<std::int64_t>(coords[i][d].item<double>() / downsample);
      };
      for (std::int64_t y = -radius; y <= radius; ++y)
        for (std::int64_t x = -radius; x <= radius; ++x) {
          const std::int64_t from = y * y + x * x, row = at(0) + y, column = at(1) + x;
          if (from > radius * radius || from < (radius - 1) * (radius - 1) || row < 0 ||
              row >= rows || column < 0 || column >= columns)
            continue;
          std::fill_n(v + (row * columns + column) * 3, 3, std::uint8_t{0});
        }
    }
  }

  fs::path folder_;
  std::unique_ptr<SlideReader> reader_;
};

const Register<SlideOverview> registered;

}  // namespace
}  // namespace sluice
