// Stands in for ONNX Runtime in the tests of providers: writes down what it is called with, to the
// file that FAKE_ONNXRUNTIME_LOG names, and answers every batch with zeros of two channels. The
// places in its table are those of OrtApi, which the real library is asked by as well.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Status = void*;

void say(const char* what, const char* more = "", const char* value = "") {
  const char* name = std::getenv("FAKE_ONNXRUNTIME_LOG");
  std::FILE* f = name ? std::fopen(name, "a") : nullptr;
  if (!f) return;
  std::fprintf(f, "%s%s%s%s%s\n", what, *more ? " " : "", more, *value ? "=" : "", value);
  std::fclose(f);
}

std::string cache;  // where TensorRT would keep an engine

struct Value {
  std::vector<std::int64_t> size;
  std::vector<float> data;
};

Status make(void** out) {
  static int thing;
  *out = &thing;
  return nullptr;
}
Status nothing() { return nullptr; }
const char* message(const void*) { return "it said no"; }
Status create_env(int, const char*, void** out) { return make(out); }
Status create_session(void*, const char*, const void*, void** out) {
  say("CreateSession");
  if (std::FILE* f = cache.empty() ? nullptr : std::fopen((cache + "/fake.engine").c_str(), "w")) {
    std::fputs("an engine", f);
    std::fclose(f);
  }
  return make(out);
}
Status threads(void*, int) { return nullptr; }
Status memory_info(int, int, void** out) { return make(out); }
Status create_tensor(const void*, void*, std::size_t, const std::int64_t* size, std::size_t axes,
                     int, void** out) {
  *out = new Value{{size, size + axes}, {}};
  return nullptr;
}
Status run(void*, const void*, const char* const*, const void* const* in, std::size_t,
           const char* const*, std::size_t count, void** out) {
  Value y = *static_cast<const Value*>(in[0]);
  say("Run", std::to_string(y.size[0]).c_str());
  y.size[1] = 2;
  std::size_t n = 1;
  for (const auto s : y.size) n *= static_cast<std::size_t>(s);
  y.data.assign(n, 0.f);
  for (std::size_t i = 0; i < count; ++i) out[i] = new Value(y);
  return nullptr;
}
Status data(void* value, void** out) {
  *out = static_cast<Value*>(value)->data.data();
  return nullptr;
}
Status element(const void*, int* type) {
  *type = 1;
  return nullptr;
}
Status axes(const void* shape, std::size_t* n) {
  *n = static_cast<const Value*>(shape)->size.size();
  return nullptr;
}
Status extents(const void* shape, std::int64_t* to, std::size_t n) {
  std::memcpy(to, static_cast<const Value*>(shape)->size.data(), n * sizeof(std::int64_t));
  return nullptr;
}
Status shape_of(const void* value, void** out) {
  *out = const_cast<void*>(value);
  return nullptr;
}
void release_value(void* value) { delete static_cast<Value*>(value); }

char names[3][32] = {"TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"};
char* list[3] = {names[0], names[1], names[2]};
Status available(char*** out, int* count) {
  *out = list;
  *count = 3;
  return nullptr;
}
Status append_cuda(void*, const void*) {
  say("CUDA");
  return std::getenv("FAKE_NO_CUDA") ? const_cast<char*>("no") : nullptr;
}
Status append_tensorrt(void*, const void*) {
  say("TensorRT");
  return std::getenv("FAKE_NO_TENSORRT") ? const_cast<char*>("no") : nullptr;
}
Status update(void*, const char* const* keys, const char* const* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    say("option", keys[i], values[i]);
    if (std::strcmp(keys[i], "trt_engine_cache_path") == 0) cache = values[i];
  }
  return nullptr;
}

const void* table[300];

const void* const* api(std::uint32_t version) {
  if (version != 12 || std::getenv("FAKE_OLD")) return nullptr;
  for (auto& place : table) place = reinterpret_cast<const void*>(&nothing);
  const auto put = [](int place, auto* f) { table[place] = reinterpret_cast<const void*>(f); };
  put(2, message);
  put(3, create_env);
  put(7, create_session);
  put(9, run);
  put(10, make);
  put(24, threads);
  put(49, create_tensor);
  put(51, data);
  put(60, element);
  put(61, axes);
  put(62, extents);
  put(65, shape_of);
  put(69, memory_info);
  put(96, release_value);
  put(125, available);
  put(152, append_cuda);
  put(170, append_tensorrt);
  put(171, make);
  put(172, update);
  return table;
}
const char* version() { return "1.99.0"; }
struct Base {
  const void* const* (*api)(std::uint32_t);
  const char* (*version)();
};

}  // namespace

extern "C" const Base* OrtGetApiBase() {
  static const Base base{api, version};
  return &base;
}
