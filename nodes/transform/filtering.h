// What filters share: a field as a batch, and where the result goes. The filters themselves are
// functions of batches (kernels/image).
//
// Invariant: a batch is [B, C, ...] with one to three spatial axes; a sample [C, ...] is a batch of
// one. Integers become float32; float64 stays.
#pragma once

#include <ATen/Functions.h>

#include <cmath>
#include <utility>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {

struct FilterParams {
  std::string image_key = "image";
  std::optional<std::string> output_key;
  std::optional<std::int64_t> spatial_dims;
};

// A field's numbers as a batch of floats.
struct FilterBatch {
  at::Tensor of;
  bool single = false;  // it was a sample

  FilterBatch(const Sample& sample, const std::string& key,
              const std::optional<std::int64_t>& spatial_dims)
      : of(sample.tensor(key)) {
    if (of.is_complex()) throw DataError("field \"" + key + "\" is complex");
    const std::int64_t axes = spatial_dims.value_or(of.dim() == 5 ? 3 : of.dim() - 1);
    single = of.dim() == axes + 1;
    if (axes < 1 || axes > 3 || !(single || of.dim() == axes + 2) || of.numel() == 0)
      throw shape_error(
          key, of,
          "; needed is " +
              (spatial_dims
                   ? "[B, C, ...] or [C, ...] with " + std::to_string(axes) + " axes behind"
                   : "[C, ...] or [B, C, X, Y, Z], and spatial_dims of other "
                     "batches") +
              ", none empty");
    if (single) of = of.unsqueeze(0);
    if (of.scalar_type() != at::kDouble) of = of.to(at::kFloat);
  }
  std::int64_t axes() const { return of.dim() - 2; }

  // Another field of the same members and extents; both become float64 where one is.
  void require_like(FilterBatch& other, const std::string& key, const std::string& other_key) {
    if (of.size(0) != other.of.size(0) || of.sizes().slice(2) != other.of.sizes().slice(2))
      throw DataError("fields \"" + key + "\" " + list_text(of.sizes()) + " and \"" + other_key +
                      "\" " + list_text(other.of.sizes()) + " differ in members or extents");
    const auto type = at::promote_types(of.scalar_type(), other.of.scalar_type());
    of = of.to(type);
    other.of = other.of.to(type);
  }
};

template <class Params>
Spec& add_filter_params(Spec& s) {
  using Text = std::string Params::*;
  using MaybeText = std::optional<std::string> Params::*;
  using MaybeNumber = std::optional<std::int64_t> Params::*;
  return s.in("sample")
      .out("sample")
      .param("image_key", Text{&FilterParams::image_key},
             "Field with the image, [C, ...] or [B, C, ...].")
      .param("output_key", MaybeText{&FilterParams::output_key},
             "Field for what comes out; null: in the image's place.")
      .param("spatial_dims", MaybeNumber{&FilterParams::spatial_dims},
             "Spatial axes; null: all but the first, or three of five.")
      .range(1, 3)
      .takes("@image_key", Form::any)
      .gives("@output_key", Form::any)
      .like("@image_key")
      .when("output_key")
      .changes("@image_key")
      .when("output_key", nullptr, true);
}

// For nodes that may stand between a network and its loss.
inline Spec& on_tape(Spec& s) { return s.lane(LaneKind::step).differentiable(); }

// A node that makes one batch of another: struct X : FilterNode<Params> has
// at::Tensor of(const Sample&, FilterBatch&) const.
template <class P>
class FilterNode : public Node {
 public:
  using Params = P;
  P p;

  void process(Firing& f) final {
    Sample out = f.in();
    FilterBatch batch(f.in(), p.image_key, p.spatial_dims);
    at::Tensor made = of(f.in(), batch);
    Field field = out.at(p.image_key);
    field.tensor = batch.single ? made.squeeze(0) : made;
    out.set(p.output_key.value_or(p.image_key), std::move(field));
    f.emit(std::move(out));
  }

 protected:
  virtual at::Tensor of(const Sample& sample, FilterBatch& image) const = 0;
};

// Numbers that a sample may bring in a field of the parameter's name, with a gradient: else the
// parameter's own.
inline at::Tensor trained(const Sample& sample, const char* name,
                          const std::vector<double>& given) {
  return sample.has(name) ? sample.tensor(name) : at::tensor(given, at::kDouble);
}

// Refuses sigmas that are not finite and above 0, and other numbers of them than one or `count`.
inline void require_sigmas(const at::Tensor& sigmas, const char* name, std::int64_t count,
                           const char* of) {
  const at::Tensor s = sigmas.detach().to(at::kDouble).reshape(-1);
  if (s.numel() != 1 && s.numel() != count)
    throw DataError(std::string(name) + ": " + std::to_string(s.numel()) + " sigmas for " +
                    std::to_string(count) + " " + of);
  for (std::int64_t i = 0; i < s.numel(); ++i)
    if (const double v = s[i].item<double>(); !(v > 0 && std::isfinite(v)))
      throw DataError(std::string(name) + ": " + std::to_string(v) +
                      " is no finite number above 0");
}

inline void require_odd(const char* name, std::int64_t size) {
  if (size % 2 == 0)
    throw Error(Exit::usage,
                std::string(name) + ": expected an odd number, found " + std::to_string(size));
}

// Of filters along an axis: the window, and the polynomial that fits it.
template <class Params>
Spec& add_window_params(Spec& s) {
  return s.param("window_length", &Params::window_length, "Voxels of the window, odd.")
      .at_least(1)
      .required()
      .param("order", &Params::order, "Of the polynomial, below window_length.")
      .at_least(0)
      .required();
}
inline void require_window(std::int64_t window_length, std::int64_t order) {
  require_odd("window_length", window_length);
  if (order >= window_length)
    throw Error(Exit::usage, "order: expected less than the window's " +
                                 std::to_string(window_length) + " voxels, found " +
                                 std::to_string(order));
}

// A spatial axis of a batch; negative ones count from the last.
inline std::int64_t spatial_axis(std::int64_t axis, const at::Tensor& batch) {
  const std::int64_t a = axis < 0 ? axis + batch.dim() : axis;
  if (a < 2 || a >= batch.dim())
    throw DataError("axis: expected 2 to " + std::to_string(batch.dim() - 1) +
                    ", a spatial one of a batch, found " + std::to_string(axis));
  return a;
}

}  // namespace sluice
