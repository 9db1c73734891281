// What a cache keeps in memory where all its readers widen volumes themselves (Plan's `narrow`):
// the next transform reads the narrow volume and makes the wide patch in one pass.
#pragma once

#include <memory>

#include "engine/state/cache_tiers.h"
#include "kernels/augment/pending.h"
#include "kernels/image/narrow.h"

namespace sluice {

inline SamplePtr narrow_sample(const SamplePtr& given) {
  const SamplePtr sample = compact(given);
  std::shared_ptr<Sample> copy;
  for (std::size_t i = 0; i < sample->fields().size(); ++i) {
    const Field& field = sample->fields()[i].second;
    const at::Tensor narrow = field.pending ? at::Tensor() : narrowed(field.tensor);
    if (!narrow.defined()) continue;
    if (!copy) copy = std::make_shared<Sample>(*sample);
    Field& kept = copy->fields()[i].second;
    kept.tensor = narrow;
    kept.pending = std::make_shared<const Pending>(narrow, field.tensor.scalar_type());
  }
  return copy ? std::shared_ptr<const Sample>(std::move(copy)) : sample;
}

inline MemoryTier::Form memory_form(const OpenContext& context) {
  return context.narrow ? &narrow_sample : &compact;
}

}  // namespace sluice
