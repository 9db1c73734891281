// delete_items: MONAI's DeleteItemsd. Samples have no fields within fields, so there is no `sep`.
#include <optional>
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
               "A key is a regular expression, and the fields go whose names have a match; one, or "
               "one a key.")
        .per("keys")
        .passes()  // no rule says yet that a field goes
        .fuses(Fuses::fields)
        .any_device();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      patterns_.emplace_back();
      if (!flag(p.use_re, i)) continue;
      try {
        patterns_.back() = std::regex(p.keys[i]);
      } catch (const std::regex_error& e) {
        throw Error(Exit::usage, "\"" + p.keys[i] + "\" is no regular expression: " + e.what());
      }
    }
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      if (const auto& pattern = patterns_[i]) {
        for (const auto& [name, field] : f.in().fields())
          if (std::regex_search(name, *pattern)) out.erase(name);
      } else {
        out.at(p.keys[i]);  // names what is missing
        out.erase(p.keys[i]);
      }
    }
    finish(f, std::move(out));
  }

 private:
  std::vector<std::optional<std::regex>> patterns_;  // of each key; none: it is a name
};

const Register<DeleteItems> registered;

}  // namespace
}  // namespace sluice
