// batch: stacks samples along a new first axis.
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "engine/base/borrowed_time.h"
#include "engine/run/registry.h"
#include "engine/state/list_field.h"
#include "kernels/augment/pending.h"
#include "kernels/base/inner_parallel.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

// "a,b,c,+5", for messages: names until a line would become unwieldy, then how many more.
std::string joined_names(const std::vector<std::string>& names) {
  constexpr std::size_t longest = 240;
  std::string out = names[0];
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (out.size() + names[i].size() > longest)
      return out + ",+" + std::to_string(names.size() - i);
    out += "," + names[i];
  }
  return out;
}

std::string described(const at::Tensor& t) {
  if (!t.defined()) return "not loaded";
  return list_text(t.sizes()) + " " + c10::getDtypeNames(t.scalar_type()).first + " on " +
         t.device().str();
}

std::string described(const Pending& p) {
  return list_text(p.sizes()) + " " + c10::getDtypeNames(p.dtype()).first + " on " +
         p.source().device().str();
}

[[noreturn]] void differ(const std::string& key, const Sample& a, const std::string& has,
                         const Sample& b, const std::string& other) {
  throw DataError("field \"" + key + "\" differs within a batch: " + a.name + " has " + has + ", " +
                  b.name + " has " + other);
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

constexpr std::int64_t worth_sharing = 1 << 20;  // bytes of a batch that several threads fill

// Each member straight into its slice of the batch: what it left pending is done there. Of several
// that fail the first is told of, whichever thread was quicker.
void fill(const at::Tensor& batch, const std::vector<Pending>& all,
          std::span<const SamplePtr> members, bool lazy) {
  const auto slices = batch.unbind();
  struct Failed {
    std::string why;
    Owners by;
  };
  std::vector<Failed> failed(all.size());
  const bool shared = batch.nbytes() > worth_sharing;
  for_range(static_cast<std::int64_t>(all.size()), shared, [&](auto begin, auto end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) try {
        blamed = {};
        all[i].done(lazy, slices[i]);
      } catch (const DataError& e) {
        failed[i] = {e.what(), blamed};
      }
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (failed[i].why.empty()) continue;
    blamed = failed[i].by;
    throw DataError(members[i]->name + ": " + failed[i].why);
  }
}

Field stacked_pending(const std::string& key, std::span<const SamplePtr> members, bool lazy) {
  std::vector<Pending> all;
  std::vector<const Pending*> pointers;
  std::vector<MetaPtr> meta;
  bool jobs = true;
  for (const auto& member : members) {
    const Field& field = member->at(key);
    all.push_back(field.pending ? *field.pending : Pending(field.tensor));
    meta.insert(meta.end(), field.meta.begin(), field.meta.end());
    jobs &= done_as_jobs(field.tensor);
    const Pending &first = all.front(), &last = all.back();
    if (last.sizes() != first.sizes() || last.dtype() != first.dtype() ||
        last.source().device() != first.source().device())
      differ(key, *members[0], described(first), *member, described(last));
  }
  for (const Pending& one : all) pointers.push_back(&one);
  std::vector<std::int64_t> sizes = all.front().sizes();
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(all.size()));
  const at::Tensor batch =
      at::empty(sizes, all.front().source().options().dtype(all.front().dtype()));
  if (jobs)
    do_as_jobs(pointers, batch.unbind(), lazy);
  else
    fill(batch, all, members, lazy);
  return {batch, std::move(meta)};
}

Field stacked(const std::string& key, std::span<const SamplePtr> members, bool lazy) {
  if (std::any_of(members.begin(), members.end(),
                  [&](const auto& m) { return !!m->at(key).pending; }))
    return stacked_pending(key, members, lazy);
  std::vector<at::Tensor> tensors;
  std::vector<MetaPtr> meta;
  const bool list = is_list(members.front()->at(key).geometry());
  for (const auto& member : members) {
    const Field& field = member->at(key);
    if (!list && !tensors.empty() && !alike(field.tensor, tensors.front()))
      differ(key, *members[0], described(tensors.front()), *member, described(field.tensor));
    tensors.push_back(field.tensor);
    meta.insert(meta.end(), field.meta.begin(), field.meta.end());
  }
  if (list) return {stacked_lists(tensors), std::move(meta)};
  return {tensors.front().defined() ? at::stack(tensors) : at::Tensor(), std::move(meta)};
}

struct Batch final : Node {
  struct Params {
    std::int64_t size = 1, ahead = 2;
    bool drop_last = false;
  } p;

  static Spec spec() {
    return Spec("batch",
                "Stacks samples: every field [C, X, Y, Z] becomes [N, C, X, Y, Z]; of lists of "
                "clicks "
                "the shorter are filled up with rows of -1, which are none.")
        .in("sample")
        .out("sample")
        .param("size", &Params::size, "Samples a batch.")
        .at_least(1)
        .param("drop_last", &Params::drop_last, "Drop an epoch's last batch if it is not full.")
        .param("ahead", &Params::ahead, "How many batches may be in flight behind it.")
        .at_least(1)
        .gathers("size", "drop_last")
        .gate("ahead")
        .fuses(Fuses::batches)
        .passes()
        .any_device();
  }

  void open(const OpenContext& context) override { lazy_ = context.lazy; }

  // `sample` has all that `other` has.
  static void require_fields(const Sample& sample, const Sample& other) {
    for (const auto& [key, field] : other.fields())
      if (!sample.has(key))
        throw DataError("the samples of a batch have different fields: " + sample.name +
                        " has no \"" + key + "\", which " + other.name + " has");
  }

  void process(Firing& f) override {
    const auto members = f.members();
    for (const auto& member : members) {
      require_fields(*members[0], *member);
      require_fields(*member, *members[0]);
    }
    Sample out;
    for (const auto& member : members) out.members.push_back(member->name);
    out.name = joined_names(out.members);
    for (const auto& [key, field] : members[0]->fields())
      out.set(key, stacked(key, members, lazy_));
    f.emit(std::move(out));
  }

 private:
  bool lazy_ = false;
};

const Register<Batch> registered;

}  // namespace
}  // namespace sluice
