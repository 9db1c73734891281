// What mean_ensemble and vote_ensemble share.
#pragma once

#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {

struct EnsembleParams : KeyParams {
  std::optional<std::string> output_key;
};

inline Spec ensemble_spec(std::string name, std::string does) {
  return each_key_spec(std::move(name), std::move(does),
                       "One model's output each, of one shape; of a single key [E, C, ...], those "
                       "of E models.")
      .param("output_key", &EnsembleParams::output_key,
             "The field that is made; null: that of the single key.")
      .takes("@keys", Form::any)
      .gives("@output_key", Form::any);
}

inline void check_ensemble(const EnsembleParams& p) {
  if (p.keys.size() > 1 && !p.output_key)
    throw Error(Exit::usage, "output_key must be set where there are several keys");
}

// combine([E, C, ...]) as the new field.
template <class Combine>
void ensemble(Firing& f, const EnsembleParams& p, Combine&& combine) {
  Sample out = f.in();
  std::vector<at::Tensor> parts;
  const Field* first = nullptr;
  for (const std::string& key : p.keys) {
    if (p.allow_missing_keys && !f.in().has(key)) continue;
    const Field& field = f.in().at(key);
    if (!first) first = &field;
    if (field.tensor.sizes() != first->tensor.sizes())
      throw shape_error(key, field.tensor, ", the first " + list_text(first->tensor.sizes()));
    parts.push_back(field.tensor);
  }
  if (!first) return f.emit_ptr(f.ptr());
  const at::Tensor all = p.keys.size() == 1 ? parts[0] : at::stack(parts);
  out.set(p.output_key.value_or(p.keys[0]), Field(combine(all), first->meta));
  f.emit(std::move(out));
}

}  // namespace sluice
