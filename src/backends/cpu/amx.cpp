#include "backends/cpu/amx.h"

#include <cstdlib>
#include <string_view>

#ifdef PIPPIN_HAS_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pippin::cpu {

namespace {

#ifdef PIPPIN_HAS_AMX
bool bit(unsigned word, int n) { return ((word >> n) & 1) != 0; }

bool ask() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return false;  // OSXSAVE
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr unsigned kVectors = 0xe6, kTiles = 3u << 17;  // what the system saves for a thread
    if ((low & (kVectors | kTiles)) != (kVectors | kTiles)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    const bool avx512 = bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);  // F, DQ, BW, VL
    const bool tiles = bit(d, 22) && bit(d, 24);  // bf16, tile registers
    if (!avx512 || !tiles) return false;
    // Linux gives the tiles' registers (state component 18) to processes that ask for them.
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool ask() { return false; }
#endif

}  // namespace

bool has_amx() {
    static const bool has = [] {
        const char* wish = std::getenv("PIPPIN_CPU_SPLIT");
        return !(wish && std::string_view(wish) == "0") && ask();
    }();
    return has;
}

}  // namespace pippin::cpu
