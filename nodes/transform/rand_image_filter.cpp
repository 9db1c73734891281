// rand_image_filter: MONAI's RandImageFilterd. One draw for all keys.
#include "nodes/transform/intensity_params.h"
#include "nodes/transform/named_filter.h"

namespace sluice {
namespace {

struct RandImageFilter final : Node {
  struct Params : RandIntensityParams, NamedFilter {
  } p;

  static Spec spec() {
    Spec s("rand_image_filter", "Filters images by a filter's name, or leaves them as they are.");
    add_changed_keys(s);
    return add_rand_intensity_params(add_named_filter<Params>(s));
  }

  void open(const OpenContext&) override { p.require_whole(); }

  void process(Firing& f) override {
    if (!f.random().chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys,
                 [&](Field& field, std::size_t i) { filter_field(p, field, p.keys[i]); });
    f.emit(std::move(out));
  }
};

const Register<RandImageFilter> registered;

}  // namespace
}  // namespace sluice
