#include "gpu/gpu_testing.h"

#include <cstdlib>

#include "backends/gpu/devices.h"

namespace pippin::gpu_test {
namespace {

// Before anything asks for devices. No kernel of a test may quietly run on the processor.
const bool allowed = [] {
    setenv("PIPPIN_ALLOW_SOFTWARE_GPU", "1", 1);
    setenv("PIPPIN_STRICT_GPU", "1", 1);
    setenv("PIPPIN_GPU_TUNE", "0", 0);  // the same kernels each time, but where a test says so
    const char* cache = std::getenv("PIPPIN_TEST_CACHE_DIR");
    setenv("PIPPIN_CACHE_DIR", cache ? cache : "", 1);
    return true;
}();

}  // namespace

void GpuTest::SetUp() {
    ASSERT_TRUE(allowed);
    set_default_device(Device{});  // a real GPU would be the default: tests say what they want
    if (gpu::devices().empty()) GTEST_SKIP() << "no gpu: " << gpu::why_no_more_devices();
}

void run_plan(const plan::Plan& plan, std::vector<programs::Buffer>& buffers,
              const std::vector<std::uint64_t>& scalars) {
    runtime::Backend& b = runtime::backend(kGpu);
    std::vector<runtime::Memory> memory;
    for (const auto& bytes : buffers) {
        memory.push_back(b.allocate(bytes.size()));
        ASSERT_TRUE(bool(memory.back()));
        b.upload(memory.back(), bytes.data(), bytes.size());
    }
    runtime::Memory arena;
    std::size_t arena_bytes = 0;
    const auto release = [&] {
        if (arena) b.free(arena, arena_bytes);
        for (std::size_t k = 0; k < buffers.size(); ++k)
            b.free(memory[k], buffers[k].size());
    };
    try {
        const auto executable = b.compile(plan);
        arena_bytes = static_cast<std::size_t>(plan.arena_bytes + executable->scratch_bytes());
        if (arena_bytes) arena = b.allocate(arena_bytes);
        if (auto c = executable->run({memory, {}, arena, scalars})) c->wait();
        for (std::size_t k = 0; k < buffers.size(); ++k)
            b.download(buffers[k].data(), memory[k], buffers[k].size());
    } catch (...) {
        release();
        throw;
    }
    release();
}

plan::Plan program_plan(const plan::Program& program, const std::vector<programs::Buffer>& buffers,
                        const std::vector<std::size_t>& place) {
    plan::Plan p;
    plan::Segment segment;
    for (std::size_t k = 0; k < buffers.size(); ++k)
        p.slots.push_back({plan::Slot::Where::Input, static_cast<std::int32_t>(k), 0,
                           static_cast<std::int64_t>(buffers[k].size())});
    for (std::size_t a = 0; a < program.accesses.size(); ++a)
        segment.slots.push_back(static_cast<std::int32_t>(place.empty() ? a : place[a]));
    p.num_inputs = static_cast<std::int64_t>(buffers.size());
    plan::Launch launch;
    launch.name = "program";
    launch.program = std::make_unique<plan::ProgramLaunch>();
    launch.program->program = program;
    launch.program->segments.push_back(std::move(segment));
    p.launches.push_back(std::move(launch));
    return p;
}

}  // namespace pippin::gpu_test
