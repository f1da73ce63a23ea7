// Attention and its gradient: blocks of queries against all keys of a head, so that scores never
// leave the caches.
#pragma once

#include <cstdint>

#include "backends/cpu/heavy.h"

namespace pippin::cpu {

std::unique_ptr<HeavyKernel> make_attention(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_attention_grad(const plan::HeavyLaunch& launch);

/// What happens to one row of scores; vector code.
struct AttentionRowFunctions {
    /// s = s * scale + added, or -infinity where not seen (each may be null). Gives the maximum,
    /// NaN where there is one.
    float (*scores)(float* s, std::int64_t n, float scale, const float* added,
                    const std::uint8_t* seen);
    /// s = e^(s - shift); gives the sum.
    float (*exponents)(float* s, std::int64_t n, float shift);
    /// s *= f
    void (*scale)(float* s, std::int64_t n, float f);
    /// to = u < p ? 0 : s * f
    void (*drop)(float* to, const float* s, const float* u, std::int64_t n, float p, float f);
    /// dp = w * (dp - sum(w * dp)) * scale
    void (*gradient)(float* dp, const float* w, std::int64_t n, float scale);
};
AttentionRowFunctions attention_row_functions();

}  // namespace pippin::cpu
