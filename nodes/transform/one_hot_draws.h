// What nnU-Net's augmentations of a cascade's labels share: a sample is changed with a probability,
// then, in an order that is drawn, each label with another.
#pragma once

#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {

struct OneHotDraws {
  std::vector<std::string> keys{"previous"};
  double prob = 1, label_prob = 0.5;
};

inline Spec one_hot_spec(std::string name, std::string doc) {
  return Spec(std::move(name), std::move(doc))
      .in("sample")
      .out("sample")
      .param("keys", &OneHotDraws::keys,
             "One-hot labels, uint8 [labels, X, Y, Z] (labels_to_regions).")
      .param("prob", &OneHotDraws::prob, "Probability that a sample is changed.")
      .range(0, 1)
      .param("label_prob", &OneHotDraws::label_prob,
             "Probability that a label of a changed sample is changed.")
      .range(0, 1)
      .random()
      .takes("@keys", Form::image, 3, 3);
}

// change(map, label, random): `map` uint8 [labels, X, Y, Z], contiguous, may be written.
template <class Change>
void process_one_hot(Firing& f, const OneHotDraws& p, Change&& change) {
  Random random = f.random();
  if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
  Sample out = f.in();
  for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
    if (field.tensor.dim() != 4 || field.tensor.scalar_type() != at::kByte)
      throw DataError("field \"" + p.keys[i] +
                      "\" is no one-hot map of a volume, uint8 [labels, X, "
                      "Y, Z]; labels_to_regions makes one");
    at::Tensor map = field.tensor.clone(at::MemoryFormat::Contiguous);
    std::vector<std::int64_t> order(static_cast<std::size_t>(map.size(0)));
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto at = static_cast<std::size_t>(random.integer(k + 1));
      order[k] = order[at];
      order[at] = static_cast<std::int64_t>(k);
    }
    for (const std::int64_t label : order)
      if (random.chance(p.label_prob)) change(map, label, random);
    field.tensor = map;
  });
  f.emit(std::move(out));
}

}  // namespace sluice
