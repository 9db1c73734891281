// slide_grid: every place of a slide; the lists of MONAI's SlidingPatchWSIDataset and
// MaskedPatchWSIDataset.
//
// Its samples hold places and no pixels. A `buffer` between it and read_region bounds how many
// regions are read ahead.
#include <ATen/Functions.h>

#include <cmath>

#include "kernels/image/tissue.h"
#include "nodes/slide_params.h"

namespace sluice {
namespace {

constexpr std::int64_t most_of_a_mask = std::int64_t{1} << 26;

struct SlideGrid final : Node {
  struct Params : SlideParams {
    std::string key = "image", mask = "none", mask_key = "mask";
    std::vector<std::int64_t> size, offset{0};
    std::vector<double> overlap{0};
    std::int64_t mask_level = 7;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("slide_grid",
           "Makes a sample of each place of a slide where a patch is to be read: of a grid, or of "
           "each pixel of a mask of its tissue.");
    s.in("sample", "A field with a slide's path.")
        .out("sample",
             "the slide's path with location [row, column] in pixels of level 0 (the patch's "
             "corner: read_region with center false), mask_location, mask_size and num_patches "
             "for probability_map")
        .param("key", &Params::key, "The slide.")
        .param("size", &Params::size, "A patch's rows and columns at the level; one number: both.")
        .required()
        .range(1, 1 << 15)
        .length(1, 2)
        .param("overlap", &Params::overlap,
               "mask none: share of a patch that the next one has too, one or one an axis.")
        .at_least(0)
        .below(1)
        .length(1, 2)
        .param("offset", &Params::offset, "mask none: the first patch's corner, in level 0.")
        .at_least(0)
        .length(1, 2)
        .param("mask_level", &Params::mask_level,
               "The level of the tissue mask and of the map that probability_map makes.")
        .at_least(0)
        .param("mask", &Params::mask,
               "none: a grid of whole patches (SlidingPatchWSIDataset). otsu: a patch about each "
               "pixel of the tissue mask that foreground_mask finds with hsv_threshold {\"S\": "
               "\"otsu\"} at mask_level (MaskedPatchWSIDataset). file: ... of a mask's slide.")
        .choices({"none", "otsu", "file"})
        .param("mask_key", &Params::mask_key,
               "mask file: the field with the path of a grey slide of mask_level's size, nonzero "
               "where patches are to be.");
    return add_slide_params<Params>(s)
        .expands("")
        .takes("@key", Form::record)
        .takes("@mask_key", Form::record)
        .when("mask", "file")
        .gives("location", Form::any)
        .dtype("int64")
        .gives("mask_location", Form::any)
        .dtype("int64")
        .gives("mask_size", Form::any)
        .dtype("int64")
        .gives("num_patches", Form::any)
        .dtype("int64");
  }

  void open(const OpenContext&) override { reader_ = slide_reader(p); }

  void process(Firing& f) override {
    const Sample& in = f.in();
    const auto slide = reader_->open(slide_path(in, p.key));
    const SlideLevel& mask_level = slide->level(p.mask_level);
    const Places places = p.mask == "none" ? of_grid(*slide) : of_mask(*slide, tissue(in, *slide));
    const std::int64_t n = places.locations.size(0);
    const auto meta = with_path({}, slide->path()).meta;
    const Field size(at::tensor({mask_level.rows, mask_level.columns}, at::kLong), meta),
        count(at::scalar_tensor(n, at::kLong), meta);
    if (n == 0) return f.skip("no place for a patch");
    for (std::int64_t i = 0; i < n && !f.stopped(); ++i) {
      Sample out = in;
      const at::Tensor location = places.locations[i];
      out.name += "_" + std::to_string(location[0].item<std::int64_t>()) + "_" +
                  std::to_string(location[1].item<std::int64_t>());
      out.set("location", Field(location, meta));
      out.set("mask_location", Field(places.mask_locations[i], meta));
      out.set("mask_size", size);
      out.set("num_patches", count);
      f.emit(std::move(out));
    }
  }

 private:
  struct Places {
    at::Tensor locations, mask_locations;  // [n, 2]
  };

  // The extents of a patch in pixels of level 0.
  std::array<double, 2> patch_size(const Slide& slide) const {
    const double times = slide.level(level_of(slide, p)).downsample;
    return {static_cast<double>(p.size.front()) * times,
            static_cast<double>(p.size.back()) * times};
  }

  // MONAI's iter_patch_position without padding; numpy and Python round half to even.
  Places of_grid(const Slide& slide) const {
    const auto size = patch_size(slide);
    const std::array<std::int64_t, 2> extents{slide.levels()[0].rows, slide.levels()[0].columns};
    std::array<std::vector<std::int64_t>, 2> at;
    for (std::size_t d = 0; d < 2; ++d) {
      const double patch = std::min(size[d], static_cast<double>(extents[d]));
      const std::int64_t end = extents[d] - std::llrint(patch) + 1;
      const std::int64_t step = std::llrint(patch * (1 - per_key(p.overlap, d)));
      if (step < 1) throw Error(Exit::usage, "overlap leaves no step between patches");
      for (std::int64_t x = per_key(p.offset, d); x < end; x += step) at[d].push_back(x);
    }
    const double ratio = slide.level(p.mask_level).downsample;
    const std::array<std::int64_t, 2> map{slide.level(p.mask_level).rows,
                                          slide.level(p.mask_level).columns};
    std::vector<std::int64_t> places, masks;
    for (const std::int64_t y : at[0])
      for (const std::int64_t x : at[1]) {
        places.insert(places.end(), {y, x});
        const std::array<std::int64_t, 2> corner{y, x};
        for (std::size_t d = 0; d < 2; ++d)  // the middle of a small patch may round to the edge
          masks.push_back(std::min<std::int64_t>(
              std::llrint((static_cast<double>(corner[d]) + std::floor(size[d] / 2)) / ratio),
              map[d] - 1));
      }
    return {at::tensor(places, at::kLong).view({-1, 2}),
            at::tensor(masks, at::kLong).view({-1, 2})};
  }

  Places of_mask(const Slide& slide, const at::Tensor& mask) const {
    const auto size = patch_size(slide);
    const double ratio = slide.level(p.mask_level).downsample;
    const at::Tensor masks = mask.nonzero();
    const at::Tensor middle = (masks.to(at::kDouble) + 0.5) * ratio;
    const at::Tensor half =
        at::tensor({std::floor(size[0] / 2), std::floor(size[1] / 2)}, at::kDouble);
    return {(middle - half).round().to(at::kLong), masks};
  }

  at::Tensor tissue(const Sample& in, const Slide& slide) {
    const SlideLevel& level = slide.level(p.mask_level);
    if (level.rows > most_of_a_mask / level.columns)
      throw DataError(slide.path() + ": level " + std::to_string(p.mask_level) + " has " +
                      std::to_string(level.rows) + " x " + std::to_string(level.columns) +
                      " pixels, too many for a mask; take a higher mask_level");
    if (p.mask == "file") return of_file(slide_path(in, p.mask_key), level);
    const auto picture =
        reader_->open(slide.path())->read(p.mask_level, 0, 0, level.rows, level.columns, 0);
    std::array<TissueThreshold, 6> thresholds;  // red, green, blue, hue, saturation, value
    for (const std::size_t c : {0, 1, 2, 4}) thresholds[c].otsu = true;
    return foreground_mask(channels_first(picture, 3, slide), thresholds, false)[0];
  }

  // The level of the mask's slide that has the size.
  at::Tensor of_file(const std::string& path, const SlideLevel& like) {
    const auto mask = reader_->open(path);
    for (std::int64_t l = 0; l < std::ssize(mask->levels()); ++l) {
      const SlideLevel& level = mask->level(l);
      if (level.rows == like.rows && level.columns == like.columns)
        return channels_first(mask->read(l, 0, 0, level.rows, level.columns, 0), 1, *mask)[0].ne(0);
    }
    throw DataError(path + ": has no level of " + std::to_string(like.rows) + " x " +
                    std::to_string(like.columns) + " pixels, as the slide's level " +
                    std::to_string(p.mask_level) + " has");
  }

  std::unique_ptr<SlideReader> reader_;
};

const Register<SlideGrid> registered;

}  // namespace
}  // namespace sluice
