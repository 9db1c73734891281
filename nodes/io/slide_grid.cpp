// slide_grid: every place of a slide; the lists of MONAI's SlidingPatchWSIDataset and
// MaskedPatchWSIDataset.
//
// Its samples hold places and no pixels, and are made as the next gate takes them: a `batch` or a
// `buffer` behind read_region, of which so many regions are read ahead.
#include <ATen/Functions.h>

#include <cmath>
#include <functional>

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
        .ordered()  // slide after slide, whose places are read side by side
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
    Places places = p.mask == "none" ? of_grid(*slide) : of_mask(*slide, tissue(in, *slide));
    const auto n = places.count;
    if (n == 0) return f.skip("no place for a patch");
    Sample each = in;
    const auto meta = with_path({}, slide->path()).meta;
    each.set("mask_size", Field(pair({mask_level.rows, mask_level.columns}), meta));
    each.set("num_patches",
             Field(at::scalar_tensor(static_cast<std::int64_t>(n), at::kLong), meta));
    f.emit_each(n, [each = std::move(each), meta, place = std::move(places.place)](std::size_t i) {
      const Place at = place(i);
      Sample out = each;
      out.name += "_" + std::to_string(at.location[0]) + "_" + std::to_string(at.location[1]);
      out.set("location", Field(pair(at.location), meta));
      out.set("mask_location", Field(pair(at.on_mask), meta));
      return std::make_shared<const Sample>(std::move(out));
    });
  }

 private:
  using Pair = std::array<std::int64_t, 2>;  // row and column
  struct Place {
    Pair location{}, on_mask{};
  };
  struct Places {  // asked for one after the other: no list of them is made
    std::size_t count = 0;
    std::function<Place(std::size_t)> place;
  };

  static at::Tensor pair(const Pair& of) { return at::tensor(at::IntArrayRef(of), at::kLong); }

  // The extents of a patch in pixels of level 0.
  std::array<double, 2> patch_size(const Slide& slide) const {
    const double times = slide.level(level_of(slide, p)).downsample;
    return {static_cast<double>(p.size.front()) * times,
            static_cast<double>(p.size.back()) * times};
  }

  // MONAI's iter_patch_position without padding; numpy and Python round half to even.
  Places of_grid(const Slide& slide) const {
    const auto size = patch_size(slide);
    const Pair extents{slide.levels()[0].rows, slide.levels()[0].columns};
    Pair first, step, n;
    for (std::size_t d = 0; d < 2; ++d) {
      const double patch = std::min(size[d], static_cast<double>(extents[d]));
      first[d] = per_key(p.offset, d);
      step[d] = std::llrint(patch * (1 - per_key(p.overlap, d)));
      if (step[d] < 1) throw Error(Exit::usage, "overlap leaves no step between patches");
      const std::int64_t end = extents[d] - std::llrint(patch) + 1;
      n[d] = std::max<std::int64_t>(0, (end - first[d] + step[d] - 1) / step[d]);
    }
    const double ratio = slide.level(p.mask_level).downsample;
    const Pair map{slide.level(p.mask_level).rows, slide.level(p.mask_level).columns};
    return {static_cast<std::size_t>(n[0] * n[1]), [=](std::size_t i) {
              const auto at = static_cast<std::int64_t>(i);
              Place place{{first[0] + at / n[1] * step[0], first[1] + at % n[1] * step[1]}, {}};
              for (std::size_t d = 0; d < 2; ++d) {  // a small patch's middle may round to the edge
                const double middle =
                    static_cast<double>(place.location[d]) + std::floor(size[d] / 2);
                place.on_mask[d] = std::min<std::int64_t>(std::llrint(middle / ratio), map[d] - 1);
              }
              return place;
            }};
  }

  // `mask` [rows, columns], bool.
  Places of_mask(const Slide& slide, at::Tensor mask) const {
    const auto size = patch_size(slide);
    const double ratio = slide.level(p.mask_level).downsample;
    mask = mask.to(at::kBool).contiguous();
    const auto count = static_cast<std::size_t>(mask.sum().item<std::int64_t>());
    return {count, [=, next = std::int64_t{0}](std::size_t) mutable {
              const bool* pixel = mask.const_data_ptr<bool>();
              while (!pixel[next]) ++next;
              Place place{{}, {next / mask.size(1), next % mask.size(1)}};
              ++next;
              for (std::size_t d = 0; d < 2; ++d)
                place.location[d] =
                    std::llrint((static_cast<double>(place.on_mask[d]) + 0.5) * ratio -
                                std::floor(size[d] / 2));
              return place;
            }};
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
