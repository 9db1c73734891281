// save_detections: the points that prob_nms found, a line each in one CSV file.
#include <ATen/Functions.h>

#include <charconv>

#include "engine/base/csv.h"
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "nodes/fields.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

struct SaveDetections final : Node {
  struct Params {
    std::string key = "probs", coords_key = "coords", output_dir = "./",
                filename = "detections.csv";
  } p;
  std::filesystem::path path;
  std::string lines;
  std::shared_ptr<const void> shared;

  static Spec spec() {
    return Spec("save_detections",
                "Writes a CSV file at every epoch's end: image, probability and place of each "
                "detection, the axes as the place has them.")
        .in("sample")
        .param("key", &Params::key, "Probabilities, [points].")
        .param("coords_key", &Params::coords_key, "Places, [points, axes].")
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("filename", &Params::filename, "The file in it.")
        .writes({"output_dir", "filename"})
        .lane(LaneKind::io)
        .ordered()
        .takes("@key", Form::any, 0)
        .takes("@coords_key", Form::any, 0);
  }

  void open(const OpenContext& context) override {
    path = context.out_dir / p.output_dir / p.filename;
    shared = share_file(context, path);
  }

  void process(Firing& f) override {
    const at::Tensor probs = f.in().tensor(p.key).to(at::kCPU, at::kDouble).contiguous(),
                     coords = f.in().tensor(p.coords_key).to(at::kCPU, at::kLong).contiguous();
    if (probs.dim() != 1 || coords.dim() != 2 || coords.size(0) != probs.size(0))
      throw DataError("fields \"" + p.key + "\" " + list_text(probs.sizes()) + " and \"" +
                      p.coords_key + "\" " + list_text(coords.sizes()) +
                      " are no points with a probability each");
    for (std::int64_t i = 0; i < probs.numel(); ++i) {
      char digits[40];
      lines += csv_field(f.in().name) + ",";
      lines.append(
          digits,
          std::to_chars(digits, digits + sizeof digits, probs.const_data_ptr<double>()[i]).ptr);
      for (std::int64_t d = 0; d < coords.size(1); ++d)
        lines +=
            "," + std::to_string(coords.const_data_ptr<std::int64_t>()[i * coords.size(1) + d]);
      lines += "\n";
    }
  }

  void flush(Flush&) override {
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(lines.data()), lines.size()}});
    lines.clear();
  }

  void save(State& state) const override { state.values["lines"] = lines; }
  void load(const State& state) override { lines = state.values.at("lines"); }
};

const Register<SaveDetections> registered;

}  // namespace
}  // namespace sluice
