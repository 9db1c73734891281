// What the runtime was linked with and has found, for `sluice doctor`.
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <tbb/version.h>
#include <torch/version.h>

#include <filesystem>

#include "engine/base/version.h"
#include "engine/graph/spec.h"
#include "engine/session/environment.h"

extern "C" const char* sluice_runtime_versions() {
  using namespace sluice;
  static std::string text;
  Dl_info torch{};
  dladdr(reinterpret_cast<void*>(&at::get_num_threads), &torch);
  const std::filesystem::path file = torch.dli_fname ? torch.dli_fname : "";
  text = Json{{"sluice", version},
              {"libtorch", TORCH_VERSION},
              {"libtorch_folder", file.parent_path().string()},
              {"tbb", TBB_runtime_version()},
              {"itk", itk_version()}}
             .dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.c_str();
}
