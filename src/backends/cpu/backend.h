// The processor as a device: memory, and plans made of heavy kernels and fused programs.
#pragma once

#include "runtime/backend.h"

namespace pippin {

/// The one CPU backend of the process.
runtime::Backend& cpu_backend();

namespace cpu {

class CpuBackend : public runtime::Backend {
  public:
    CpuBackend();
    const runtime::Capabilities& capabilities() const override { return capabilities_; }
    void* allocate(std::size_t bytes) override;
    void free(void* data, std::size_t bytes) override;
    bool supports(const plan::HeavyLaunch& launch) const override;
    std::unique_ptr<runtime::Executable> compile(const plan::Plan& plan) override;

  private:
    runtime::Capabilities capabilities_;
};

}  // namespace cpu
}  // namespace pippin
