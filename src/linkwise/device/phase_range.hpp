// Operations as ranges of NVTX, in its domain "linkwise" and named by their phase: what a profiler shows above the
// kernels and copies that are launched in each. Where no profiler listens, a range is a call through a null pointer.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace linkwise {

/// The calling thread is in this phase as long as it lives.
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
