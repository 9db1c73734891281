// add_scribbles: strokes of a user's pen as a label field, for gaussian_mixture_model.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct Stroke {
  std::int64_t label = 0;
  std::vector<std::vector<double>> points;
};

struct AddScribbles final : Node {
  struct Params {
    std::string image_key = "image", label_key = "label";
    Json strokes;
    double radius = 1;
  } p;

  static Spec spec() {
    return Spec("add_scribbles",
                "Draws strokes of a pen as labels; all other voxels are -1, of no class.")
        .in("sample")
        .out("sample")
        .param("image_key", &Params::image_key, "Field with the image, [C, ...].")
        .param("label_key", &Params::label_key, "Field for the labels, int32 [1, ...].")
        .param("strokes", &Params::strokes,
               "[{\"label\": 1, \"points\": [[x, y, z], ...]}, ...]: lines from point to point, in "
               "voxels of the array; a later stroke is drawn over an earlier one.")
        .required()
        .param("radius", &Params::radius, "Of the pen, in voxels.")
        .at_least(0)
        .takes("@image_key", Form::image)
        .gives("@label_key", Form::image)
        .like("@image_key")
        .channels("1")
        .dtype("int32");
  }

  void open(const OpenContext&) override {
    const auto refuse = [](const std::string& why) {
      throw Error(Exit::usage,
                  "strokes: expected [{\"label\": 1, \"points\": [[x, y, z], ...]}, ...]" + why);
    };
    if (!p.strokes.is_array() || p.strokes.empty()) refuse("");
    for (const Json& one : p.strokes) {
      if (!one.is_object() || one.size() != 2 || !one.contains("label") || !one.contains("points"))
        refuse(", found " + one.dump());
      try {
        strokes_.push_back({ParamType<std::int64_t>::parse(one["label"]),
                            ParamType<std::vector<std::vector<double>>>::parse(one["points"])});
      } catch (const TypeError& e) {
        refuse(std::string(": ") + e.what());
      }
      if (strokes_.back().points.empty() || strokes_.back().label < 0)
        refuse(": a stroke has a point and a label of 0 or more");
    }
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field field = out.at(p.image_key);
    require_spatial(field.tensor, p.image_key, 1);
    auto shape = field.tensor.sizes().vec();
    shape[0] = 1;
    field.tensor = at::full(shape, -1, at::kInt);
    for (const Stroke& stroke : strokes_) draw(field.tensor[0], stroke);
    out.set(p.label_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  void draw(const at::Tensor& label, const Stroke& stroke) const {
    for (const auto& point : stroke.points)
      if (static_cast<std::int64_t>(point.size()) != label.dim())
        throw DataError("strokes: a point has " + std::to_string(point.size()) +
                        " numbers; the image has " + std::to_string(label.dim()) + " axes");
    for (std::size_t i = 0; i < stroke.points.size(); ++i) {
      const auto &a = stroke.points[i == 0 ? 0 : i - 1], &b = stroke.points[i];
      double length = 0;
      for (std::size_t d = 0; d < a.size(); ++d) length = std::max(length, std::abs(b[d] - a[d]));
      const auto steps = static_cast<std::int64_t>(std::ceil(2 * length));
      for (std::int64_t s = 0; s <= steps; ++s) {
        const double t = steps > 0 ? static_cast<double>(s) / static_cast<double>(steps) : 0;
        std::vector<double> centre;
        for (std::size_t d = 0; d < a.size(); ++d) centre.push_back(a[d] + t * (b[d] - a[d]));
        dot(label, centre, stroke.label);
      }
    }
  }

  // The voxels within the radius.
  void dot(const at::Tensor& label, const std::vector<double>& centre, std::int64_t value) const {
    at::Tensor box = label, square = at::zeros({}, at::kDouble);
    for (std::size_t d = 0; d < centre.size(); ++d) {
      const auto axis = static_cast<std::int64_t>(d);
      const auto low = std::max<std::int64_t>(0, std::llround(centre[d] - p.radius)),
                 high = std::min<std::int64_t>(label.size(axis) - 1,
                                               std::llround(centre[d] + p.radius));
      if (high < low) return;
      box = box.narrow(axis, low, high - low + 1);
      std::vector<std::int64_t> line(centre.size(), 1);
      line[d] = high - low + 1;
      square =
          at::add(square, at::sub(at::arange(low, high + 1, at::kDouble), std::round(centre[d]))
                              .square()
                              .view(line));
    }
    box.masked_fill_(at::le(square, p.radius * p.radius), value);
  }

  std::vector<Stroke> strokes_;
};

const Register<AddScribbles> registered;

}  // namespace
}  // namespace sluice
