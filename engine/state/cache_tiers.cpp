#include "engine/state/cache_tiers.h"

#include <ATen/ops/clone.h>

namespace sluice {

SamplePtr compact(const SamplePtr& sample) {
  // A view, or memory for copies from a device: locked, and up to twice as large as it says.
  const auto holds_more = [](const at::Tensor& t) {
    return t.defined() && t.has_storage() && (t.storage().nbytes() > t.nbytes() || t.is_pinned());
  };
  bool any = false;
  for (const auto& [key, field] : sample->fields()) any = any || holds_more(field.tensor);
  if (!any) return sample;
  Sample copy = *sample;
  for (auto& [key, field] : copy.fields())
    if (holds_more(field.tensor)) field.tensor = field.tensor.clone(at::MemoryFormat::Contiguous);
  return std::make_shared<const Sample>(std::move(copy));
}

std::uint64_t kept_bytes(const Sample& sample) {
  std::uint64_t n = 0;
  for (const auto& [key, field] : sample.fields())
    if (field.tensor.defined()) n += field.tensor.nbytes();
  return n;
}

}  // namespace sluice
