// Random programs against the interpreter, with one, two and three threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backends/cpu/threads.h"
#include "programs/random_program.h"
#include "programs/targets.h"

namespace pippin::programs {
namespace {

void check_seed(std::uint64_t seed, std::int64_t& checked, std::int64_t& unknown) {
    Generator g(seed);
    const plan::Program p = g.program();
    auto before = g.buffers(p);
    const auto scalars = g.scalars();
    const auto expected = interpret(p, before, scalars);

    // Updates in place run in the buffer of what they update.
    std::vector<std::size_t> place(p.accesses.size());
    for (std::size_t a = 0; a < place.size(); ++a)
        place[a] =
            p.accesses[a].alias_of >= 0 ? static_cast<std::size_t>(p.accesses[a].alias_of) : a;

    cpu::ProgramKernel kernel(p);
    std::vector<Buffer> first;
    for (int threads = 1; threads <= 3; ++threads) {
        set_num_threads(threads);
        auto after = before;
        run(kernel, after, scalars, place);
        if (threads == 1) {
            first = after;
            continue;
        }
        for (std::size_t a = 0; a < after.size(); ++a)
            ASSERT_EQ(std::memcmp(after[a].data(), first[a].data(), after[a].size()), 0)
                << "seed " << seed << ": access " << a << " differs with " << threads
                << " threads\n"
                << p.str();
    }
    std::vector<std::vector<bool>> written;
    for (std::size_t a = 0; a < before.size(); ++a)
        written.emplace_back(before[a].size() / size_of(p.accesses[a].dtype), false);
    for (const auto& e : expected) {
        const std::string difference = compare(e, first[place[e.access]]);
        ASSERT_TRUE(difference.empty()) << "seed " << seed << ": " << difference << '\n' << p.str();
        written[place[e.access]][static_cast<std::size_t>(e.element)] = true;
        ++checked;
        unknown += !std::isfinite(e.value.error);
    }
    for (std::size_t a = 0; a < before.size(); ++a) {
        const std::size_t size = size_of(p.accesses[a].dtype);
        for (std::size_t e = 0; e < written[a].size(); ++e)
            ASSERT_TRUE(written[a][e] ||
                        std::memcmp(&before[a][e * size], &first[a][e * size], size) == 0)
                << "seed " << seed << ": access " << a << " element " << e << " was overwritten\n"
                << p.str();
    }
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// PIPPIN_RANDOM_PROGRAMS: how many; PIPPIN_RANDOM_SEED: the first one.
TEST(RandomPrograms, AgreeWithTheInterpreter) {
    const auto usual = cpu::work_per_thread;
    cpu::work_per_thread = 64;  // so that small spaces are spread over threads, too
    const Threads threads(1);
    std::uint64_t seed = from_environment("PIPPIN_RANDOM_SEED", 0);
    const std::uint64_t n = from_environment("PIPPIN_RANDOM_PROGRAMS", 1200);
    std::int64_t checked = 0, unknown = 0;
    for_each_target([&] {
        for (std::uint64_t k = 0; k < n / 4 && !HasFatalFailure(); ++k)
            check_seed(seed++, checked, unknown);
    });
    cpu::work_per_thread = usual;
    EXPECT_TRUE(n < 100 || unknown < checked / 4) << "the error bounds say too little";
}

}  // namespace
}  // namespace pippin::programs
