// pair: several samples become one, so that a network sees them together (registration).
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

struct Pair final : Node {
  struct Params {
    std::vector<std::string> prefixes{"moving_", "fixed_"};
    bool drop_last = true;
  } p;

  static Spec spec() {
    return Spec("pair",
                "Makes one sample of two that follow each other: \"image\" becomes "
                "\"moving_image\" of the first and \"fixed_image\" of the second.")
        .in("sample")
        .out("sample")
        .param("prefixes", &Params::prefixes,
               "Put before the fields' names, one for each sample; as many samples become one.")
        .length(2)
        .param("drop_last", &Params::drop_last, "Drop an epoch's last samples if they are too few.")
        .gathers("prefixes", "drop_last")
        .prefixes("prefixes")
        .any_device();
  }

  void open(const OpenContext&) override {
    for (std::size_t i = 0; i < p.prefixes.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (p.prefixes[i] == p.prefixes[k])
          throw Error(Exit::usage, "prefixes has \"" + p.prefixes[i] + "\" twice");
  }

  void process(Firing& f) override {
    Sample out;
    const auto members = f.members();
    for (std::size_t i = 0; i < members.size(); ++i) {
      out.name += (i > 0 ? "-" : "") + members[i]->name;
      for (const auto& [key, field] : members[i]->fields()) out.set(p.prefixes[i] + key, field);
    }
    f.emit(std::move(out));
  }
};

const Register<Pair> registered;

}  // namespace
}  // namespace sluice
