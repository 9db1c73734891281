// Golden values on a GPU: SLUICE_TEST_DEVICE=gpu puts there what nodes and networks are given, in
// float32 without TF32. tools/gpu_check.sh runs them so; without the variable nothing moves.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "engine/state/tensor_device.h"

namespace sluice {

inline at::Device test_device() {
  static const at::Device there = [] {
    const char* given = std::getenv("SLUICE_TEST_DEVICE");
    if (!given || std::string(given) != "gpu") return at::Device(at::kCPU);
    const auto device = find_device();
    REQUIRE_MESSAGE(device, "SLUICE_TEST_DEVICE=gpu, and there is none");
    at::globalContext().setAllowTF32CuDNN(false);
    return device->place();
  }();
  return there;
}

inline at::Tensor on_device(const at::Tensor& t) { return t.defined() ? t.to(test_device()) : t; }

// As behind a to_device: all but what the node reads on the host; nothing where it works there.
inline Sample on_device(const std::string& type, const Json& params, Sample sample) {
  const Spec* spec = Registry::global().catalogue().find(type);
  if (!spec || spec->host_only || spec->off_device(params)) return sample;
  std::set<std::string> stays;
  for (const FieldRule& rule : spec->rules) {
    if (rule.act != FieldRule::Act::stays) continue;
    const std::string param = rule.fields.substr(1);  // "@param"
    const Json name = params.value(param, spec->find_param(param)->fallback);
    if (name.is_string()) stays.insert(name);
  }
  for (auto& [key, field] : sample.fields())
    if (!stays.contains(key)) field.tensor = on_device(field.tensor);
  return sample;
}

}  // namespace sluice
