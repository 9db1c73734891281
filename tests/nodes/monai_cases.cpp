#include "tests/nodes/monai_cases.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "kernels/files/npy.h"
#include "kernels/image/foreground.h"
#include "kernels/image/spatial.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/monai_kernels.h"
#include "tests/nodes/on_device.h"

namespace sluice::monai {
namespace {

at::Tensor tensor_of(const Json& j, const std::filesystem::path& folder) {
  if (j.contains("file")) return read_npy(folder / j["file"].get<std::string>());
  const auto type = j["dtype"] == "uint8" ? at::kByte : at::kFloat;
  const auto values = j["values"].get<std::vector<double>>();
  return at::tensor(values, at::kDouble).to(type).view(j["shape"].get<std::vector<std::int64_t>>());
}

Sample sample_of(const Json& fields, const std::filesystem::path& folder) {
  Sample sample;
  sample.name = "case";
  for (const auto& [key, field] : fields.items()) {
    const Affine m = field.contains("affine") ? field["affine"].get<Affine>() : identity_affine;
    sample.set(key, sluice::sample_of(key, tensor_of(field, folder), m).at(key));
  }
  return sample;
}

// What of `got` the case keeps, and what MONAI has there.
struct Values {
  at::Tensor got, want;
};
Values values_of(const at::Tensor& got, const Json& want, const std::filesystem::path& folder) {
  const at::Tensor flat = got.cpu().to(at::kDouble).contiguous().flatten();
  if (want.contains("file")) return {flat, tensor_of(want, folder).to(at::kDouble).flatten()};
  const auto values = want["values"].get<std::vector<double>>();
  return {flat.slice(0, 0, c10::nullopt, want["every"].get<std::int64_t>()),
          at::tensor(values, at::kDouble)};
}

std::vector<std::int64_t> shape_of(const Json& want, const std::filesystem::path& folder) {
  if (want.contains("shape")) return want["shape"];
  return tensor_of(want, folder).sizes().vec();
}

// MONAI's list of what we keep as a bit a voxel.
Field listed(const Sample& sample, const std::string& key) {
  const Shape3 n = sluice::shape_of(to_volume(sample.tensor("label").cpu()));
  const VoxelBits bits(sample.tensor(key).cpu(), n);
  std::vector<std::int64_t> numbers;
  for (std::uint64_t k = 0; k < bits.count(); ++k) {
    const Shape3 v = bits.voxel(k);
    numbers.push_back((v[0] * n[1] + v[1]) * n[2] + v[2]);
  }
  return {at::tensor(numbers, at::kLong), sample.at(key).meta};
}

bool affine_fits(const Affine& got, const Affine& want) {
  double scale = 1;
  for (double v : want) scale = std::max(scale, std::abs(v));
  return near(got, want, 1e-6 * scale);
}

void compare(const std::string& key, const Field& field, const Json& want, const Json& one,
             const std::filesystem::path& folder, Outcome& outcome) {
  const auto shape = shape_of(want, folder);
  if (field.tensor.sizes().vec() != shape) {
    outcome.wrong += key + " has another shape; ";
    return;
  }
  if (want.contains("affine") && field.tensor.dim() == 4 &&
      !affine_fits(field.geometry().affine, want["affine"].get<Affine>()))
    outcome.wrong += key + " has another affine; ";
  const Values v = values_of(field.tensor, want, folder);
  if (v.want.numel() == 0) return;
  const double scale = std::max(v.want.abs().max().item<double>(), 1e-30);
  at::Tensor difference = (v.got - v.want).abs() / scale;
  difference =
      difference.nan_to_num(1e9) * at::isnan(v.got).logical_and(at::isnan(v.want)).logical_not();
  const double tolerance = one["tolerance"], allowed = one["ties"];
  const bool is_label = key != "image" && key != "other";
  double error = difference.max().item<double>();
  if (is_label && error > tolerance) {  // another neighbour of a voxel between two
    const double share = difference.gt(tolerance).to(at::kDouble).mean().item<double>();
    outcome.ties = std::max(outcome.ties, share);
    if (share <= allowed) error = 0;
  }
  outcome.error = std::max(outcome.error, error);
  if (!(error <= tolerance)) outcome.wrong += key + " differs; ";
}

}  // namespace

Outcome run(const Json& one, const std::filesystem::path& folder) {
  Outcome outcome;
  const std::string type = one["type"];
  std::vector<Sample> outs;
  try {
    const Sample in = sample_of(one["in"], folder);
    outs = type.starts_with("kernel.")
               ? run_kernel(type.substr(7), one["params"], in)
               : drive(type, one["params"], {on_device(type, one["params"], in)});
  } catch (const std::exception& e) {
    const std::string why = e.what();  // a GPU does not do all that a host does, and says so
    if (test_device().is_cpu() || why.find("not done on a GPU") == std::string::npos)
      outcome.wrong = why;
    return outcome;
  }
  if (outs.size() != one["out"].size()) {
    outcome.wrong = std::to_string(outs.size()) + " samples came out";
    return outcome;
  }
  for (std::size_t s = 0; s < outs.size(); ++s)
    for (const auto& [key, want] : one["out"][s].items()) {
      if (outs[s].has(key))
        compare(key, key.ends_with("_indices") ? listed(outs[s], key) : outs[s].at(key), want, one,
                folder, outcome);
      else
        outcome.wrong += "no field " + key + "; ";
    }
  return outcome;
}

std::string table(const std::map<std::string, Summary>& by_type) {
  std::ostringstream text;
  text << "transform                                          cases   worst error  other "
          "neighbour\n";
  for (const auto& [type, s] : by_type) {
    char line[160];
    std::snprintf(line, sizeof line, "%-50s %5d   %11.2e  %.2e\n", type.c_str(), s.cases,
                  s.worst.error, s.worst.ties);
    text << line;
  }
  return text.str();
}

}  // namespace sluice::monai
