// save_class_scores: a JSON file for each image with its classes and their scores, as the bundle
// pathology_nuclei_classification of MONAI's Model Zoo writes them.
#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "kernels/lists/data_list.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SaveClassScores final : FileWriter {
  struct Params {
    std::string key = "pred", output_dir = "./", output_postfix = "trans";
    std::vector<std::string> labels;
    bool separate_folder = true;
  } p;
  fs::path folder;

  static Spec spec() {
    return Spec("save_class_scores",
                "Writes a JSON file for each image, named after its file: a list of {\"idx\", "
                "\"label\", \"score\"}.")
        .in("sample", "One image's scores, [C], or a batch of one, [1, C].")
        .param("key", &Params::key, "The field with the scores.")
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("output_postfix", &Params::output_postfix,
               "Put behind the file's name and an underscore; empty: the name alone.")
        .param("labels", &Params::labels,
               "Names of the classes; those beyond are left out. Empty: label_0, label_1, ...")
        .param("separate_folder", &Params::separate_folder, "A folder for each image.")
        .lane(LaneKind::io)
        .takes("@key", Form::any, 0);
  }

  void open(const OpenContext& context) override {
    folder = context.out_dir / p.output_dir;
    written_.open(context, folder);
  }

  void process(Firing& f) override {
    const Field& field = f.in().at(p.key);
    if (field.meta.size() != 1)
      throw DataError("field \"" + p.key + "\" is a batch of " + std::to_string(field.meta.size()) +
                      " images; batches of one are written");
    const at::Tensor scores =
        field.tensor.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
    Json all = Json::array();
    for (std::int64_t i = 0; i < scores.numel(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      if (!p.labels.empty() && k >= p.labels.size()) break;
      all.push_back({{"idx", i},
                     {"label", p.labels.empty() ? "label_" + std::to_string(i) : p.labels[k]},
                     {"score", scores.const_data_ptr<double>()[i]}});
    }
    const std::string& file = field.geometry().path;
    const std::string name = must_name_a_file(file.empty() ? f.in().name : file_stem(file));
    const fs::path path =
        (p.separate_folder ? folder / name : folder) /
        (name + (p.output_postfix.empty() ? "" : "_" + p.output_postfix) + ".json");
    written_.claim(path, f.stamp(), f.in().name, file);
    const std::string text = all.dump();
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
  }
};

const Register<SaveClassScores> registered;

}  // namespace
}  // namespace sluice
