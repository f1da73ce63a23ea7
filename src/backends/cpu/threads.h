// Parallel loops over ranges of tasks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#ifndef PIPPIN_NO_OPENMP
#include <omp.h>
#endif

#include "pippin/device.h"

namespace pippin::cpu {

/// Element operations that pay for waking one more thread. Tests lower it.
inline std::int64_t work_per_thread = 16384;

/// How many threads `parallel_ranges` will use.
inline int threads_for(std::int64_t tasks, std::int64_t work) {
#ifdef PIPPIN_NO_OPENMP
    (void)tasks, (void)work;
    return 1;
#else
    if (tasks <= 1 || work < 2 * work_per_thread) return 1;
    const std::int64_t limit = std::min(tasks, work / work_per_thread);
    if (limit <= 1 || omp_in_parallel()) return 1;
    return static_cast<int>(std::min<std::int64_t>(limit, num_threads()));
#endif
}

/// fn(thread) on each of `threads` threads. What a call throws is thrown here after all have ended.
template <class F>
void parallel_threads(int threads, F&& fn) {
#ifndef PIPPIN_NO_OPENMP
    if (threads > 1) {
        std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
        {
            // The runtime may give fewer threads than asked for.
            for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads()) {
                try {
                    fn(t);
                } catch (...) {
#pragma omp critical(pippin_failure)
                    if (!failure) failure = std::current_exception();
                }
            }
        }
        if (failure) std::rethrow_exception(failure);
        return;
    }
#endif
    for (int t = 0; t < threads; ++t)
        fn(t);
}

/// fn(begin, end, thread) over contiguous parts of [0, tasks); `work`: element operations in all.
template <class F>
void parallel_ranges(std::int64_t tasks, std::int64_t work, F&& fn) {
    const int threads = threads_for(tasks, work);
    parallel_threads(threads, [&](int t) {
        const std::int64_t begin = tasks * t / threads, end = tasks * (t + 1) / threads;
        if (begin < end) fn(begin, end, t);
    });
}

/// fn(task) for every task in [0, tasks), each of them worth a thread's while.
template <class F>
void parallel_for(std::int64_t tasks, F&& fn) {
    parallel_ranges(tasks, tasks * work_per_thread, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i)
            fn(i);
    });
}

}  // namespace pippin::cpu
