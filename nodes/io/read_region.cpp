// read_region: a part of a slide; what MONAI's PatchWSIDataset does with its WSIReader.
//
// It runs on the compute lane, since decoding tiles wants a core. Tiles that were decoded are kept
// within a budget, so neighbours share them, and memory does not depend on the slide's size.
#include "nodes/slide_params.h"

namespace sluice {
namespace {

constexpr std::int64_t most_at_once = std::int64_t{1} << 26;

struct ReadRegion final : Node {
  struct Params : SlideParams {
    std::string key = "image", location_key = "location";
    std::vector<std::int64_t> size;
    bool center = true;
    std::int64_t outside = 0, channels = 3;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("read_region",
           "Reads a region of a slide: tiled TIFF (.tif, .tiff, .btf), or through OpenSlide "
           "(.svs, .ndpi, .mrxs, .scn, ...).");
    s.in("sample", "A field with a slide's path, and a place.")
        .out("sample", "[channels, rows, columns] uint8")
        .param("key", &Params::key, "The slide; it becomes the region.")
        .param("location_key", &Params::location_key,
               "Field with the place, [row, column] in pixels of level 0.")
        .param("size", &Params::size,
               "Rows and columns at the level; one number: both. 0: the whole level, up to 2^26 "
               "pixels, "
               "wherever the place is.")
        .required()
        .range(0, 1 << 15)
        .length(1, 2)
        .param("center", &Params::center,
               "The place is the region's centre: size / 2 before it, rounded down, is its corner. "
               "As in MONAI that is not scaled with the level. false: its first row and column.")
        .param("outside", &Params::outside, "Value of pixels outside of the slide: 0 black, 255.")
        .range(0, 255)
        .param("channels", &Params::channels,
               "3; a grey slide has three equal ones. 1: grey alone.")
        .range(1, 3);
    return add_slide_params<Params>(s)
        .takes("@key", Form::record)
        .takes("@location_key", Form::any, 0)
        .gives("@key", Form::image)
        .channels("@channels")
        .dtype("uint8")
        .resizes("@key", "size");
  }

  void open(const OpenContext& context) override {
    if (p.channels == 2) throw Error(Exit::usage, context.node + ": channels is 1 or 3");
    reader_ = slide_reader(p);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const auto slide = reader_->open(slide_path(out, p.key));
    const at::Tensor place = out.tensor(p.location_key).to(at::kCPU, at::kLong).flatten();
    if (place.numel() != 2)
      throw shape_error(p.location_key, out.tensor(p.location_key),
                        "; needed are a row and a column");
    const std::int64_t number = level_of(*slide, p);
    const SlideLevel& level = slide->level(number);
    const bool whole = p.size.front() == 0 || p.size.back() == 0;
    const std::int64_t rows = whole ? level.rows : p.size.front(),
                       columns = whole ? level.columns : p.size.back();
    if (whole && rows > most_at_once / columns)
      throw DataError(slide->path() + ": level " + std::to_string(number) + " has " +
                      std::to_string(rows) + " x " + std::to_string(columns) +
                      " pixels, too many to read at once");
    const auto at = [&](std::int64_t d, std::int64_t size) {
      return whole ? 0 : place[d].item<std::int64_t>() - (p.center ? size / 2 : 0);
    };
    const at::Tensor region = slide->read(number, at(0, rows), at(1, columns), rows, columns,
                                          static_cast<std::uint8_t>(p.outside));
    out.set(p.key, with_path(channels_first(region, p.channels, *slide), slide->path()));
    f.emit(std::move(out));
  }

 private:
  std::unique_ptr<SlideReader> reader_;
};

const Register<ReadRegion> registered;

}  // namespace
}  // namespace sluice
