#include "tools/runtime/data/data_facts.h"

#include <cmath>
#include <limits>

#include "engine/base/cause.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The values of a label and how often each is there. Neighbours are mostly alike.
void count_values(FileFacts& facts, const double* v, std::int64_t n) {
  Seen* last = nullptr;
  double last_value = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t i = 0; i < n; ++i) {
    if (v[i] != last_value) {
      if (!std::isfinite(v[i])) continue;
      if (facts.values.size() > FileFacts::most_values) return;
      last = &facts.values.try_emplace(v[i], Seen{0, i}).first->second;
      last_value = v[i];
    }
    ++last->voxels;
  }
}

template <class T>
void look_at_range(FileFacts& facts, const T* v, std::int64_t n) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(v[i])) {
      if (facts.not_finite.voxels++ == 0) facts.not_finite.first = i;
      continue;
    }
    least = std::min(least, double{v[i]});
    most = std::max(most, double{v[i]});
  }
  facts.least = least;
  facts.most = most;
}

void describe(FileFacts& facts, const Volume& v, bool is_label) {
  facts.readable = true;
  const at::Tensor& voxels = is_label && v.numbers.defined() ? v.numbers : v.data;
  facts.channels = voxels.size(0);
  facts.shape = voxels.sizes().slice(1).vec();
  facts.affine = v.affine;
  facts.spacing = v.spacing;
  facts.has_affine = v.has_affine;
  facts.placed = v.placed;
  facts.dtype = v.disk_dtype;
  const std::int64_t n = voxels.numel();
  if (is_label) {
    look_at_range(facts, voxels.const_data_ptr<double>(), n);
    count_values(facts, voxels.const_data_ptr<double>(), n);
  } else {
    look_at_range(facts, voxels.const_data_ptr<float>(), n);
  }
  CacheDigest digest;
  digest.add(facts.shape.data(), facts.shape.size() * sizeof(std::int64_t));
  facts.voxels = digest.add(voxels.const_data_ptr(), voxels.nbytes()).key();
}

}  // namespace

std::string FileFacts::place(std::int64_t voxel) const {
  std::string text = "]";
  for (std::size_t d = shape.size(); d-- > 0; voxel /= shape[d])
    text = (d > 0 ? ", " : "[") + std::to_string(voxel % shape[d]) + text;
  return channels > 1 ? "channel " + std::to_string(voxel) + " " + text : text;
}

FileFacts facts_of(const std::string& file, bool is_label, const Manifest* manifest) {
  FileFacts facts;
  std::error_code problem;
  facts.there = fs::exists(file, problem);
  if (!facts.there) return facts;
  const auto read = [&](const fs::path& path) {
    FileBytes bytes = read_file(path);
    if (path == fs::path(file)) facts.sha256 = sha256(bytes.view());
    if (manifest) try {
        manifest->verify(path, bytes.view());
      } catch (const DataError& e) {
        facts.not_as_indexed = e.what();
      }
    return bytes;
  };
  try {
    describe(facts, read_volume(file, is_label ? at::kDouble : at::kFloat, read), is_label);
  } catch (...) {
    const Cause why = cause(Exit::data);
    if (why.of_machine) throw;
    facts.why = why.text;
  }
  return facts;
}

}  // namespace sluice
