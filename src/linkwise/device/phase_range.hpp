// NVTX ranges around operations, in the domain "linkwise" and named by phase: a profiler shows them above the kernels
// and copies that are launched within. Without a profiler, a range costs next to nothing.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace linkwise {

/// Marks the calling thread as in this phase for the lifetime of the object.
class PhaseRange {
 public:
  explicit PhaseRange(const std::string& phase) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = phase.c_str();
    nvtxDomainRangePushEx(domain(), &attributes);
  }
  ~PhaseRange() { nvtxDomainRangePop(domain()); }
  PhaseRange(const PhaseRange&) = delete;
  PhaseRange& operator=(const PhaseRange&) = delete;

 private:
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t linkwise = nvtxDomainCreateA("linkwise");
    return linkwise;
  }
};

}  // namespace linkwise
