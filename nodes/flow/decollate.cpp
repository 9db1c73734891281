// decollate: MONAI's Decollated, a batch taken apart.
#include <ATen/core/Tensor.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

struct Decollate final : Node {
  struct Params {
  } p;

  static Spec spec() {
    return Spec("decollate",
                "Takes batches apart: every field [N, C, X, Y, Z] becomes N samples [C, X, Y, Z], "
                "with each member's own geometry and name.")
        .in("sample")
        .out("sample")
        .expands("")
        .decollates()
        .any_device();
  }

  void process(Firing& f) override {
    std::size_t members = 0;
    for (const auto& [key, field] : f.in().fields()) members = std::max(members, field.meta.size());
    for (std::size_t i = 0; i < members; ++i) f.emit(member(f.in(), i, members));
  }

 private:
  // A field that is no batch, such as a loss, goes to each.
  static Sample member(const Sample& batch, std::size_t i, std::size_t members) {
    Sample out;
    out.name = name_of(batch.name, i, members);
    for (const auto& [key, field] : batch.fields()) {
      if (field.meta.size() != members || (field.tensor.defined() && field.tensor.dim() == 0)) {
        out.set(key, field);
        continue;
      }
      const bool stacked = field.tensor.defined() && field.tensor.dim() > 0 &&
                           field.tensor.size(0) == static_cast<std::int64_t>(members);
      if (field.tensor.defined() && !stacked)
        throw DataError("field \"" + key + "\" " + c10::str(field.tensor.sizes()) +
                        " is no batch of " + std::to_string(members));
      out.set(key,
              Field(stacked ? field.tensor.select(0, static_cast<std::int64_t>(i)) : at::Tensor(),
                    field.meta[i]));
    }
    return out;
  }
  // `batch` lists its members' names, unless these are too many: "a,b,c".
  static std::string name_of(const std::string& batch, std::size_t i, std::size_t members) {
    if (members == 1) return batch;
    std::vector<std::string> names(1);
    for (const char c : batch)
      if (c != ',')
        names.back() += c;
      else if (names.back().ends_with('\\'))
        names.back().back() = c;
      else
        names.emplace_back();
    return names.size() == members ? names[i] : batch + "_" + std::to_string(i);
  }
};

const Register<Decollate> registered;

}  // namespace
}  // namespace sluice
