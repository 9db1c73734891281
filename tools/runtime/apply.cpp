#include "tools/runtime/apply.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <charconv>
#include <cmath>
#include <iostream>
#include <utility>

#include "engine/base/cause.h"
#include "engine/state/drive.h"
#include "kernels/files/file_io.h"
#include "kernels/files/nifti.h"
#include "kernels/files/npy.h"
#include "kernels/files/volume.h"
#include "kernels/lists/data_list.h"
#include "tools/runtime/gradients.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Target {
  std::string key, file;
};

std::vector<Target> targets_of(const Json& pairs) {
  std::vector<Target> targets;
  for (const auto& pair : pairs) targets.push_back({pair.at(0), pair.at(1)});
  return targets;
}

bool is_npy(const std::string& file) { return file.ends_with(".npy"); }

// ---- files --------------------------------------------------------------------------------------

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

// A NIfTI file has no batch axis, which a loss needs in front.
Field read_field(const std::string& file, bool as_batch) {
  auto meta = std::make_shared<Meta>();
  meta->path = file;
  if (is_npy(file)) {
    at::Tensor data = read_npy(file);
    if (as_batch && data.dim() < 3)
      throw DataError(file + ": has " + std::to_string(data.dim()) +
                      " axes; a loss takes batches [N, C, ...]");
    read_affine(file, *meta);
    return Field(std::move(data), std::move(meta));
  }
  Volume v = read_volume(file);
  meta->affine = v.affine;
  meta->has_affine = v.has_affine;
  return Field(as_batch ? v.data.unsqueeze(0) : v.data, std::move(meta));
}

void write_affine(const std::string& file, const Meta& meta) {
  const std::string beside = file + ".json";
  Json rows;  // null takes the place of an older result's affine
  if (!meta.has_affine && !fs::exists(beside)) return;
  for (std::size_t i = 0; meta.has_affine && i < 16; i += 4)
    rows.push_back({meta.affine[i], meta.affine[i + 1], meta.affine[i + 2], meta.affine[i + 3]});
  const std::string text = Json{{"affine", rows}}.dump() + "\n";
  write_file(beside, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

// NumPy's name of what the file holds of a tensor's type; NIfTI knows neither bool nor float16.
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

// ---- the node -----------------------------------------------------------------------------------

struct Result {
  std::vector<Sample> samples;
  std::vector<std::pair<std::string, at::Tensor>> values;  // scalars, to be printed
};

void add_metrics(Driver& driver, Result& result) {
  Sample sample;
  for (const auto& [name, value] : driver.flush()) {
    const at::Tensor scalar = at::scalar_tensor(value, at::kDouble);
    if (result.values.empty()) result.values.emplace_back("value", scalar);
    result.values.emplace_back(name, scalar);
  }
  for (const auto& [name, scalar] : result.values)
    sample.set(name, Field(scalar, std::make_shared<const Meta>()));
  result.samples = {std::move(sample)};
}

Result fire(const Spec& spec, const Json& params, const Sample& input, std::uint64_t seed) {
  OpenContext context;
  context.seed = seed;
  Driver driver(spec.name, params, context);
  Result result;
  Fired fired = driver.fire({input});
  result.samples = fired.samples();
  if (spec.outs.empty()) {
    add_metrics(driver, result);
  } else if (result.samples.empty()) {
    throw DataError("nothing comes out: the sample is " +
                    (fired.skip_reason.empty() ? std::string("filtered") : fired.skip_reason));
  } else if (result.samples.size() == 1) {
    for (const auto& [key, field] : result.samples[0].fields())
      if (!input.has(key) && field.tensor.defined() && field.tensor.dim() == 0)
        result.values.emplace_back(key, field.tensor);
  }
  return result;
}

// ---- results ------------------------------------------------------------------------------------

std::string numbered(std::string file, std::size_t n) {
  const auto braces = file.find("{}");
  return braces == std::string::npos ? file : file.replace(braces, 2, std::to_string(n));
}

std::string keys_of(const Sample& sample) {
  std::string keys;
  for (const auto& [key, field] : sample.fields()) keys += (keys.empty() ? "" : ", ") + key;
  return keys;
}

// What is wrong with --out is said before anything is written.
void check_targets(const Result& result, const std::vector<Target>& targets) {
  const std::size_t n = result.samples.size();
  for (const Target& t : targets) {
    for (const Sample& s : result.samples)
      if (!s.has(t.key))
        throw Error(Exit::usage, "--out " + t.key + "=" + t.file + ": no such field comes out; " +
                                     "there are " + keys_of(s));
    if (n > 1 && t.file.find("{}") == std::string::npos)
      throw Error(Exit::usage, std::to_string(n) +
                                   " samples come out; {} in the file's name "
                                   "numbers them: --out " +
                                   t.key + "=" + file_stem(t.file) + "_{}" +
                                   (is_npy(t.file) ? ".npy" : ".nii.gz"));
  }
}

Json write_results(const Result& result, const std::vector<Target>& targets, bool several) {
  Json files = Json::array();
  for (std::size_t n = 0; n < result.samples.size(); ++n)
    for (const Target& t : targets) {
      const Field& field = result.samples[n].at(t.key);
      const std::string file = several ? numbered(t.file, n) : t.file;
      write_field(file, field);
      files.push_back({{"key", t.key},
                       {"file", file},
                       {"shape", field.tensor.sizes().vec()},
                       {"dtype", disk_type(file, field.tensor.scalar_type())}});
    }
  return files;
}

// The shortest text that reads back as the same number of the tensor's own precision.
std::string number_text(const at::Tensor& scalar) {
  char text[40];
  const auto print = [&](auto v) {
    if (std::isnan(v)) return std::string("nan");  // never "-nan"
    return std::string(text, std::to_chars(text, text + sizeof text, v).ptr);
  };
  return scalar.scalar_type() == at::kFloat ? print(scalar.item<float>())
                                            : print(scalar.item<double>());
}

// What came out where no file was asked for. An affine that is not known is null, and so is
// the range of no voxels.
Json described(const Result& result) {
  Json all = Json::array();
  for (std::size_t n = 0; n < result.samples.size(); ++n)
    for (const auto& [key, field] : result.samples[n].fields()) {
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
        j["least"] = t.min().item<double>();
        j["most"] = t.max().item<double>();
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

// "image  float32 [1, 20, 20, 20], -1 to 1, affine [[-1, 0, 0, 90], ...]"
void print(const Json& fields, bool several) {
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

void print(const Json& request, const Result& result, const Json& files) {
  const bool shows =
      request.at("out").empty() && request.at("out_grad").empty() && result.values.empty();
  const Json fields = shows ? described(result) : Json::array();
  if (!request.at("json").get<bool>()) {
    print(fields, result.samples.size() > 1);
    for (const auto& [name, value] : result.values)
      std::cout << name << ' ' << number_text(value) << '\n';
    return;
  }
  Json values = Json::object();
  for (const auto& [name, value] : result.values) {
    const double v = value.item<double>();
    values[name] = std::isfinite(v) ? Json(v) : Json();
  }
  std::cout << Json{{"type", request.at("type")}, {"params", request.at("params")},
                    {"seed", request.at("seed")}, {"files", files},
                    {"fields", fields},           {"values", values}}
                   .dump(2, ' ', false, Json::error_handler_t::replace)
            << '\n';
}

NamedTensors read_grads(const Json& pairs) {
  NamedTensors grads;
  for (const Target& t : targets_of(pairs)) grads[t.key] = read_field(t.file, false).tensor;
  return grads;
}

// Parameters among `names` become fields, so that a node which trains them finds them on the tape.
std::vector<std::string> add_trained(const Spec& spec, const Json& params,
                                     const std::vector<std::string>& names, Sample& input) {
  std::vector<std::string> added;
  auto type = at::kFloat;
  for (const auto& [key, field] : input.fields())
    if (field.tensor.scalar_type() == at::kDouble) type = at::kDouble;
  for (const auto& name : names) {
    const ParamSpec* param = spec.find_param(name);
    if (input.has(name) || !param || (param->type != "float" && param->type != "list<float>"))
      continue;
    const Json value = params.value(name, param->fallback);
    at::Tensor numbers = at::tensor(ParamType<std::vector<double>>::parse(value), type);
    if (!value.is_array()) numbers = numbers.squeeze(0);
    input.set(name, Field(std::move(numbers), std::make_shared<const Meta>()));
    added.push_back(name);
  }
  return added;
}

void write_gradients(const Sample& input, const Result& result, const NamedTensors& grads,
                     const std::vector<std::string>& names, const std::vector<std::string>& needed,
                     const std::vector<Target>& targets) {
  if (result.samples.size() != 1)
    throw Error(Exit::usage, "--out-grad: several samples come out, or none");
  const NamedTensors found = gradients(input, result.samples[0], grads, names, needed);
  for (const Target& t : targets)
    write_field(t.file, Field(found.at(t.key), std::make_shared<const Meta>()));
}

int print_check(const std::map<std::string, double>& errors) {
  bool good = true;
  for (const auto& [name, error] : errors) {
    std::cout << name << ' ' << number_text(at::scalar_tensor(error, at::kDouble)) << '\n';
    good = good && error <= 1e-4;
  }
  return good ? static_cast<int>(Exit::done) : 1;
}

int apply(const Json& request, const Spec& spec) {
  Sample input;
  const auto sources = targets_of(request.at("in")), targets = targets_of(request.at("out")),
             slopes = targets_of(request.at("out_grad"));
  for (const Target& t : sources) input.set(t.key, read_field(t.file, spec.family == "loss"));
  input.name = file_stem(sources.front().file);
  const auto fired = [&](const Sample& sample) {
    return fire(spec, request.at("params"), sample,
                static_cast<std::uint64_t>(request.at("seed").get<std::int64_t>()));
  };
  const NamedTensors grads = read_grads(request.at("grad"));
  std::vector<std::string> names;
  for (const Target& t : slopes) names.push_back(t.key);
  const std::vector<std::string> trained = add_trained(spec, request.at("params"), names, input);
  const bool checks = request.at("check_grad");
  const at::AutoGradMode tape(checks || !names.empty());
  if (checks)
    return print_check(check_gradients([&](const Sample& s) { return fired(s).samples.at(0); },
                                       input, grads,
                                       names.empty() ? differentiable(input) : names));
  input = with_tape(input, names);
  const Result result = fired(input);
  check_targets(result, targets);
  if (!names.empty()) write_gradients(input, result, grads, names, trained, slopes);
  const Json files = write_results(result, targets, spec.arity == Arity::expand);
  print(request, result, files);
  return static_cast<int>(Exit::done);
}

}  // namespace

int apply_command(const Json& request) {
  const Spec& spec = *Registry::global().catalogue().find(request.at("type").get<std::string>());
  const at::NoGradGuard no_grad;
  at::set_num_threads(1);  // the same numbers on every machine
  try {
    return apply(request, spec);
  } catch (...) {
    rethrow_with(spec.name, Exit::data);
  }
}

}  // namespace sluice
