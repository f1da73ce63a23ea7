// Splits index ranges over threads, always in the same way for the same number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#ifndef PIPPIN_NO_OPENMP
#include <omp.h>
#endif

#include "pippin/device.h"

namespace pippin::cpu {

inline std::int64_t max_threads() {
#ifndef PIPPIN_NO_OPENMP
    return num_threads();
#else
    return 1;
#endif
}

/// Calls f(begin, end) on disjoint ranges that cover [0, n). No range is shorter than `grain`
/// unless it is the only one. f must not throw.
template <class F>
void parallel_ranges(std::int64_t n, std::int64_t grain, const F& f) {
    if (n <= 0) return;
#ifndef PIPPIN_NO_OPENMP
    const std::int64_t most = n / std::max<std::int64_t>(1, grain);
    const int threads = static_cast<int>(std::min<std::int64_t>(max_threads(), most));
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        {
            const std::int64_t count = omp_get_num_threads(), i = omp_get_thread_num();
            f(n * i / count, n * (i + 1) / count);
        }
        return;
    }
#endif
    f(std::int64_t{0}, n);
}

}  // namespace pippin::cpu
