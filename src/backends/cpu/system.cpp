#include "backends/cpu/system.h"

#include "backends/cpu/large_pages.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace pippin::cpu {

std::string processor_name() {
#if defined(__linux__)
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        // x86 says "model name"; some ARM boards say "Model" or nothing at all.
        if (line.rfind("model name", 0) != 0 && line.rfind("Model", 0) != 0) continue;
        const std::size_t colon = line.find(": ");
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
#elif defined(__APPLE__)
    char name[256];
    std::size_t size = sizeof name;
    if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0) return name;
#endif
    return "processor";
}

std::int64_t memory_bytes() {
#if defined(__linux__)
    return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
#elif defined(__APPLE__)
    std::int64_t bytes = 0;
    std::size_t size = sizeof bytes;
    if (sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0) return bytes;
    return 0;
#else
    return 0;
#endif
}

namespace {
// From here on a block starts on a large page's boundary.
constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t alignment_of(std::size_t bytes) { return bytes >= kLargePage ? kLargePage : 64; }
}  // namespace

// Library kernels may load whole vectors at a block's end, never using what lies beyond it.
constexpr std::size_t kBeyond = 128;

void* allocate_chunk(std::size_t bytes) {
    void* data = ::operator new(bytes, std::align_val_t(alignment_of(bytes)), std::nothrow);
#if defined(__linux__)
    // A hint; a kernel without large pages refuses it, and nothing is lost.
    if (data && bytes >= kLargePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
    return data;
}
void free_chunk(void* data, std::size_t bytes) {
    ::operator delete(data, std::align_val_t(alignment_of(bytes)));
}

namespace {

// Smaller blocks share ordinary pages well enough; larger ones are chunks of their own. Sanitizers
// look at the ends of what the system gave.
bool is_shared(std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    return bytes > PTRDIFF_MAX;
#else
    return bytes >= 4096 && bytes < (std::size_t{16} << 20);
#endif
}
// Never destroyed, since tensors may outlive static objects.
LargePages& shared() {
    static auto* pages = new LargePages;
    return *pages;
}

}  // namespace

void* allocate_pages(std::size_t bytes) {
    if (bytes > PTRDIFF_MAX - kBeyond) return nullptr;
    return is_shared(bytes) ? shared().take(bytes + kBeyond) : allocate_chunk(bytes + kBeyond);
}

void free_pages(void* data, std::size_t bytes) {
    if (is_shared(bytes))
        shared().give(data, bytes + kBeyond);
    else
        free_chunk(data, bytes + kBeyond);
}

}  // namespace pippin::cpu
