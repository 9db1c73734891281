// add_guidance_from_points: a user's clicks, as MONAI's AddGuidanceFromPointsd with its crops and
// resizes of clicks: the history of the image says where a voxel of the file is now.
#include <ATen/Functions.h>

#include <array>
#include <cmath>

#include "engine/run/registry.h"
#include "engine/state/list_field.h"
#include "kernels/image/affine.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

using Points = std::vector<std::vector<std::int64_t>>;

struct AddGuidanceFromPoints final : Node {
  struct Params {
    std::string ref_image = "image", guidance = "guidance";
    Points foreground, background;
    bool allow_none = false;
  } p;

  static Spec spec() {
    return Spec("add_guidance_from_points", "Takes clicks that a user gives in voxels of the file.")
        .in("sample")
        .out("sample")
        .param("foreground", &Params::foreground,
               "Clicks on the object, [[x, y, z], ...] in voxels of the image's file, from 0.")
        .at_least(0)
        .param("background", &Params::background, "Clicks beside it.")
        .at_least(0)
        .param("ref_image", &Params::ref_image,
               "The image; where its voxels have gone since it was loaded its history says. Of a "
               "slice (split_slices) the clicks in it count.")
        .param("guidance", &Params::guidance,
               "A new field: the clicks on and beside the object, int32 [2, rows, 1 + axes].")
        .param("allow_none", &Params::allow_none,
               "Both may be empty, for networks that answer without clicks too (DeepEdit).")
        .takes("@ref_image", Form::image, 2, 3)
        .gives("@guidance", Form::any)
        .dtype("int32");
  }

  void open(const OpenContext&) override {
    if (!p.allow_none && p.foreground.empty() && p.background.empty())
      throw Error(Exit::usage, "needs a click: foreground and background are both empty");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& image = image_field(out, p.ref_image);
    std::vector<std::int32_t> rows[2];
    const Points* const given[2] = {&p.foreground, &p.background};
    for (int kind = 0; kind < 2; ++kind)
      for (const auto& point : *given[kind]) add(rows[kind], rows[1 - kind], point, image);
    const std::int64_t width = image.tensor.dim();
    at::Tensor guidance = at::empty({2, std::ssize(rows[0]) / width, width}, at::kInt);
    auto* to = guidance.mutable_data_ptr<std::int32_t>();
    for (const auto& kind : rows) to = std::copy(kind.begin(), kind.end(), to);
    out.set(p.guidance, list_field(std::move(guidance)));
    f.emit(std::move(out));
  }

 private:
  // Half goes down: where a spacing drops the half voxel that remains, a file's last voxel lies
  // half a voxel behind the image's last one.
  static std::int64_t nearest(double v) {
    return static_cast<std::int64_t>(std::ceil(v - 0.5 - 1e-6));
  }

  // A row for the click in one list, and an empty one in the other.
  void add(std::vector<std::int32_t>& rows, std::vector<std::int32_t>& others,
           const std::vector<std::int64_t>& point, const Field& image) const {
    const Meta& meta = image.geometry();
    const std::vector<std::int64_t> now = spatial_shape(image.tensor);
    const auto& file = meta.history.empty() ? now : meta.history.front().shape_before;
    bool inside = point.size() == file.size();
    for (std::size_t d = 0; inside && d < point.size(); ++d) inside = point[d] < file[d];
    if (!inside)
      throw DataError("the click " + list_text(point) + " is no voxel of \"" + p.ref_image +
                      "\", whose file has " + list_text(file));
    const Affine moved = meta.history.empty()
                             ? identity_affine
                             : multiply(inverse(meta.affine), meta.history.front().affine_before);
    std::array<std::int64_t, 3> at{};
    for (std::size_t row = 0; row < 3; ++row) {
      double v = moved[row * 4 + 3];
      for (std::size_t d = 0; d < point.size(); ++d)
        v += moved[row * 4 + d] * static_cast<double>(point[d]);
      at[row] = nearest(v);
    }
    if (now.size() == 2 && at[2] != 0) return;  // in another slice
    for (std::size_t d = 0; d < now.size(); ++d)
      if (at[d] < 0 || at[d] >= now[d])
        throw DataError("the click " + list_text(point) + " lies outside of what is left of \"" +
                        p.ref_image + "\" after its crops, " + list_text(now));
    rows.push_back(0);
    others.resize(others.size() + now.size() + 1, -1);
    for (std::size_t d = 0; d < now.size(); ++d) rows.push_back(static_cast<std::int32_t>(at[d]));
  }
};

const Register<AddGuidanceFromPoints> registered;

}  // namespace
}  // namespace sluice
