#include "tools/runtime/apply_files.h"

#include <ATen/Functions.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/files/nifti.h"
#include "kernels/files/npy.h"
#include "kernels/files/volume.h"
#include "kernels/lists/data_list.h"
#include "tools/runtime/write_text.h"

namespace sluice {

namespace fs = std::filesystem;

std::vector<FieldFile> targets_of(const Json& pairs) {
  std::vector<FieldFile> targets;
  for (const auto& pair : pairs) targets.push_back({pair.at(0), pair.at(1)});
  return targets;
}

bool is_npy(const std::string& file) { return has_ending(file, ".npy"); }

namespace {

// An array's geometry stands in a file of its own beside it: {"affine": [[...], ...]}.
void read_affine(const std::string& file, Meta& meta) {
  const std::string beside = file + ".json";
  if (!fs::exists(beside)) return;
  const Json document = read_json(beside);
  const auto bad = [&] {
    return DataError(beside + ": expected {\"affine\": 4 rows of 4 numbers}");
  };
  if (!document.is_object() || !document.contains("affine")) throw bad();
  const Json& rows = document["affine"];
  if (rows.is_null()) return;
  if (!rows.is_array() || rows.size() != 4) throw bad();
  for (std::size_t i = 0; i < 4; ++i) {
    if (!rows[i].is_array() || rows[i].size() != 4) throw bad();
    for (std::size_t j = 0; j < 4; ++j) {
      if (!rows[i][j].is_number()) throw bad();
      meta.affine[4 * i + j] = rows[i][j].get<double>();
    }
  }
  meta.has_affine = true;
}

}  // namespace

Field read_field(const std::string& file, bool as_batch) {
  auto meta = std::make_shared<Meta>();
  meta->path = file;
  if (is_npy(file)) {
    read_affine(file, *meta);
    return Field(read_npy(file), std::move(meta));
  }
  Volume v = read_volume(file);
  meta->affine = v.affine;
  meta->has_affine = v.has_affine;
  return Field(as_batch ? v.data.unsqueeze(0) : v.data, std::move(meta));
}

namespace {

void write_affine(const std::string& file, const Meta& meta) {
  const std::string beside = file + ".json";
  Json rows;  // null takes the place of an older result's affine
  if (!meta.has_affine && !fs::exists(beside)) return;
  for (std::size_t i = 0; meta.has_affine && i < 16; i += 4)
    rows.push_back({meta.affine[i], meta.affine[i + 1], meta.affine[i + 2], meta.affine[i + 3]});
  write_text(beside, Json{{"affine", rows}}.dump() + "\n");
}

}  // namespace

std::string disk_type(const std::string& file, at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return is_npy(file) ? "bool" : "uint8";
    case at::kHalf:
      return is_npy(file) ? "float16" : "float32";
    case at::kDouble:
      return "float64";
    case at::kByte:
      return "uint8";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    default:
      return "float32";
  }
}

void write_field(const std::string& file, const Field& field) {
  if (is_npy(file)) {
    write_npy(file, field.tensor.detach());
    return write_affine(file, field.geometry());
  }
  at::Tensor data = field.tensor.detach();
  if (data.dim() == 3) data = data.unsqueeze(-1);  // [C, X, Y]: a volume of one slice
  write_nifti(file, data, field.geometry().affine, disk_type(file, data.scalar_type()));
}

NamedTensors read_grads(const Json& pairs) {
  NamedTensors grads;
  for (const FieldFile& t : targets_of(pairs)) grads[t.key] = read_field(t.file, false).tensor;
  return grads;
}

std::string number_text(const at::Tensor& scalar) {
  char text[40];
  const auto print = [&](auto v) {
    if (std::isnan(v)) return std::string("nan");  // never "-nan"
    return std::string(text, std::to_chars(text, text + sizeof text, v).ptr);
  };
  return scalar.scalar_type() == at::kFloat ? print(scalar.item<float>())
                                            : print(scalar.item<double>());
}

Json described(const std::vector<Sample>& samples) {
  Json all = Json::array();
  for (std::size_t n = 0; n < samples.size(); ++n)
    for (const auto& [key, field] : samples[n].fields()) {
      const at::Tensor& t = field.tensor;
      if (!t.defined()) continue;
      Json j = {{"sample", n},
                {"key", key},
                {"shape", t.sizes().vec()},
                {"dtype", disk_type(".npy", t.scalar_type())},
                {"least", nullptr},
                {"most", nullptr},
                {"affine", nullptr}};
      if (t.numel() > 0) {
        const auto number = [](const at::Tensor& value) {
          const auto v = value.item<double>();
          return std::isnan(v) ? std::nan("") : v;  // never "-nan"
        };
        j["least"] = number(t.min());
        j["most"] = number(t.max());
      }
      const Meta& meta = field.geometry();
      for (std::size_t i = 0; meta.has_affine && i < 16; i += 4) {
        if (i == 0) j["affine"] = Json::array();
        j["affine"].push_back(
            std::vector<double>(meta.affine.begin() + i, meta.affine.begin() + i + 4));
      }
      all.push_back(std::move(j));
    }
  return all;
}

void print_fields(const Json& fields, bool several) {
  for (const Json& j : fields) {
    if (several) std::cout << j["sample"] << ' ';
    std::cout << j["key"].get<std::string>() << "  " << j["dtype"].get<std::string>() << " [";
    const char* comma = "";
    for (const Json& extent : j["shape"]) std::cout << std::exchange(comma, ", ") << extent;
    std::cout << ']';
    if (!j["least"].is_null())
      std::cout << ", " << j["least"].get<double>() << " to " << j["most"].get<double>();
    if (j["affine"].is_null()) {
      std::cout << ", no affine\n";
      continue;
    }
    std::cout << ", affine [";
    comma = "";
    for (const Json& row : j["affine"]) {
      std::cout << std::exchange(comma, ", ") << '[';
      const char* between = "";
      for (const Json& v : row) std::cout << std::exchange(between, ", ") << v.get<double>();
      std::cout << ']';
    }
    std::cout << "]\n";
  }
}

int print_check(const Json& request, const std::map<std::string, double>& errors) {
  bool good = true;
  Json found = Json::object();
  for (const auto& [name, error] : errors) {
    found[name] = std::isfinite(error) ? Json(error) : Json();
    good = good && error <= 1e-4;
  }
  if (request.at("json"))
    std::cout << Json{{"type", request.at("type")}, {"errors", found}, {"good", good}}.dump(2)
              << '\n';
  else
    for (const auto& [name, error] : errors)
      std::cout << name << ' ' << number_text(at::scalar_tensor(error, at::kDouble)) << '\n';
  return good ? static_cast<int>(Exit::done) : 1;
}

}  // namespace sluice
