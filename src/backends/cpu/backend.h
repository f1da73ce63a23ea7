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
    runtime::Memory allocate(std::size_t bytes) override;
    void free(const runtime::Memory& memory, std::size_t bytes) override;
    void upload(const runtime::Memory& to, const void* from, std::size_t bytes) override;
    void download(void* to, const runtime::Memory& from, std::size_t bytes) override;
    bool supports(const plan::HeavyLaunch& launch) const override;
    std::unique_ptr<runtime::Executable> compile(const plan::Plan& plan) override;

  private:
    runtime::Capabilities capabilities_;
};

}  // namespace cpu
}  // namespace pippin
