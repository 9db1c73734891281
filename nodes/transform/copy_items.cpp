// copy_items: MONAI's CopyItemsd. A sample's fields never change, so a copy shares its memory; one
// of a path that nothing has loaded yet is loaded by itself.
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct CopyItems final : Node {
  struct Params : KeyParams {
    std::vector<std::string> names;
    std::int64_t times = 1;
  } p;

  static Spec spec() {
    return each_key_spec("copy_items", "Gives fields once more under other names.",
                         "Fields to copy.")
        .param("times", &Params::times, "Copies of each.")
        .at_least(1)
        .param("names", &Params::names,
               "The copies' names: those of the first copies by key, then of the second ones.")
        .required()
        .any_device()
        .differentiable()
        .takes("@keys", Form::value)
        .gives("@names", Form::any)
        .like_each("@keys");
  }

  void open(const OpenContext&) override {
    if (p.names.size() != p.keys.size() * static_cast<std::size_t>(p.times))
      throw Error(Exit::usage, "names needs " + std::to_string(p.keys.size()) + " x " +
                                   std::to_string(p.times) + " entries, found " +
                                   std::to_string(p.names.size()));
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.names.size(); ++i) {
      const std::string& key = p.keys[i % p.keys.size()];
      if (p.allow_missing_keys && !f.in().has(key)) continue;
      if (f.in().has(p.names[i]))
        throw DataError("a field \"" + p.names[i] + "\" is already there");
      copy_field(f.in(), key, out, p.names[i]);
    }
    f.emit(std::move(out));
  }
};

const Register<CopyItems> registered;

}  // namespace
}  // namespace sluice
