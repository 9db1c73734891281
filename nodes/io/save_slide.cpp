// save_slide: a picture as a pyramidal, tiled TIFF, which read_region, OpenSlide and viewers read.
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/slide.h"
#include "nodes/fields.h"
#include "nodes/slide_params.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SaveSlide final : FileWriter {
  struct Params {
    std::string key = "image", output_dir = "./", output_postfix;
    std::int64_t tile = 256, levels = 0, quality = 90;
    std::string compression = "jpeg", mode = "mean";
    double scale = 1;
    std::optional<double> mpp;
  } p;
  fs::path folder;

  static Spec spec() {
    Spec s("save_slide",
           "Writes a picture as a tiled TIFF file of several levels, each half of the one "
           "before it.");
    s.in("sample")
        .out("sample", "the same, with the file's path")
        .param("key", &Params::key, "[1 or 3, rows, columns], 0..255 after `scale`.")
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("output_postfix", &Params::output_postfix,
               "Put behind the sample's name and an underscore; empty: the name alone.")
        .param("scale", &Params::scale,
               "Values are multiplied by it, and rounded half to even: 255 of probabilities.")
        .above(0);
    return add_pyramid_params<Params>(s)
        .param("compression", &Params::compression, "jpeg loses a little; masks want deflate.")
        .choices(slide_compressions)
        .param("quality", &Params::quality, "Of jpeg.")
        .range(1, 100)
        .param("mode", &Params::mode,
               "What a pixel of the next level is: the mean of four, rounded half to even, or "
               "nearest, the first of them (labels).")
        .choices({"mean", "nearest"})
        .param("mpp", &Params::mpp, "Micrometres a pixel, for readers; null: not said.")
        .above(0)
        .lane(LaneKind::io)
        .takes("@key", Form::image, 2, 2);
  }

  void open(const OpenContext& context) override {
    if (p.tile % 16 != 0) throw Error(Exit::usage, context.node + ": tile is a multiple of 16");
    folder = context.out_dir / p.output_dir;
    written_.open(context, folder);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& field = out.at(p.key);
    const at::Tensor& image = field.tensor;
    require_spatial(image, p.key, 2, 2);
    must_name_a_file(out.name);
    at::Tensor pixels = image;
    if (p.scale != 1 || image.scalar_type() != at::kByte) {
      pixels = (image.to(at::kDouble) * p.scale).round();
      if (!pixels.ge(0).logical_and(pixels.le(255)).all().item<bool>())
        throw DataError("field \"" + p.key + "\" has values outside of 0..255 after scale");
    }
    pixels = pixels.to(at::kByte).permute({1, 2, 0}).contiguous();
    const fs::path path =
        folder / (out.name + (p.output_postfix.empty() ? "" : "_" + p.output_postfix) + ".tif");
    written_.claim(path, f.stamp(), out.name, field.geometry().path);
    const std::int64_t row = pixels.size(1) * pixels.size(2);
    write_slide(path, pixels.size(0), pixels.size(1), pixels.size(2),
                {.tile = p.tile,
                 .levels = p.levels,
                 .compression = p.compression,
                 .quality = p.quality,
                 .nearest = p.mode == "nearest",
                 .mpp = p.mpp},
                [&](std::int64_t top, std::int64_t rows, std::uint8_t* to) {
                  std::copy_n(pixels.const_data_ptr<std::uint8_t>() + top * row, rows * row, to);
                });
    auto meta = std::make_shared<Meta>(field.geometry());
    meta->path = path.string();
    out.set(p.key, Field(image, std::move(meta)));
    f.emit(std::move(out));
  }
};

const Register<SaveSlide> registered;

}  // namespace
}  // namespace sluice
