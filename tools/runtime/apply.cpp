#include "tools/runtime/apply.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <utility>

#include "engine/base/cause.h"
#include "engine/base/shell_word.h"
#include "engine/state/drive.h"
#include "kernels/lists/data_list.h"
#include "tools/runtime/apply_files.h"
#include "tools/runtime/apply_network.h"
#include "tools/runtime/gradients.h"

namespace sluice {
namespace {

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
void check_targets(const Result& result, const std::vector<FieldFile>& targets) {
  const std::size_t n = result.samples.size();
  for (const FieldFile& t : targets) {
    for (const Sample& s : result.samples)
      if (!s.has(t.key))
        throw Error(Exit::usage, "--out " + t.key + "=" + t.file + ": no such field comes out; " +
                                     "there are " + keys_of(s));
    if (n <= 1 || t.file.find("{}") != std::string::npos) continue;
    const std::filesystem::path given = t.file;
    const std::string stem = file_stem(given),
                      ending = given.filename().string().substr(stem.size());
    throw Error(Exit::usage, std::to_string(n) +
                                 " samples come out; {} in the file's name numbers them: --out " +
                                 shell_word(t.key + "=" + (given.parent_path() / stem).string()) +
                                 "_{}" + ending);
  }
}

Json write_results(const Result& result, const std::vector<FieldFile>& targets, bool several) {
  Json files = Json::array();
  for (std::size_t n = 0; n < result.samples.size(); ++n)
    for (const FieldFile& t : targets) {
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

void print(const Json& request, const Result& result, const Json& files) {
  const bool shows =
      request.at("out").empty() && request.at("out_grad").empty() && result.values.empty();
  const Json fields = shows ? described(result.samples) : Json::array();
  if (!request.at("json").get<bool>()) {
    print_fields(fields, result.samples.size() > 1);
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
                     const std::vector<FieldFile>& targets) {
  if (result.samples.size() != 1)
    throw Error(Exit::usage, "--out-grad: several samples come out, or none");
  const NamedTensors found = gradients(input, result.samples[0], grads, names, needed);
  for (const FieldFile& t : targets)
    write_field(t.file, Field(found.at(t.key), std::make_shared<const Meta>()));
}

int apply(const Json& request, const Spec& spec) {
  Sample input;
  const auto sources = targets_of(request.at("in")), targets = targets_of(request.at("out")),
             slopes = targets_of(request.at("out_grad"));
  const bool is_loss = spec.family == "loss";
  const bool of_batches = is_loss && std::ranges::any_of(spec.rules, [](const FieldRule& r) {
                            return r.act == FieldRule::Act::takes && r.form == Form::batch;
                          });
  for (const FieldFile& t : sources) {
    Field field = read_field(t.file, is_loss);
    if (of_batches && field.tensor.dim() < 3)
      throw DataError(t.file + ": has " + std::to_string(field.tensor.dim()) +
                      " axes; a loss takes batches [N, C, ...]");
    input.set(t.key, std::move(field));
  }
  input.name = file_stem(sources.front().file);
  const auto fired = [&](const Sample& sample) {
    return fire(spec, request.at("params"), sample,
                static_cast<std::uint64_t>(request.at("seed").get<std::int64_t>()));
  };
  const NamedTensors grads = read_grads(request.at("grad"));
  std::vector<std::string> names;
  for (const FieldFile& t : slopes) names.push_back(t.key);
  const std::vector<std::string> trained = add_trained(spec, request.at("params"), names, input);
  const bool checks = request.at("check_grad");
  const at::AutoGradMode tape(checks || !names.empty());
  if (!checks || !names.empty() || !targets.empty()) {
    const Sample taped = with_tape(input, names);
    const Result result = fired(taped);
    check_targets(result, targets);
    if (!names.empty()) write_gradients(taped, result, grads, names, trained, slopes);
    const Json files = write_results(result, targets, spec.arity == Arity::expand);
    if (!checks) print(request, result, files);
  }
  if (checks)
    return print_check(
        request, check_gradients([&](const Sample& s) { return fired(s).samples.at(0); }, input,
                                 grads, names.empty() ? differentiable(input) : names));
  return static_cast<int>(Exit::done);
}

}  // namespace

int apply_command(const Json& request) {
  const Spec& spec = *Registry::global().catalogue().find(request.at("type").get<std::string>());
  const at::NoGradGuard no_grad;
  at::set_num_threads(1);  // the same numbers on every machine
  try {
    return spec.is_network ? apply_network(request, spec) : apply(request, spec);
  } catch (...) {
    if (cause(Exit::data).text.starts_with(spec.name)) throw;  // a network names itself
    rethrow_with(spec.name, Exit::data);
  }
}

}  // namespace sluice
