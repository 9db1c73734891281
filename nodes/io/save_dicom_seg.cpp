// save_dicom_seg: labels as a DICOM segmentation object of the series that they were made from.
// sluice_dicom writes it (kernels/files/dicom.h), so the series is read again in a process of its
// own.
#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "engine/base/version.h"
#include "engine/run/registry.h"
#include "kernels/files/dicom.h"
#include "nodes/fields.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SaveDicomSeg final : FileWriter {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::string source = "image";
    Json labels;
    std::string output_dir = "./";
    std::vector<std::string> output_postfix{"seg"};
    std::string algorithm_name = "Sluice", series_description = "Segmentation";
    std::int64_t series_number = 300;
  } p;
  fs::path folder;
  nlohmann::json about;

  static Spec spec() {
    return Spec("save_dicom_seg",
                "Writes labels as DICOM segmentation objects, name_postfix.dcm: a binary segment a "
                "label, frames for the slices that it lies in, which are referred to.")
        .in("sample", "Labels [1, X, Y, Z] on their series' own grid, as invert leaves them.")
        .out("sample", "The same; the written fields' paths are the new files.")
        .param("keys", &Params::keys, "Fields to write: 0 is background, n the n-th of labels.")
        .param("source", &Params::source,
               "The field that was loaded from the series' folder. Its files give patient, study "
               "and frame of reference.")
        .param("labels", &Params::labels,
               "[{\"segment_label\": \"Hippocampus\", \"segmented_property_category\": "
               "[\"91723000\", \"SCT\", \"Anatomical Structure\"], \"segmented_property_type\": "
               "[\"5366008\", \"SCT\", \"Hippocampus\"]}, ...]: a name and two coded terms (value, "
               "scheme, meaning) for each label from 1 on.")
        .required()
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("output_postfix", &Params::output_postfix,
               "Put behind the sample's name and an underscore. One for all keys or one for each.")
        .per("keys")
        .param("algorithm_name", &Params::algorithm_name, "SegmentAlgorithmName of every segment.")
        .param("series_description", &Params::series_description, "SeriesDescription.")
        .param("series_number", &Params::series_number, "SeriesNumber.")
        .at_least(0)
        .lane(LaneKind::io)
        .takes("@keys", Form::image, 3, 3)
        .takes("@source", Form::any, 0);
  }

  void open(const OpenContext& context) override {
    folder = context.out_dir / p.output_dir;
    written_.open(context, folder);
    check_labels(context.node + ".labels");
    if (p.output_postfix.size() != p.keys.size())
      throw Error(Exit::usage, context.node +
                                   ": several keys would be written to one file; give each an "
                                   "output_postfix of its own");
    about = {{"segments", p.labels},
             {"algorithm_name", p.algorithm_name},
             {"series_description", p.series_description},
             {"series_number", p.series_number},
             {"version", version}};
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const fs::path series = out.at(p.source).geometry().path;
    if (!fs::is_directory(series))
      throw DataError("field \"" + p.source + "\" was loaded from \"" + series.string() +
                      "\", which is no folder of a DICOM series");
    must_name_a_file(out.name);
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      const fs::path path = folder / (out.name + "_" + per_key(p.output_postfix, i) + ".dcm");
      const FileBytes file =
          dicom_segmentation(series, labels_of(field, p.keys[i]), field.geometry().affine, about);
      written_.claim(path, f.stamp(), out.name, series.string());
      write_file(path, {file.view()});
      auto meta = std::make_shared<Meta>(field.geometry());
      meta->path = path.string();
      field = Field(field.tensor, std::move(meta));
    });
    f.emit(std::move(out));
  }

 private:
  void check_labels(const std::string& where) const {
    const auto require = [&](bool good, const std::string& at, const char* what) {
      if (!good) throw Error(Exit::usage, where + at + ": " + what);
    };
    require(p.labels.is_array() && !p.labels.empty() && p.labels.size() <= 255, "",
            "is no list of 1 to 255 labels");
    for (std::size_t i = 0; i < p.labels.size(); ++i) {
      const Json& label = p.labels[i];
      const std::string at = "[" + std::to_string(i) + "]";
      require(label.is_object(), at, "is no object");
      const Json name = label.value("segment_label", Json());
      require(name.is_string() && !name.get_ref<const std::string&>().empty() &&
                  name.get_ref<const std::string&>().size() <= 64,
              at + ".segment_label", "is no text of 1 to 64 bytes");
      for (const char* key : {"segmented_property_category", "segmented_property_type"}) {
        const Json code = label.value(key, Json());
        require(code.is_array() && code.size() == 3 &&
                    std::all_of(code.begin(), code.end(),
                                [](const Json& v) {
                                  return v.is_string() && !v.get_ref<const std::string&>().empty();
                                }),
                at + "." + key, "is no coded term [value, scheme, meaning]");
      }
    }
  }

  at::Tensor labels_of(const Field& field, const std::string& key) const {
    require_spatial(field.tensor, key, 3, 3);
    if (field.tensor.size(0) != 1)
      throw DataError("field \"" + key + "\" has " + std::to_string(field.tensor.size(0)) +
                      " channels; labels have one: argmax makes it");
    const at::Tensor bytes = field.tensor.to(at::kByte);
    if (!bytes.eq(field.tensor).all().item<bool>() ||
        bytes.max().item<int>() > static_cast<int>(p.labels.size()))
      throw DataError("field \"" + key + "\" has values that are no whole numbers from 0 to " +
                      std::to_string(p.labels.size()) + ", the number of labels");
    return bytes;
  }
};

const Register<SaveDicomSeg> registered;

}  // namespace
}  // namespace sluice
