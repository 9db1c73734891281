// The files of `sluice apply`: fields in and out, gradients, and how numbers are printed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/state/sample.h"
#include "tools/runtime/gradients.h"

namespace sluice {

struct FieldFile {
  std::string key, file;
};
// Of [[key, file], ...].
std::vector<FieldFile> targets_of(const Json& pairs);
bool is_npy(const std::string& file);

// A NIfTI file has no batch axis, which losses and networks need in front: `as_batch` adds it.
Field read_field(const std::string& file, bool as_batch);
void write_field(const std::string& file, const Field& field);
// NumPy's name of what the file holds of a tensor's type; NIfTI knows neither bool nor float16.
std::string disk_type(const std::string& file, at::ScalarType type);
NamedTensors read_grads(const Json& pairs);

// Shape, type, range and affine of every field. An affine that is not known is null, and so is the
// range of no voxels.
Json described(const std::vector<Sample>& samples);
// "image  float32 [1, 20, 20, 20], -1 to 1, affine [[-1, 0, 0, 90], ...]", a line each.
void print_fields(const Json& fields, bool several);

// The shortest text that reads back as the same number of the tensor's own precision.
std::string number_text(const at::Tensor& scalar);
// A line for each error, or one document where the request's "json" is set; the exit code, 1 where
// one is above 1e-4.
int print_check(const Json& request, const std::map<std::string, double>& errors);

}  // namespace sluice
