// What transform nodes share: the loop over keys, one setting a key, shapes and their messages.
//
// Invariant: for_each_key hands out a copy of each field and puts it back; what came in is never
// written to, so two branches of a graph may transform one sample at the same time.
//
//   Sample out = f.in();
//   for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
//     field.tensor = blur(field.tensor, per_key(p.sigma, i));
//   });
//   f.emit(std::move(out));
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/sample.h"
#include "nodes/one_or.h"

namespace sluice {

// Of the parameter that for_each_key's allow_missing is.
inline constexpr std::string_view allow_missing_doc =
    "Leave out keys that a sample lacks instead of failing.";

// Calls fn(field, i) for the i-th key. A key that is not there is a DataError, or left out where
// allow_missing says so; then i still counts it, so settings a key stay with their key.
template <class Fn>
void for_each_key(Sample& sample, const std::vector<std::string>& keys, bool allow_missing,
                  Fn&& fn) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (allow_missing && !sample.has(keys[i])) continue;
    Field field = sample.at(keys[i]);
    if (!field.tensor.defined())
      throw DataError("field \"" + keys[i] + "\" is a record that no node has loaded yet");
    fn(field, i);
    sample.set(keys[i], std::move(field));
  }
}

// Of files that a source lists under one key, as key, key#1, key#2, ..., the n-th one's.
inline std::string further_key(const std::string& key, int n) {
  return key + "#" + std::to_string(n);
}

// A field, with all of its files where nothing has loaded them yet, under `name`.
inline void copy_field(const Sample& from, const std::string& key, Sample& to,
                       const std::string& name) {
  to.set(name, from.at(key));
  for (int n = 1; const Field* more = from.find(further_key(key, n)); ++n)
    to.set(further_key(name, n), *more);
}

// One setting a key: the i-th, or the last where there are fewer.
template <class T>
const T& per_key(const std::vector<T>& settings, std::size_t i) {
  if (settings.empty()) throw DataError("a setting given per key is an empty list");
  return settings[i < settings.size() ? i : settings.size() - 1];
}

// require_one_or() for the axes of a sample.
inline void require_one_an_axis(std::size_t found, const char* name, std::int64_t axes) {
  require_one_or(name, found, static_cast<std::size_t>(axes), Exit::data);
}

// "[120, 132, 125]", for messages.
template <class Range>
std::string list_text(const Range& numbers) {
  std::string s = "[";
  for (const auto& n : numbers) {
    if (s.size() > 1) s += ", ";
    s += std::to_string(n);
  }
  return s + "]";
}

// The extents after the channel axis of [C, X, Y, Z] or [C, X, Y].
inline std::vector<std::int64_t> spatial_shape(const at::Tensor& t) {
  const auto sizes = t.sizes();
  if (sizes.empty()) throw DataError("a tensor of rank 0 has no channel axis");
  return {sizes.begin() + 1, sizes.end()};
}

// What a field's shape is wrong for: `but` goes on from "field "image" has shape [1, 4, 4]".
inline DataError shape_error(const std::string& key, const at::Tensor& t, const std::string& but) {
  return DataError("field \"" + key + "\" has shape " + list_text(t.sizes()) + but);
}

// Refuses what is not [C, X, Y, Z], [C, X, Y], [C, X]: `least`..`most` spatial axes.
inline void require_spatial(const at::Tensor& t, const std::string& key, int least = 2,
                            int most = 3) {
  const auto axes = t.dim() - 1;
  if (axes >= least && axes <= most && t.numel() > 0) return;
  const std::string axes_text = most == 2    ? "X, Y]"
                                : least == 3 ? "X, Y, Z]"
                                : least == 1 ? "X], [C, X, Y] or [C, X, Y, Z]"
                                             : "X, Y] or [C, X, Y, Z]";
  throw shape_error(key, t, "; needed is [C, " + axes_text + " without an empty axis");
}

// What helps where field `key` has one number a sample and a network's output a vector of one.
inline std::string as_vector(const std::string& key, const at::Tensor& t,
                             const at::Tensor& output) {
  if (!t.defined() || !output.defined() || t.dim() + 1 != output.dim() || output.dim() > 2 ||
      output.size(-1) != 1)
    return "";
  return "; csv_list gives a vector of one by \"groups\": {\"" + key + "\": [\"" + key + "\"]}";
}

// A field that must hold an image.
inline const Field& image_field(const Sample& sample, const std::string& key) {
  const Field& field = sample.at(key);
  require_spatial(field.tensor, key);
  return field;
}

// Puts a transformed tensor and its new geometry into a field and writes down what was done.
// `values` are the transform's own numbers, enough to undo it together with the old shape.
inline void record(Field& field, at::Tensor tensor, const Affine& affine, std::string transform,
                   std::vector<double> values) {
  Applied applied{std::move(transform), field.geometry().affine, spatial_shape(field.tensor),
                  std::move(values)};
  field.meta = {with_affine(field.geometry(), affine, std::move(applied))};
  field.tensor = std::move(tensor);
}

}  // namespace sluice
