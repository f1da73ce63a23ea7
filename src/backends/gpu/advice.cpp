#include "backends/gpu/advice.h"

#include <algorithm>

#include <fmt/format.h>

namespace pippin::gpu {

namespace {

struct Sums {
    double launches = 0, operations = 0, bytes = 0;
};
Sums sums_of(const plan::Plan& plan) {
    Sums s;
    for (const plan::Launch& l : plan.launches) {
        s.launches += 1;
        s.operations += static_cast<double>(l.flops);
        s.bytes += static_cast<double>(l.bytes_moved);
    }
    return s;
}

}  // namespace

double seconds_on_gpu(const plan::Plan& plan) {
    const Sums s = sums_of(plan);
    // Of 5 microseconds from one dependent launch to the next, and a submission.
    return 20e-6 + s.launches * 5e-6 + std::max(s.operations / 5e12, s.bytes / 500e9);
}

double seconds_on_processor(const plan::Plan& plan, int threads) {
    const Sums s = sums_of(plan);
    return 5e-6 + s.launches * 1e-6 + std::max(s.operations / (threads * 20e9), s.bytes / 10e9);
}

std::string advice(const plan::Plan& plan, int threads) {
    const double gpu = seconds_on_gpu(plan), processor = seconds_on_processor(plan, threads);
    if (plan.launches.empty() || processor > 0.5 * gpu) return "";
    return fmt::format(
        "a step of {} launches with {:.2g} million operations is over before a GPU has started "
        "them: about {:.0f} microseconds, and {:.0f} on the processor. Larger batches make use of "
        "the GPU; PIPPIN_DEVICE=cpu or --cpu does without it",
        plan.launches.size(), sums_of(plan).operations / 1e6, gpu * 1e6, processor * 1e6);
}

}  // namespace pippin::gpu
