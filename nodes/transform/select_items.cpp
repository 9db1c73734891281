// select_items: MONAI's SelectItemsd.
#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct SelectItems final : FusedNode {
  struct Params {
    std::vector<std::string> keys;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("select_items", "Keeps the named fields and lets the others go.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to keep.")
        .required()
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::value)
        .keeps("@keys")
        .fuses(Fuses::fields)
        .any_device();
  }

  void process(Firing& f) override {
    Sample out;
    out.name = f.in().name;
    out.members = f.in().members;
    for (const auto& key : p.keys)
      if (!p.allow_missing_keys || f.in().has(key)) copy_field(f.in(), key, out, key);
    finish(f, std::move(out));
  }
};

const Register<SelectItems> registered;

}  // namespace
}  // namespace sluice
