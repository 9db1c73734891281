// Ranges for NVIDIA's profilers, named after nodes, in a domain of our own.
//
// Invariant: without a tool that has attached itself a range is one load and one branch. NVTX is a
// header; the tool's library comes by NVTX_INJECTION64_PATH or from Nsight itself.
#pragma once

#include <string>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define SLUICE_HAS_NVTX 1
#endif

namespace sluice {

#ifdef SLUICE_HAS_NVTX

inline nvtxDomainHandle_t nvtx_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("sluice");
  return domain;
}

// A registered name; made once, used for every range.
class NvtxName {
 public:
  explicit NvtxName(const std::string& name) {
    if (nvtx_domain()) handle_ = nvtxDomainRegisterStringA(nvtx_domain(), name.c_str());
  }

 private:
  friend class NvtxRange;
  nvtxStringHandle_t handle_ = nullptr;
};

class NvtxRange {
 public:
  explicit NvtxRange(const NvtxName& name) : open_(name.handle_ != nullptr) {
    if (!open_) return;
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = name.handle_;
    nvtxDomainRangePushEx(nvtx_domain(), &attributes);
  }
  ~NvtxRange() {
    if (open_) nvtxDomainRangePop(nvtx_domain());
  }
  NvtxRange(const NvtxRange&) = delete;

 private:
  const bool open_;
};

#else

struct NvtxName {
  explicit NvtxName(const std::string&) {}
};
struct NvtxRange {
  explicit NvtxRange(const NvtxName&) {}
};

#endif

}  // namespace sluice
