// Files in and out.
#include <filesystem>

#include "engine/base/error.h"
#include "kernels/image/affine.h"
#include "tools/edge/node.h"

namespace sluice::edge {
namespace {

namespace fs = std::filesystem;

struct FileList final : Node {
  struct Params {
    std::string root, pattern, key = "image";
  } p;
  static Spec spec() {
    return Spec("file_list", "The files of a folder.")
        .out("sample")
        .param("root", &Params::root, "Folder of the files.")
        .param("pattern", &Params::pattern, "Glob for file names in root.")
        .required()
        .param("key", &Params::key, "The field that the files become.")
        .source();
  }
  DataList list() const override {
    return list_of_files(p.root.empty() ? "." : p.root, p.pattern, p.key);
  }
};

struct FilePatterns final : Node {
  struct Params {
    std::string root;
    Json patterns;
  } p;
  static Spec spec() {
    return Spec("file_patterns", "Files that belong together by their names.")
        .out("sample")
        .param("root", &Params::root, "Folder that the patterns are relative to.")
        .required()
        .param("patterns", &Params::patterns, "A pattern a field.")
        .required()
        .source();
  }
  DataList list() const override { return list_of_patterns(p.root, p.patterns); }
};

struct LoadImage final : Node {
  struct Params {
    std::vector<std::string> keys{"image"}, dtype{"float32"};
    bool check_geometry = true, check_finite = true;
  } p;
  static Spec spec() {
    return Spec("load_image", "Reads NIfTI files.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to load.")
        .required()
        .param("dtype", &Params::dtype, "What the voxels become.")
        .choices({"float32"})
        .param("check_geometry", &Params::check_geometry, "Refuses keys that do not lie together.")
        .param("check_finite", &Params::check_finite, "Refuses NaN and infinite voxels.");
  }
  void run(Case& c) const override {
    for (const std::string& key : p.keys) {
      const auto file = c.files.find(key);
      if (file == c.files.end()) throw DataError(c.name + ": has no file for \"" + key + "\"");
      Image image = load(file->second, p.check_finite);
      if (p.check_geometry && key != p.keys[0]) check(c, image, key);
      c.images.insert_or_assign(key, std::move(image));
    }
  }
  void check(Case& c, const Image& other, const std::string& key) const {
    const Image& first = c.image(p.keys[0]);
    bool same = first.shape() == other.shape();
    for (std::size_t i = 0; i < 16; ++i)
      same = same && std::abs(first.affine[i] - other.affine[i]) <= 1e-3;
    if (!same)
      throw DataError("shapes or affines differ: " + c.files.at(p.keys[0]) + " and " +
                      c.files.at(key));
  }
};

struct SaveImage final : Node {
  struct Params {
    std::vector<std::string> keys{"image"}, output_postfix{"trans"};
    std::string output_dir = "./", output_ext = ".nii.gz", output_dtype = "float32";
    bool separate_folder = true;
    std::int64_t gzip_level = 1;
  } p;
  fs::path folder;
  static Spec spec() {
    return Spec("save_image", "Writes fields as NIfTI files, name/name_postfix.nii.gz.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to write.")
        .param("output_dir", &Params::output_dir, "Folder, under that of --out.")
        .param("output_postfix", &Params::output_postfix, "Put behind the name.")
        .per("keys")
        .param("output_ext", &Params::output_ext, "Extension.")
        .choices({".nii.gz", ".nii"})
        .param("output_dtype", &Params::output_dtype, "Datatype on disk.")
        .choices({"float32", "float64", "uint8", "int8", "uint16", "int16", "uint32", "int32"})
        .param("separate_folder", &Params::separate_folder, "A folder for each sample.")
        .param("gzip_level", &Params::gzip_level, "1 is fastest, 12 is smallest.")
        .range(0, 12);
  }
  void open(const Setting& s) override { folder = s.out / p.output_dir; }
  void run(Case& c) const override {
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      const std::string& postfix = each(p.output_postfix, i);
      const fs::path file = (p.separate_folder ? folder / c.name : folder) /
                            (c.name + (postfix.empty() ? "" : "_" + postfix) + p.output_ext);
      save(file, c.image(p.keys[i]), stored_type(p.output_dtype), static_cast<int>(p.gzip_level));
      c.written.push_back(file.string());
    }
  }
};

}  // namespace

std::vector<NodeType> file_nodes() {
  return {type_of<FileList>(), type_of<FilePatterns>(), type_of<LoadImage>(), type_of<SaveImage>()};
}

}  // namespace sluice::edge
