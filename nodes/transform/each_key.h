// Transforms that change each key's field by itself: struct X : EachKey<X> has `Params p` with keys
// and allow_missing_keys, and void change(Field&, std::size_t i) const for the i-th key.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct KeyParams {
  std::vector<std::string> keys{"image"};
  bool allow_missing_keys = false;
};

// Its ports and what each_key.h's parameters are.
template <class P = KeyParams>
Spec each_key_spec(std::string name, std::string does, std::string keys) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      // The cast makes the default P's, not KeyParams'.
      .param("keys", static_cast<std::vector<std::string> P::*>(&P::keys), std::move(keys))
      .param("allow_missing_keys", &P::allow_missing_keys, allow_missing_doc);
  return s;
}

template <class X>
struct EachKey : Node {
  void process(Firing& f) override {
    const X& self = static_cast<const X&>(*this);
    Sample out = f.in();
    for_each_key(out, self.p.keys, self.p.allow_missing_keys,
                 [&](Field& field, std::size_t i) { self.change(field, i); });
    f.emit(std::move(out));
  }
};

// The same of volumes: X has at::Tensor changed(volume [C, X, Y, Z], spatial axes) const.
template <class X>
struct EachVolume : Node {
  void process(Firing& f) override {
    const X& self = static_cast<const X&>(*this);
    Sample out = f.in();
    for_each_volume(out, self.p.keys, self.p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      field.tensor = from_volume(self.changed(volume, axes), axes);
                    });
    f.emit(std::move(out));
  }
};

// One setting a key, which may be null: of one key, or of all.
template <class T>
using Maybe = std::optional<std::vector<std::optional<T>>>;
template <class T>
std::optional<T> maybe(const Maybe<T>& settings, std::size_t i) {
  return settings ? per_key(*settings, i) : std::nullopt;
}

// An axis counted from 0, or from the end where it is negative; another is a DataError.
inline std::int64_t axis_of(std::int64_t axis, const at::Tensor& t, const std::string& key) {
  const std::int64_t a = axis < 0 ? axis + t.dim() : axis;
  if (a < 0 || a >= t.dim()) throw shape_error(key, t, ": no axis " + std::to_string(axis));
  return a;
}

}  // namespace sluice
