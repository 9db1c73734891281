// batch: stacks samples along a new first axis.
#include <ATen/ops/stack.h>

#include "engine/registry.h"
#include "engine/transform.h"

namespace sluice {
namespace {

// "a,b,c,+5": names until a file name would become unwieldy, then how many more.
std::string joined_names(std::span<const SamplePtr> members) {
  constexpr std::size_t longest = 80;
  std::string out;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0 && out.size() + members[i]->name.size() > longest)
      return out + ",+" + std::to_string(members.size() - i);
    out += (i > 0 ? "," : "") + members[i]->name;
  }
  return out;
}

std::string described(const at::Tensor& t) {
  if (!t.defined()) return "not loaded";
  return list_text(t.sizes()) + " " + std::string(t.dtype().name()) + " on " + t.device().str();
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

Field stacked(const std::string& key, std::span<const SamplePtr> members) {
  std::vector<at::Tensor> tensors;
  std::vector<MetaPtr> meta;
  for (const auto& member : members) {
    const Field& field = member->at(key);
    if (!tensors.empty() && !alike(field.tensor, tensors.front()))
      throw DataError("field \"" + key + "\" differs within a batch: " + members[0]->name +
                      " has " + described(tensors.front()) + ", " + member->name + " has " +
                      described(field.tensor));
    tensors.push_back(field.tensor);
    meta.insert(meta.end(), field.meta.begin(), field.meta.end());
  }
  return {tensors.front().defined() ? at::stack(tensors) : at::Tensor(), std::move(meta)};
}

struct Batch final : Node {
  struct Params {
    std::int64_t size = 1, ahead = 2;
    bool drop_last = false;
  } p;

  static Spec spec() {
    return Spec("batch", "Stacks samples: every field [C, X, Y, Z] becomes [N, C, X, Y, Z].")
        .in("sample")
        .out("sample")
        .param("size", &Params::size, "Samples a batch.")
        .at_least(1)
        .param("drop_last", &Params::drop_last, "Drop an epoch's last batch if it is not full.")
        .param("ahead", &Params::ahead, "How many batches may be in flight behind it.")
        .at_least(1)
        .gathers("size", "drop_last")
        .gate("ahead")
        .passes()
        .any_device();
  }

  void process(Firing& f) override {
    const auto members = f.members();
    for (const auto& member : members)
      if (member->fields().size() != members[0]->fields().size())
        throw DataError("the samples of a batch have different fields: " + members[0]->name +
                        " has " + std::to_string(members[0]->fields().size()) + ", " +
                        member->name + " has " + std::to_string(member->fields().size()));
    Sample out;
    out.name = joined_names(members);
    for (const auto& [key, field] : members[0]->fields()) out.set(key, stacked(key, members));
    f.emit(std::move(out));
  }
};

const Register<Batch> registered;

}  // namespace
}  // namespace sluice
