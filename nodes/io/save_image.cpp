// save_image: MONAI's SaveImaged. Files carry the field's current affine; bring a prediction back
// to its image's grid (invert) before it where that is wanted.
#include <set>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/nifti.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct SaveImage final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::string output_dir = "./";
    std::vector<std::string> output_postfix{"trans"};
    std::string output_ext = ".nii.gz";
    std::string output_dtype = "float32";
    bool separate_folder = true;
    std::int64_t gzip_level = 1;
  } p;
  fs::path folder;

  static Spec spec() {
    return Spec("save_image", "Writes fields as NIfTI files: name/name_postfix.nii.gz.")
        .in("sample", "[C, X, Y, Z] or [C, X, Y].")
        .out("sample", "The same; the written fields' paths are the new files.")
        .param("keys", &Params::keys, "Fields to write.")
        .param("output_dir", &Params::output_dir,
               "Folder; a relative one stands under the run's folder where there is one.")
        .param("output_postfix", &Params::output_postfix,
               "Put behind the sample's name and an underscore; empty: the name alone. One for "
               "all keys or one for each.")
        .per("keys")
        .param("output_ext", &Params::output_ext, "Extension.")
        .choices({".nii.gz", ".nii"})
        .param("output_dtype", &Params::output_dtype,
               "Datatype on disk. Integers are reached by truncation; a value out of range is "
               "refused.")
        .choices({"float32", "float64", "uint8", "int8", "uint16", "int16", "uint32", "int32",
                  "uint64", "int64"})
        .param("separate_folder", &Params::separate_folder, "A folder for each sample.")
        .param("gzip_level", &Params::gzip_level, "1 is fastest, 12 is smallest.")
        .range(0, 12)
        .lane(LaneKind::io)
        .takes("@keys", Form::image, 2, 3);
  }

  void open(const OpenContext& context) override {
    folder = context.out_dir / p.output_dir;  // an absolute output_dir replaces out_dir
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
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const std::string& name = out.name;
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
      throw DataError("\"" + name + "\" cannot be the name of a file");
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      Field field = out.at(p.keys[i]);
      if (field.meta.size() != 1)
        throw DataError("field \"" + p.keys[i] + "\" is a batch; decollate it before saving");
      const std::string& postfix = p.output_postfix[p.output_postfix.size() == 1 ? 0 : i];
      const fs::path path = (p.separate_folder ? folder / name : folder) /
                            (name + (postfix.empty() ? "" : "_" + postfix) + p.output_ext);
      at::Tensor data = field.tensor;
      if (data.dim() == 3) data = data.unsqueeze(-1);  // [C, X, Y]: a volume of one slice
      write_nifti(path, data, field.geometry().affine, p.output_dtype,
                  static_cast<int>(p.gzip_level));
      auto meta = std::make_shared<Meta>(field.geometry());
      meta->path = path.string();
      out.set(p.keys[i], Field(field.tensor, std::move(meta)));
    }
    f.emit(std::move(out));
  }
};

const Register<SaveImage> registered;

}  // namespace
}  // namespace sluice
