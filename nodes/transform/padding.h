// What the transforms that pad share.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {

struct FillParams {
  std::vector<std::string> keys{"image", "label"}, mode{"constant"};
  double value = 0;
  bool allow_missing_keys = false;
};

inline Spec& add_fill_params(Spec& s) {
  using Params = FillParams;
  return s.param("mode", &Params::mode, "How padding is filled; one, or one a key.")
      .choices(filling_names)
      .on_device(filling_on_device)
      .per("keys")
      .param("value", &Params::value, "The constant.")
      .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
      .fuses(Fuses::moves)
      .any_device()
      .takes("@keys", Form::image, 1, 3);
}

// To box_of(shape, spatial axes).
template <class BoxOf>
void fill(Sample& sample, const FillParams& p, const char* name, BoxOf&& box_of) {
  take_box(
      sample, p, name,
      [&](const Shape3& shape, std::int64_t axes, std::size_t) { return box_of(shape, axes); },
      [&](const Box& box, std::size_t i) {
        return boxed(box, parse_filling(per_key(p.mode, i)), p.value);
      });
}

// About the image's centre, or after its end.
struct PadParams : FillParams {
  std::string method = "symmetric";
};

inline Spec& add_pad_params(Spec& s) {
  return add_fill_params(
      s.param("method", &PadParams::method, "Where padding goes.").choices({"symmetric", "end"}));
}

// To size_of(shape, spatial axes); where that is smaller, to its centre.
template <class SizeOf>
void pad(Sample& sample, const PadParams& p, const char* name, SizeOf&& size_of) {
  fill(sample, p, name, [&](const Shape3& shape, std::int64_t axes) {
    return centre_box(shape, size_of(shape, axes), p.method == "symmetric");
  });
}

}  // namespace sluice
