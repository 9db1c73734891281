// What grid_pull, grid_push, grid_count and grid_grad share: the parameters of the resampler, and
// fields as batches. The operations themselves are functions of tensors (kernels/image).
//
// Invariant: batches are [B, C, ...] with a grid of [B, ..., D]; a sample [C, ...] with a grid of
// [..., D] is a batch of one. Both become float64 where one is, else float32.
#pragma once

#include <ATen/Functions.h>

#include <utility>

#include "engine/run/registry.h"
#include "kernels/image/grid_sampling.h"
#include "nodes/fields.h"

namespace sluice {

struct GridParams {
  std::string image_key = "image", grid_key = "grid";
  Json interpolation = "linear", bound = "zero";
  bool extrapolate = true;
};

template <class Params>
Spec& add_grid_params(Spec& s, bool with_image = true) {
  s.in("sample").out("sample");
  if (with_image)
    s.param("image_key", &Params::image_key, "Field with the image, [B, C, ...] or [C, ...].")
        .takes("@image_key", Form::any, 0);
  return s
      .param("grid_key", &Params::grid_key,
             "Field with coordinates, [B, ..., D] or [..., D]: voxels from 0, component 0 along "
             "the first axis.")
      .param("interpolation", &Params::interpolation,
             "Order of the B-spline, 0 to 7, or nearest, linear, quadratic, cubic, fourth, fifth, "
             "sixth, seventh; a list: one an axis, the last for those that follow.")
      .param("bound", &Params::bound,
             "What lies outside: replicate, dct1 (mirror), dct2 (reflect), dst1 (antimirror), "
             "dst2 (antireflect), dft (wrap) or zero; a list: one an axis.")
      .param("extrapolate", &Params::extrapolate,
             "false: points more than 0.05 voxels outside give 0.")
      .any_device()
      .takes("@grid_key", Form::any, 0);
}

// The number that a value names: one of a table's names, or the number itself.
struct GridName {
  const char* name;
  int number;
};

inline int grid_number(const Json& value, std::span<const GridName> names, const char* param,
                       const char* expected) {
  for (const auto& [name, number] : names)
    if (value == name || (value.is_number_integer() && value == number)) return number;
  throw Error(Exit::usage,
              std::string(param) + ": expected " + expected + ", found " + value.dump());
}

class GridNode : public Node {
 public:
  void open(const OpenContext&) final {
    static constexpr GridName orders[] = {{"nearest", 0}, {"linear", 1}, {"quadratic", 2},
                                          {"cubic", 3},   {"fourth", 4}, {"fifth", 5},
                                          {"sixth", 6},   {"seventh", 7}};
    static constexpr GridName bounds[] = {
        {"replicate", 0}, {"nearest", 0},     {"border", 0}, {"dct1", 1},       {"mirror", 1},
        {"dct2", 2},      {"reflect", 2},     {"dst1", 3},   {"antimirror", 3}, {"dst2", 4},
        {"dft", 5},       {"antireflect", 4}, {"wrap", 5},   {"zero", 7},       {"zeros", 7}};
    const auto each = [](const Json& given, const char* param, auto&& take) {
      const Json list = given.is_array() ? given : Json::array({given});
      if (list.empty() || list.size() > 3)
        throw Error(Exit::usage, std::string(param) +
                                     ": expected one value or one an axis, found " + given.dump());
      for (std::size_t a = 0; a < 3; ++a) take(a, list[std::min(a, list.size() - 1)]);
      return list.size();
    };
    listed_ = each(common().interpolation, "interpolation", [&](std::size_t a, const Json& v) {
      rule_.order[a] = grid_number(v, orders, "interpolation", "an order from 0 to 7 or its name");
    });
    listed_ = std::max(listed_, each(common().bound, "bound", [&](std::size_t a, const Json& v) {
                         rule_.bound[a] = static_cast<kernels::Bound>(grid_number(
                             v, bounds, "bound",
                             "replicate, dct1, dct2, dst1, dst2, dft or zero (sliding is not "
                             "implemented)"));
                       }));
    rule_.extrapolate = common().extrapolate;
    check();
  }

  void process(Firing& f) final {
    Sample out = f.in();
    const GridParams& p = common();
    at::Tensor grid = number(f.in(), p.grid_key), image;
    const std::int64_t axes = grid.dim() > 0 ? grid.size(-1) : 0;
    const bool batched = grid.dim() == axes + 2;
    if (axes < 1 || axes > 3 || !(batched || grid.dim() == axes + 1) || grid.numel() == 0)
      throw shape_error(p.grid_key, grid,
                        "; needed is [B, ..., D] or [..., D] for D axes, 1 to 3, none empty");
    if (static_cast<std::int64_t>(listed_) > axes)
      throw DataError("interpolation and bound list " + std::to_string(listed_) +
                      " axes; the grid has " + std::to_string(axes));
    if (!batched) grid = grid.unsqueeze(0);
    if (takes_image()) {
      image = number(f.in(), p.image_key);
      if (!batched) image = image.unsqueeze(0);
      if (image.dim() != axes + 2 || image.numel() == 0)
        throw shape_error(p.image_key, f.in().tensor(p.image_key),
                          "; a grid of " + std::to_string(axes) + " components needs " +
                              (batched ? "[B, C" : "[C") + ", " + std::to_string(axes) +
                              " axes], none empty");
      if (image.size(0) != grid.size(0))
        throw DataError("field \"" + p.image_key + "\" has a batch of " +
                        std::to_string(image.size(0)) + ", \"" + p.grid_key + "\" one of " +
                        std::to_string(grid.size(0)));
      const auto type = at::promote_types(image.scalar_type(), grid.scalar_type());
      image = image.to(type);
      grid = grid.to(type);
    }
    at::Tensor result = of(image, grid);
    if (!batched) result = result.squeeze(0);
    Field field(std::move(result), std::make_shared<const Meta>());
    out.set(p.image_key, std::move(field));
    f.emit(std::move(out));
  }

 protected:
  virtual const GridParams& common() const = 0;
  virtual bool takes_image() const { return true; }
  virtual void check() const {}
  virtual at::Tensor of(const at::Tensor& image, const at::Tensor& grid) const = 0;
  const kernels::GridRule& rule() const { return rule_; }

 private:
  // float32, or float64 where it is that.
  static at::Tensor number(const Sample& sample, const std::string& key) {
    const at::Tensor& t = sample.tensor(key);
    if (t.is_complex()) throw DataError("field \"" + key + "\" is complex");
    return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat);
  }

  kernels::GridRule rule_;
  std::size_t listed_ = 1;
};

template <class P>
class GridNodeOf : public GridNode {
 public:
  using Params = P;
  P p;

 protected:
  const GridParams& common() const final { return p; }
};

// Nodes that read the image: spline coefficients are made of it first where that is asked for.
struct GridReadParams : GridParams {
  bool prefilter = false;
};

struct GridReadNode : GridNodeOf<GridReadParams> {
 protected:
  void check() const final {
    using kernels::Bound;
    for (const Bound b : rule().bound)
      if (p.prefilter && b != Bound::dct1 && b != Bound::dct2 && b != Bound::dft)
        throw Error(Exit::usage,
                    "prefilter: needs bound dct1, dct2 or dft, found " + p.bound.dump());
  }
  at::Tensor coefficients(const at::Tensor& image) const {
    return p.prefilter ? spline_coefficients(image, rule()) : image;
  }
};

inline Spec& add_grid_read_params(Spec& s) {
  return add_grid_params<GridReadParams>(s)
      .param("prefilter", &GridReadParams::prefilter,
             "true: orders from 2 on go exactly through the image's values; false: the values are "
             "the spline's coefficients, which smooths.")
      .gives("@image_key", Form::any);
}

// Nodes that add to an image of extents `shape`.
struct GridAddParams : GridParams {
  std::optional<std::vector<std::int64_t>> shape;
};

struct GridAddNode : GridNodeOf<GridAddParams> {
 protected:
  std::vector<std::int64_t> shape(const at::Tensor& grid) const {
    const at::IntArrayRef own = grid.sizes().slice(1, grid.dim() - 2);
    if (!p.shape) return own.vec();
    if (p.shape->size() != own.size())
      throw DataError("shape has " + std::to_string(p.shape->size()) + " extents; the grid has " +
                      std::to_string(own.size()) + " components");
    return *p.shape;
  }
};

template <class Params>
Spec& add_grid_shape(Spec& s) {
  return s.param("shape", &Params::shape, "Extents of what comes out; null: the grid's.")
      .at_least(1)
      .length(1, 3)
      .gives("@image_key", Form::any);
}

}  // namespace sluice
