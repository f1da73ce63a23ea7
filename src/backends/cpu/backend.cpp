#include "backends/cpu/backend.h"

#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/system.h"

namespace pippin {

runtime::Backend& cpu_backend() {
    // Never destroyed: at exit the queue may still run a plan that nobody waited for.
    static auto* backend = new cpu::CpuBackend;
    return *backend;
}

namespace cpu {

CpuBackend::CpuBackend() {
    capabilities_.name = processor_name();
    capabilities_.unified_memory = true;
    capabilities_.float64 = true;
    capabilities_.memory_bytes = memory_bytes();
}

runtime::Memory CpuBackend::allocate(std::size_t bytes) {
    return runtime::host_memory(allocate_pages(bytes));
}

void CpuBackend::free(const runtime::Memory& memory, std::size_t bytes) {
    free_pages(memory.host, bytes);
}

void CpuBackend::upload(const runtime::Memory& to, const void* from, std::size_t bytes) {
    if (bytes) std::memcpy(to.host, from, bytes);
}

void CpuBackend::download(void* to, const runtime::Memory& from, std::size_t bytes) {
    if (bytes) std::memcpy(to, from.host, bytes);
}

bool CpuBackend::supports(const plan::HeavyLaunch& launch) const { return refusal(launch).empty(); }

std::unique_ptr<runtime::Executable> CpuBackend::compile(const plan::Plan& plan) {
    return std::make_unique<CpuExecutable>(plan);
}

}  // namespace cpu
}  // namespace pippin
