// Heavy kernels of the CPU: one object per heavy launch, prepared once and run many times.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "plan/plan.h"

namespace pippin::cpu {

/// A launch made ready. Operands and output are addresses of element 0 of each view.
struct HeavyKernel {
    virtual ~HeavyKernel() = default;
    virtual void run(void* const* operands, void* output) = 0;

    /// Bytes that run() wants at `scratch`, which whoever runs the kernel provides: all kernels of
    /// an executable share one block. Aligned to 64 bytes; its content does not outlive a run.
    std::size_t scratch_bytes = 0;
    void* scratch = nullptr;
};

/// Makes the kernel of a launch; Error where the CPU cannot do it.
std::unique_ptr<HeavyKernel> make_heavy(const plan::HeavyLaunch& launch);

/// Why the CPU cannot run a launch; empty where it can.
std::string refusal(const plan::HeavyLaunch& launch);

// The families, one file each. A family throws Error for a launch that it cannot do.
std::unique_ptr<HeavyKernel> make_matmul(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_conv2d(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_conv2d_grad_input(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_conv2d_grad_weight(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_max_pool2d(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_max_pool2d_grad(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_avg_pool2d(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_avg_pool2d_grad(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_adaptive_avg_pool2d(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_adaptive_avg_pool2d_grad(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_gather(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_scatter_add(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_index_select(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_index_add(const plan::HeavyLaunch& launch);

}  // namespace pippin::cpu
