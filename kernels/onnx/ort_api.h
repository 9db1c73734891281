// ONNX Runtime's table of functions, opened at run time: nothing links it, and no package has its
// header. `OrtApi` only grows at its end; the places that are used here are named below. No tensors
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/base/error.h"

namespace sluice::onnx {

// A function's place in OrtApi, version 12 and later (include/onnxruntime/core/session/
// onnxruntime_c_api.h), and its type. Each but the last ones answers with a status, null: done.
using Status = void*;
template <int Place, class... Arguments>
struct Entry {
  static constexpr int place = Place;
  using Function = Status (*)(Arguments...);
};
using Out = void**;
using CreateEnv = Entry<3, int, const char*, Out>;
using CreateSession = Entry<7, void*, const char*, const void*, Out>;
using Run = Entry<9, void*, const void*, const char* const*, const void* const*, std::size_t,
                  const char* const*, std::size_t, Out>;
using CreateSessionOptions = Entry<10, Out>;
using SetIntraOpNumThreads = Entry<24, void*, int>;
using CreateTensorWithDataAsOrtValue =
    Entry<49, const void*, void*, std::size_t, const std::int64_t*, std::size_t, int, Out>;
using GetTensorMutableData = Entry<51, void*, Out>;
using GetTensorElementType = Entry<60, const void*, int*>;
using GetDimensionsCount = Entry<61, const void*, std::size_t*>;
using GetDimensions = Entry<62, const void*, std::int64_t*, std::size_t>;
using GetTensorTypeAndShape = Entry<65, const void*, Out>;
using CreateCpuMemoryInfo = Entry<69, int, int, Out>;
using GetAvailableProviders = Entry<125, char***, int*>;
using ReleaseAvailableProviders = Entry<126, char**, int>;
using AppendCuda = Entry<152, void*, const void*>;
using AppendTensorRt = Entry<170, void*, const void*>;
using CreateTensorRtOptions = Entry<171, Out>;
using UpdateTensorRtOptions =
    Entry<172, void*, const char* const*, const char* const*, std::size_t>;
constexpr int get_error_message = 2, release_status = 93, release_memory_info = 94,
              release_session = 95, release_value = 96, release_shape = 99,
              release_session_options = 100, release_tensorrt_options = 174;
constexpr std::uint32_t api_version = 12;
constexpr int element_float = 1, element_uint8 = 2;

struct Base {
  const void* const* (*api)(std::uint32_t version);
  const char* (*version)();
};

struct Table {
  const void* const* api = nullptr;
  std::string version, file;
  void* environment = nullptr;
  void* memory = nullptr;

  template <class Function>
  Function at(int place) const {
    return reinterpret_cast<Function>(const_cast<void*>(api[place]));
  }
  void release(int place, void* what) const {
    if (what) at<void (*)(void*)>(place)(what);
  }
  // Throws what the library says.
  template <class E, class... Arguments>
  void call(const std::string& file, Arguments... arguments) const {
    const Status status = at<typename E::Function>(E::place)(arguments...);
    if (!status) return;
    const std::string why = at<const char* (*)(const void*)>(get_error_message)(status);
    release(release_status, status);
    throw Error(Exit::usage, file + ": ONNX Runtime " + version + ": " + why);
  }
};

// The library in a folder, whose name may end in its version; "": there is none.
std::string library_in(const std::filesystem::path& folder);

// An Error(usage) where the file is none, cannot be loaded or is older than 1.12.
Table load_table(const std::string& file);

// What a table's functions made, until it is let go.
struct Release {
  const Table* table = nullptr;
  int place = 0;
  void operator()(void* what) const { table->release(place, what); }
};
using Held = std::unique_ptr<void, Release>;

}  // namespace sluice::onnx
