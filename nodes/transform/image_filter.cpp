// image_filter: MONAI's ImageFilterd.
#include "nodes/transform/each_key.h"
#include "nodes/transform/named_filter.h"

namespace sluice {
namespace {

struct ImageFilter final : EachKey<ImageFilter> {
  struct Params : KeyParams, NamedFilter {
  } p;

  static Spec spec() {
    Spec s = each_key_spec<Params>("image_filter", "Filters images by a filter's name.",
                                   "Fields [C, ...]; they become float32.");
    return add_named_filter<Params>(s)
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override { p.require_whole(); }
  void change(Field& field, std::size_t i) const { filter_field(p, field, p.keys[i]); }
};

const Register<ImageFilter> registered;

}  // namespace
}  // namespace sluice
