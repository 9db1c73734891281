// load_image: MONAI's LoadImaged and EnsureChannelFirstd in one, and the checks that keep bad data
// from being trained on.
//
// It runs on the compute lane: reading is a small part of it, decompression and the transposition
// to channel-first order are the rest, and those want a core.
#include <ATen/ops/cat.h>
#include <ATen/ops/floor.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "kernels/files/npy.h"
#include "kernels/files/volume.h"
#include "kernels/files/voxel_check.h"
#include "kernels/lists/manifest.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct LoadImage final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::string> dtype{"float32"};
    bool allow_missing_keys = false;
    bool check_geometry = true;
    bool check_finite = true;
    std::vector<std::string> label_keys{"label"};
    std::optional<std::int64_t> max_label;
    std::string manifest, picture_mode;
    std::optional<std::int64_t> channel_dim;
  } p;
  ReadBytes read = read_plain;

  static Spec spec() {
    return Spec("load_image",
                "Reads each key's file: voxels as [C, X, Y, Z] and an RAS affine. "
                ".nii, .nii.gz, .hdr with .img, .nrrd, .nhdr, .mha, .mhd, DICOM files, and folders "
                "with the files of one series; pictures [C, X, Y]: .png, .jpg, .bmp and .tif; "
                "NumPy's .npy.")
        .in("sample", "Fields with paths.")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to load; files that a source lists as key, key#1, ... "
               "become the channels of one.")
        .param("dtype", &Params::dtype,
               "What the voxels become: one for all keys or one for each. An integer type refuses "
               "values that it cannot hold.")
        .choices({"float32", "float64", "uint8", "int16", "int32", "int64"})
        .per("keys")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .param("check_geometry", &Params::check_geometry,
               "Refuses a sample whose keys differ in spatial shape, or in affine by more than "
               "0.001.")
        .param("check_finite", &Params::check_finite, "Refuses NaN and infinite voxels.")
        .param("label_keys", &Params::label_keys,
               "Which keys max_label holds for, and are the numbers, not the colours, of pictures "
               "with a palette or one bit a pixel.")
        .param("max_label", &Params::max_label,
               "The highest class: label voxels must be whole numbers from 0 to it. null: any.")
        .at_least(0)
        .param("manifest", &Params::manifest,
               "What `sluice data index` wrote: a file that does not hold what it held then, or is "
               "not listed, is refused. Empty: none.")
        .param("picture_mode", &Params::picture_mode,
               "What pictures become, as Pillow's convert(): RGB, three channels, without "
               "transparency; L, the brightness. Empty: the channels that the file has.")
        .choices({"", "RGB", "L"})
        .param("channel_dim", &Params::channel_dim,
               "Of .npy arrays: which axis has the channels and comes first then; null: there is "
               "one channel.")
        .takes("@keys", Form::record)
        .gives("@keys", Form::image)
        .dtype("@dtype");
  }

  void open(const OpenContext& context) override {
    if (p.dtype.size() != 1 && p.dtype.size() != p.keys.size())
      throw Error(Exit::usage, context.node + ": dtype has " + std::to_string(p.dtype.size()) +
                                   " entries for " + std::to_string(p.keys.size()) + " keys");
    if (p.manifest.empty()) return;
    auto manifest = std::make_shared<const Manifest>(Manifest::read(p.manifest));
    read = [manifest](const std::filesystem::path& file) { return manifest->read_listed(file); };
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field* first = nullptr;
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      if (p.allow_missing_keys && !out.has(p.keys[i])) continue;
      Field loaded = load(out.at(p.keys[i]), i);
      join_further(out, i, loaded);
      out.set(p.keys[i], std::move(loaded));
    }
    if (p.check_geometry)
      for (const auto& key : p.keys) {
        const Field* field = out.find(key);
        if (field && first) check_same_geometry(*first, *field);
        if (field && !first) first = field;
      }
    f.emit(std::move(out));
  }

 private:
  Field load(const Field& record, std::size_t i) const {
    const std::string& path = record.geometry().path;
    if (path.empty()) throw DataError("field \"" + p.keys[i] + "\" has no path to load from");
    const Volume v = read_volume(path, scalar_type(p.dtype[p.dtype.size() == 1 ? 0 : i]), read);
    if (p.check_finite && v.may_be_non_finite) check_finite(v.data, path);
    const bool label = std::ranges::find(p.label_keys, p.keys[i]) != p.label_keys.end();
    const bool numbered = label && v.numbers.defined();
    const at::Tensor& voxels = numbered ? v.numbers : v.data;
    if (p.max_label && label) check_labels(voxels, *p.max_label, path);
    auto meta = std::make_shared<Meta>();
    meta->path = path;
    meta->affine = v.affine;
    meta->has_affine = v.has_affine;
    if (p.channel_dim && has_ending(path, ".npy"))
      return Field(channels_first(v.data[0], *p.channel_dim, 0, path), std::move(meta));
    return Field(voxels.dim() == 3 && !numbered ? converted(voxels) : voxels, std::move(meta));
  }

  // Of grey, grey and alpha, colours, or colours and alpha, [C, X, Y].
  at::Tensor converted(const at::Tensor& t) const {
    const bool grey = t.size(0) < 3;
    if (p.picture_mode.empty() || t.size(0) > 4) return t;
    if (p.picture_mode == "RGB")
      return grey ? t.narrow(0, 0, 1).repeat({3, 1, 1}) : t.narrow(0, 0, 3).contiguous();
    if (grey) return t.narrow(0, 0, 1).contiguous();
    const at::Tensor x = t.to(at::kDouble);  // Pillow's weights, in 65536ths
    return at::floor((x[0] * 19595 + x[1] * 38470 + x[2] * 7471 + 32768) / 65536)
        .to(t.scalar_type())
        .unsqueeze(0);
  }

  // Files that a source lists under one key, as key, key#1, ...: the channels one after the other.
  void join_further(Sample& out, std::size_t i, Field& first) const {
    std::vector<at::Tensor> channels{first.tensor};
    for (int n = 1;; ++n) {
      const std::string key = further_key(p.keys[i], n);
      if (!out.has(key)) break;
      const Field more = load(out.at(key), i);
      check_same_geometry(first, more);
      channels.push_back(more.tensor);
      out.erase(key);
    }
    if (channels.size() > 1) first.tensor = at::cat(channels);
  }

  static at::ScalarType scalar_type(const std::string& name) {
    return name == "float32"   ? at::kFloat
           : name == "float64" ? at::kDouble
           : name == "uint8"   ? at::kByte
           : name == "int16"   ? at::kShort
           : name == "int32"   ? at::kInt
                               : at::kLong;
  }

  static void check_same_geometry(const Field& a, const Field& b) {
    const Meta &ma = a.geometry(), &mb = b.geometry();
    const auto sa = a.tensor.sizes().slice(1), sb = b.tensor.sizes().slice(1);
    if (sa != sb)
      throw DataError("shapes differ: " + ma.path + " is " + shape(sa) + ", " + mb.path + " is " +
                      shape(sb));
    if (!ma.has_affine || !mb.has_affine) return;
    for (std::size_t i = 0; i < 16; ++i)
      if (!(std::abs(ma.affine[i] - mb.affine[i]) <= 1e-3))
        throw DataError("affines differ at [" + std::to_string(i / 4) + "][" +
                        std::to_string(i % 4) + "]: " + ma.path + " has " +
                        std::to_string(ma.affine[i]) + ", " + mb.path + " has " +
                        std::to_string(mb.affine[i]));
  }

  static std::string shape(at::IntArrayRef sizes) {
    std::string s;
    for (auto n : sizes) s += (s.empty() ? "" : " x ") + std::to_string(n);
    return s;
  }
};

const Register<LoadImage> registered;

}  // namespace
}  // namespace sluice
