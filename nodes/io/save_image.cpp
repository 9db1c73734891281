// save_image: MONAI's SaveImaged. Files carry the field's current affine; bring a prediction back
// to its image's grid (invert) before it where that is wanted.
#include <ATen/Functions.h>

#include <set>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "kernels/files/meta_image.h"
#include "kernels/files/nifti.h"
#include "kernels/files/npy.h"
#include "kernels/files/png.h"
#include "kernels/lists/data_list.h"
#include "nodes/fields.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SaveImage final : FileWriter {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::string output_dir = "./";
    std::vector<std::string> output_postfix{"trans"};
    std::string output_ext = ".nii.gz";
    std::string output_dtype = "float32";
    bool separate_folder = true;
    std::string name_by = "sample", data_root_dir;
    std::optional<std::int64_t> scale;
    std::vector<std::string> displacements;
    std::int64_t gzip_level = 1;
  } p;
  fs::path folder;

  static Spec spec() {
    return Spec("save_image",
                "Writes fields as NIfTI files, name/name_postfix.nii.gz, MetaImage or pictures.")
        .in("sample", "[C, X, Y, Z] or [C, X, Y]; of .npy [C, X] too.")
        .out("sample", "The same; the written fields' paths are the new files.")
        .param("keys", &Params::keys, "Fields to write.")
        .param("output_dir", &Params::output_dir, output_dir_doc)
        .param("output_postfix", &Params::output_postfix,
               "Put behind the sample's name and an underscore; empty: the name alone. One for "
               "all keys or one for each.")
        .per("keys")
        .param(
            "output_ext", &Params::output_ext,
            "Extension. A .mha is compressed unless gzip_level is 0. A .png is a picture [C, X, Y] "
            "of one or three channels, X across, with 8 bits, whatever output_dtype says; a .npy "
            "is the field's array as it is. NIfTI's qform and sform have code 1, as MONAI's.")
        .choices({".nii.gz", ".nii", ".mha", ".png", ".npy"})
        .param("output_dtype", &Params::output_dtype,
               "Datatype on disk. Integers are reached by truncation; a value out of range is "
               "refused.")
        .choices({"float32", "float64", "uint8", "int8", "uint16", "int16", "uint32", "int32",
                  "uint64", "int64"})
        .param("separate_folder", &Params::separate_folder, "A folder for each sample.")
        .param("name_by", &Params::name_by,
               "What a file is named after: the sample, or the file that the field came from, as "
               "MONAI's.")
        .choices({"sample", "file"})
        .param("data_root_dir", &Params::data_root_dir,
               "name_by file: the folders between this one and the field's file are kept.")
        .param("scale", &Params::scale,
               ".png: values are cut to 0..1 and multiplied by this, 255; null: as they are.")
        .range(1, 255)
        .param("displacements", &Params::displacements,
               "The keys are displacements in voxels, [3, X, Y, Z]: fields on the grid that they "
               "start from and on the one that they lead into, such as fixed_image and "
               "moving_image. Written in millimetres as ITK, ANTs and Slicer read them, float32.")
        .length(0, 2)
        .param("gzip_level", &Params::gzip_level, "1 is fastest, 12 is smallest.")
        .range(0, 12)
        .lane(LaneKind::io)
        .takes("@keys", Form::image, 2, 3)
        .unless("output_ext", ".npy")
        .takes("@keys", Form::image, 1, 3)
        .when("output_ext", ".npy")
        .takes("@displacements", Form::image, 2, 3);
  }

  void open(const OpenContext& context) override {
    folder = context.out_dir / p.output_dir;  // an absolute output_dir replaces out_dir
    written_.open(context, folder);
    const auto& postfixes = p.output_postfix;
    const std::set<std::string> distinct(postfixes.begin(), postfixes.end());
    if (postfixes.size() != p.keys.size() && postfixes.size() != 1)
      throw Error(Exit::usage, context.node + ": output_postfix has " +
                                   std::to_string(postfixes.size()) + " entries for " +
                                   std::to_string(p.keys.size()) + " keys");
    if (distinct.size() != p.keys.size())
      throw Error(Exit::usage, context.node +
                                   ": several keys would be written to one file; give "
                                   "each an output_postfix of its own");
    if (p.displacements.size() == 1 ||
        (!p.displacements.empty() && !p.output_ext.starts_with(".nii")))
      throw Error(Exit::usage, context.node + ": displacements names two fields, of NIfTI files");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      Field field = out.at(p.keys[i]);
      if (field.meta.size() != 1)
        throw DataError("field \"" + p.keys[i] + "\" is a batch; decollate it before saving");
      const auto [into, name] = place_of(out.name, field);
      const std::string hint =
          "; name_by \"file\" with data_root_dir keeps the folders of their files";
      must_name_a_file(name, hint);
      const std::string& postfix = p.output_postfix[p.output_postfix.size() == 1 ? 0 : i];
      const fs::path path = (p.separate_folder ? into / name : into) /
                            (name + (postfix.empty() ? "" : "_" + postfix) + p.output_ext);
      written_.claim(path, f.stamp(), out.name, field.geometry().path, hint);
      at::Tensor data = field.tensor;
      if (p.output_ext == ".png") {
        write_picture(path, data, p.keys[i]);
      } else if (p.output_ext == ".npy") {
        write_npy(path, data);
      } else if (!p.displacements.empty()) {
        const auto affine = [&](std::size_t k) {
          return f.in().at(p.displacements[k]).geometry().affine;
        };
        write_displacements(path, data, affine(0), affine(1), static_cast<int>(p.gzip_level));
      } else {
        if (data.dim() == 3) data = data.unsqueeze(-1);  // [C, X, Y]: a volume of one slice
        const auto write = p.output_ext == ".mha" ? write_meta_image : write_nifti;
        write(path, data, field.geometry().affine, p.output_dtype, static_cast<int>(p.gzip_level));
      }
      auto meta = std::make_shared<Meta>(field.geometry());
      meta->path = path.string();
      out.set(p.keys[i], Field(field.tensor, std::move(meta)));
    }
    f.emit(std::move(out));
  }

 private:
  // The folder of a field's file, and its name.
  std::pair<fs::path, std::string> place_of(const std::string& sample, const Field& field) const {
    const fs::path file = field.geometry().path;
    if (p.name_by == "sample" || file.empty()) return {folder, sample};
    if (p.data_root_dir.empty()) return {folder, file_stem(file)};
    const auto below = path_within(fs::absolute(file).parent_path(), p.data_root_dir);
    if (!below)
      throw DataError(file.string() + " does not lie under data_root_dir, " + p.data_root_dir);
    return {(folder / *below).lexically_normal(), file_stem(file)};
  }

  void write_picture(const fs::path& path, at::Tensor data, const std::string& key) const {
    if (data.dim() == 4 && data.size(3) == 1) data = data.squeeze(3);
    if (data.dim() != 3 || (data.size(0) != 1 && data.size(0) != 3))
      throw DataError("field \"" + key + "\" is " + list_text(data.sizes()) +
                      "; a picture is [1, X, Y] or [3, X, Y]");
    if (data.numel() == 0)
      throw DataError("field \"" + key + "\" is empty, " + list_text(data.sizes()) +
                      ": a picture has at least one pixel");
    if (p.scale) data = data.to(at::kFloat).clamp(0, 1).mul(static_cast<double>(*p.scale));
    // A minimum and a maximum of NaN are none.
    if (!(data.min().item<double>() >= 0 && data.max().item<double>() < 256))
      throw DataError("field \"" + key +
                      "\" has values outside of 0..255; say \"scale\": 255 of "
                      "what is in 0..1");
    const at::Tensor rows = data.to(at::kByte).permute({2, 1, 0}).contiguous();
    const std::string bytes =
        encode_png(rows.const_data_ptr<std::uint8_t>(), static_cast<int>(rows.size(1)),
                   static_cast<int>(rows.size(0)), static_cast<int>(rows.size(2)));
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}});
  }
};

const Register<SaveImage> registered;

}  // namespace
}  // namespace sluice
