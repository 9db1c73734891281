// A tool as NVTX sees one: a library that it loads and that takes its calls. Counts what Sluice
// pushes, by name, and writes it to $NVTX_TOOL_OUT at the process's end.
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::map<std::string, int> pushed;
int open_ranges = 0;
std::string domain_name;

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  domain_name = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain_name);
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(new std::string(text));
}
int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  std::lock_guard lock(mutex);
  ++pushed[*reinterpret_cast<const std::string*>(event->message.registered)];
  return open_ranges++;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  std::lock_guard lock(mutex);
  return --open_ranges;
}

struct AtExit {
  ~AtExit() {
    const char* file = std::getenv("NVTX_TOOL_OUT");
    if (!file) return;
    std::ofstream out(file);
    out << domain_name << " " << open_ranges << "\n";
    for (const auto& [name, n] : pushed) out << name << " " << n << "\n";
  }
} at_exit;

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] =
      reinterpret_cast<NvtxFunctionPointer>(register_string);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
