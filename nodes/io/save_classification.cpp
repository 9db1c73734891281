// save_classification: a CSV file with a line for each image and its values; MONAI's
// SaveClassificationd and ClassificationSaver.
#include <ATen/Functions.h>

#include <charconv>

#include "engine/base/csv.h"
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SaveClassification final : Node {
  struct Params {
    std::string key = "pred", output_dir = "./", filename = "predictions.csv", delimiter = ",";
    bool overwrite = true;
  } p;
  fs::path path;
  std::string lines;
  std::shared_ptr<const void> shared;

  static Spec spec() {
    return Spec("save_classification",
                "Writes a CSV file at every epoch's end: each image's path, then its values.")
        .in("sample", "One image's values, [C], or a batch of one, [1, C].")
        .param("key", &Params::key, "The field with the values.")
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("filename", &Params::filename, "The file in it. It has no line of names.")
        .param("delimiter", &Params::delimiter, "Between two values.")
        .param("overwrite", &Params::overwrite, "false: adds to a file that is there.")
        .writes({"output_dir", "filename"})
        .lane(LaneKind::io)
        .ordered()
        .takes("@key", Form::any, 0);
  }

  void open(const OpenContext& context) override {
    path = context.out_dir / p.output_dir / p.filename;
    shared = share_file(context, path);
  }

  void process(Firing& f) override {
    const Field& field = f.in().at(p.key);
    if (field.meta.size() != 1)
      throw DataError("field \"" + p.key + "\" is a batch of " + std::to_string(field.meta.size()) +
                      " images; batches of one are written");
    const at::Tensor values =
        field.tensor.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
    const std::string& file = field.geometry().path;
    lines += csv_field(file.empty() ? f.in().name : file, p.delimiter);
    for (std::int64_t i = 0; i < values.numel(); ++i)
      lines += p.delimiter + number(values.const_data_ptr<double>()[i]);
    lines += "\n";
  }

  void flush(Flush&) override {
    std::string text = lines;
    if (!p.overwrite && fs::exists(path) && !fs::is_empty(path)) {
      const FileBytes old = read_file(path);
      text.insert(0, std::string(reinterpret_cast<const char*>(old.data()), old.size()));
    }
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
    lines.clear();
  }

  void save(State& state) const override { state.values["lines"] = lines; }
  void load(const State& state) override { lines = state.values.at("lines"); }

 private:
  // As Python prints it: 1.0, not 1.
  static std::string number(double value) {
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    std::string text(digits, end);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
  }
};

const Register<SaveClassification> registered;

}  // namespace
}  // namespace sluice
