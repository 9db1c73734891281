// save_boxes: what a detector found, a JSON file of all images, as the bundle
// lung_nodule_ct_detection of MONAI's Model Zoo writes it.
#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "nodes/fields.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

struct SaveBoxes final : Node {
  struct Params {
    std::vector<std::string> keys{"pred_box", "pred_label", "pred_score"};
    std::string image_key = "image", output_dir = "./", filename = "predictions.json";
  } p;
  std::filesystem::path path;
  Json entries = Json::array();
  std::shared_ptr<const void> shared;

  static Spec spec() {
    return Spec(
               "save_boxes",
               "Writes a JSON file at every epoch's end: for each image the rows of the fields, by "
               "their names, and under \"image\" its file.")
        .in("sample", "One image's boxes: no batch.")
        .param("keys", &Params::keys,
               "The boxes, [N, ...], and fields with a row for each, such as classes and scores; "
               "boxes of -1 are none.")
        .length(1)
        .param("image_key", &Params::image_key, "The image that they were found in.")
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("filename", &Params::filename, "The file in it.")
        .writes({"output_dir", "filename"})
        .lane(LaneKind::io)
        .ordered()
        .takes("@keys", Form::any, 0)
        .takes("@image_key", Form::any);
  }

  void open(const OpenContext& context) override {
    path = context.out_dir / p.output_dir / p.filename;
    shared = share_file(context, path);
  }

  void process(Firing& f) override {
    const std::string& file = f.in().at(p.image_key).geometry().path;
    Json entry = {{"image", file.empty() ? f.in().name : file}};
    at::Tensor keep;
    for (const std::string& key : p.keys) {
      const at::Tensor rows = f.in().tensor(key).detach().to(at::kCPU);
      if (rows.dim() < 1 || rows.dim() > 2)
        throw shape_error(key, rows, "; needed are [N] or [N, K]");
      if (!keep.defined()) keep = rows.dim() == 1 ? rows.ne(-1) : rows.ne(-1).any(1);
      if (rows.size(0) != keep.size(0))
        throw shape_error(key, rows, " for " + std::to_string(keep.size(0)) + " boxes");
      entry[key] = list_of(rows.index({keep}));
    }
    entries.push_back(std::move(entry));
  }

  void flush(Flush&) override {
    const std::string text = entries.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
    entries = Json::array();
  }

  void save(State& state) const override { state.values["entries"] = entries; }
  void load(const State& state) override { entries = state.values.at("entries"); }

 private:
  static Json list_of(const at::Tensor& t) {
    if (t.dim() == 0)
      return t.is_floating_point() ? Json(t.item<double>()) : Json(t.item<std::int64_t>());
    Json all = Json::array();
    for (std::int64_t i = 0; i < t.size(0); ++i) all.push_back(list_of(t[i]));
    return all;
  }
};

const Register<SaveBoxes> registered;

}  // namespace
}  // namespace sluice
