// A sample: named fields, each a tensor with its geometry and where it came from.
//
// Invariant: a Sample that was emitted never changes. A transform copies it (handles only),
// replaces fields and emits the copy; tensors are never written in place once emitted.
//
// Volumes are channel first, [C, X, Y, Z] with X, Y, Z the file's i, j, k axes (MONAI's layout);
// a batch adds N in front. Images are contiguous float32 unless a node says otherwise.
// Affines map voxel (i, j, k) to RAS millimetres.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/node.h"

namespace sluice {

// Row-major 4x4, voxel -> RAS mm.
using Affine = std::array<double, 16>;

inline constexpr Affine identity_affine{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

// What a spatial transform did, so that `invert` and writers can undo it.
struct Applied {
  std::string transform;                   // type name: "spacing", "orientation", "crop", ...
  Affine affine_before;                    // the field's affine before the transform
  std::vector<std::int64_t> shape_before;  // spatial shape before it
  std::vector<double> values;              // the transform's own numbers, in its own order
};

// Geometry and provenance of one tensor; immutable and shared.
struct Meta {
  std::string path;  // the file it was read from; empty for made data
  Affine affine = identity_affine;
  bool has_affine = false;       // false: no geometry is known; affine is the identity
  std::vector<Applied> history;  // oldest first
};
using MetaPtr = std::shared_ptr<const Meta>;

class Pending;  // kernels/augment/pending.h: what is still to be done to a tensor

struct Field {
  at::Tensor tensor;          // undefined: a record that is not loaded yet (meta has path)
  std::vector<MetaPtr> meta;  // one; after `batch` one a member; never null
  // Inside a run of fused nodes alone (plan.h): `meta` is that of the result, `tensor` is not yet.
  std::shared_ptr<const Pending> pending;

  Field() : meta{std::make_shared<const Meta>()} {}
  Field(at::Tensor t, MetaPtr m) : tensor(std::move(t)), meta{std::move(m)} {}
  Field(at::Tensor t, std::vector<MetaPtr> m) : tensor(std::move(t)), meta(std::move(m)) {}

  const Meta& geometry() const { return *meta.front(); }
};

class Sample {
 public:
  std::string name;  // for messages and output files: the item's stem, "hippocampus_001"
  std::vector<std::string> members;  // of a batch: its samples' names

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Field* find(std::string_view key) const;
  // Throws DataError that names the missing field and those that are there.
  const Field& at(std::string_view key) const;
  const at::Tensor& tensor(std::string_view key) const { return at(key).tensor; }
  void set(std::string_view key, Field field);
  void erase(std::string_view key);
  const std::vector<std::pair<std::string, Field>>& fields() const { return fields_; }
  std::vector<std::pair<std::string, Field>>& fields() { return fields_; }

 private:
  std::vector<std::pair<std::string, Field>> fields_;  // few: searched in order
};

// The same geometry with another affine and one more entry of history.
MetaPtr with_affine(const Meta& meta, const Affine& affine, Applied applied);

}  // namespace sluice
