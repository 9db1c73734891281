// delete_items: MONAI's DeleteItemsd. Samples have no fields within fields, so there is no `sep`.
#include <regex>

#include "nodes/transform/each_key.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct DeleteItems final : FusedNode {
  struct Params {
    std::vector<std::string> keys;
    std::vector<bool> use_re{false};
  } p;

  static Spec spec() {
    return Spec("delete_items", "Lets the named fields go and keeps the others.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields that go.")
        .required()
        .length(1)
        .param("use_re", &Params::use_re,
               "A key is a regular expression, and the fields go whose names begin with a match; "
               "one, or one a key.")
        .per("keys")
        .passes()  // no rule says yet that a field goes
        .fuses(Fuses::fields)
        .any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      if (flag(p.use_re, i)) {
        const std::regex pattern(p.keys[i]);
        for (const auto& [name, field] : f.in().fields())
          if (std::regex_search(name, pattern, std::regex_constants::match_continuous))
            out.erase(name);
      } else {
        out.at(p.keys[i]);  // names what is missing
        out.erase(p.keys[i]);
      }
    }
    finish(f, std::move(out));
  }
};

const Register<DeleteItems> registered;

}  // namespace
}  // namespace sluice
