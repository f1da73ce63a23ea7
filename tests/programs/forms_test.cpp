// Reductions: accuracy, long and short rows, columns, empty spaces, threads; checks of indices;
// batches.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "pippin/error.h"
#include "programs/builder.h"
#include "programs/targets.h"

namespace pippin::programs {
namespace {

using plan::Form;
using plan::Opcode;

// One reduction of one operand, stored for every kept point.
Builder reduction(Form form, std::vector<std::int64_t> extents, int split, Opcode op, DType memory,
                  DType reg, DType result) {
    Builder b(form, std::move(extents), split);
    const auto x = b.load(b.access(memory, b.dense(), false), reg);
    const auto r = b.op(op, result, x);
    b.stage = 1;
    b.kept = true;
    b.store(r, b.access(result, b.kept_dense(), true));
    return b;
}

std::vector<Buffer> buffers_for(const plan::Program& p) {
    std::vector<Buffer> out;
    for (const auto& a : p.accesses)
        out.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(1, reach(p, a))) *
                         size_of(a.dtype));
    return out;
}

float* floats(Buffer& b) { return reinterpret_cast<float*>(b.data()); }

TEST(Reductions, SumsAreAccurate) {
    for_each_target([] {
        std::mt19937 random(1);
        std::uniform_real_distribution<float> any(0, 1);
        for (const std::int64_t n :
             {std::int64_t{1000}, std::int64_t{100000}, std::int64_t{3000000}}) {
            Builder b = reduction(Form::RowReduce, {n}, 0, Opcode::ReduceSum, DType::Float32,
                                  DType::Float32, DType::Float32);
            auto memory = buffers_for(b.p);
            double exact = 0;
            for (std::int64_t k = 0; k < n; ++k)
                exact += floats(memory[0])[k] = any(random);
            cpu::ProgramKernel kernel(b.p);
            run(kernel, memory, {});
            // numpy's pairwise sum has about 3e-7 at worst
            EXPECT_NEAR(floats(memory[1])[0] / exact, 1, 3e-7) << n;
            for (std::int64_t k = 0; k < n; ++k)
                floats(memory[0])[k] = 0.1f;
            run(kernel, memory, {});
            EXPECT_NEAR(floats(memory[1])[0] / (static_cast<double>(0.1f) * static_cast<double>(n)),
                        1, 3e-7)
                << n;
        }
        const std::int64_t rows = 50000, columns = 6;
        Builder b = reduction(Form::ColReduce, {rows, columns}, 1, Opcode::ReduceSum,
                              DType::Float32, DType::Float32, DType::Float32);
        auto memory = buffers_for(b.p);
        std::vector<double> exact(columns);
        for (std::int64_t k = 0; k < rows * columns; ++k)
            exact[static_cast<std::size_t>(k % columns)] += floats(memory[0])[k] = any(random);
        cpu::ProgramKernel kernel(b.p);
        run(kernel, memory, {});
        for (std::size_t c = 0; c < columns; ++c)
            EXPECT_NEAR(floats(memory[1])[c] / exact[c], 1, 3e-7);
    });
}

TEST(Reductions, HalfTypesAccumulateInFloat32) {
    const std::int64_t n = 100000;
    for (const DType t : {DType::Float16, DType::BFloat16}) {
        Builder b = reduction(Form::RowReduce, {n}, 0, Opcode::ReduceSum, t, DType::Float32,
                              DType::Float32);
        auto memory = buffers_for(b.p);
        for (std::int64_t k = 0; k < n; ++k)
            write_value(memory[0], k, t, 0.5);
        cpu::ProgramKernel kernel(b.p);
        run(kernel, memory, {});
        EXPECT_EQ(floats(memory[1])[0], 50000.0f);
    }
}

TEST(Reductions, DeviationsOfDistantValues) {
    for_each_target([] {
        std::mt19937 random(2);
        std::normal_distribution<float> any(1000, 1);
        for (const Form form : {Form::RowReduce, Form::ColReduce})
            for (const std::int64_t length :
                 {std::int64_t{10}, std::int64_t{1000}, std::int64_t{70000}}) {
                const std::int64_t kept = 7;
                const bool by_rows = form == Form::RowReduce;
                Builder b = by_rows ? reduction(form, {kept, length}, 1, Opcode::ReduceM2,
                                                DType::Float32, DType::Float32, DType::Float32)
                                    : reduction(form, {length, kept}, 1, Opcode::ReduceM2,
                                                DType::Float32, DType::Float32, DType::Float32);
                auto memory = buffers_for(b.p);
                for (std::int64_t k = 0; k < kept * length; ++k)
                    floats(memory[0])[k] = any(random);
                cpu::ProgramKernel kernel(b.p);
                run(kernel, memory, {});
                for (std::int64_t k = 0; k < kept; ++k) {
                    double mean = 0, m2 = 0;
                    const auto at = [&](std::int64_t i) {
                        return static_cast<double>(
                            floats(memory[0])[by_rows ? k * length + i : i * kept + k]);
                    };
                    for (std::int64_t i = 0; i < length; ++i)
                        mean += at(i) / static_cast<double>(length);
                    for (std::int64_t i = 0; i < length; ++i)
                        m2 += (at(i) - mean) * (at(i) - mean);
                    EXPECT_NEAR(floats(memory[1])[k] / m2, 1, 2e-5) << length;
                }
            }
    });
}

TEST(Reductions, EmptyOnesGiveTheIdentity) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const Form form : {Form::RowReduce, Form::ColReduce})
        for (const auto& [op, identity] : {std::pair{Opcode::ReduceSum, 0.0},
                                           {Opcode::ReduceProd, 1.0},
                                           {Opcode::ReduceMax, -inf},
                                           {Opcode::ReduceMin, inf},
                                           {Opcode::ReduceM2, 0.0}}) {
            Builder b = form == Form::RowReduce ? reduction(form, {5, 0}, 1, op, DType::Float32,
                                                            DType::Float32, DType::Float32)
                                                : reduction(form, {0, 5}, 1, op, DType::Float32,
                                                            DType::Float32, DType::Float32);
            b.p.accesses[1].strides = {1};
            if (form == Form::ColReduce) b.p.accesses[1].strides = {0, 1};
            std::vector<Buffer> memory{Buffer(4), Buffer(20)};
            cpu::ProgramKernel kernel(b.p);
            run(kernel, memory, {});
            for (int k = 0; k < 5; ++k)
                EXPECT_EQ(floats(memory[1])[k], identity) << plan::name_of(op);
        }
    // Nothing kept: nothing is written.
    Builder none = reduction(Form::RowReduce, {0, 5}, 1, Opcode::ReduceSum, DType::Float32,
                             DType::Float32, DType::Float32);
    std::vector<Buffer> memory{Buffer(4), Buffer(4)};
    cpu::ProgramKernel kernel(none.p);
    run(kernel, memory, {});
    Builder map = Builder::map({3, 0, 2});
    map.store(map.load(DType::Float32), DType::Float32);
    cpu::ProgramKernel empty(map.p);
    run(empty, memory, {});
}

TEST(Reductions, FirstExtremumAndFirstNaN) {
    for_each_target([] {
        for (const std::int64_t length : {std::int64_t{10}, std::int64_t{100}, std::int64_t{9000}})
            for (const Form form : {Form::RowReduce, Form::ColReduce})
                for (const bool nan : {false, true}) {
                    const bool by_rows = form == Form::RowReduce;
                    const std::int64_t kept = 3;
                    Builder b = by_rows ? reduction(form, {kept, length}, 1, Opcode::ReduceArgMax,
                                                    DType::Float32, DType::Float32, DType::Int64)
                                        : reduction(form, {length, kept}, 1, Opcode::ReduceArgMax,
                                                    DType::Float32, DType::Float32, DType::Int64);
                    auto memory = buffers_for(b.p);
                    const auto put = [&](std::int64_t k, std::int64_t i, float x) {
                        floats(memory[0])[by_rows ? k * length + i : i * kept + k] = x;
                    };
                    for (std::int64_t k = 0; k < kept; ++k)
                        for (std::int64_t i = 0; i < length; ++i)
                            put(k, i, static_cast<float>(i % 5));
                    if (nan) put(1, length / 2, std::nanf("")), put(1, length - 1, std::nanf(""));
                    cpu::ProgramKernel kernel(b.p);
                    run(kernel, memory, {});
                    for (std::int64_t k = 0; k < kept; ++k)
                        EXPECT_EQ(read_int(memory[1], k, DType::Int64),
                                  nan && k == 1 ? length / 2 : 4)
                            << length;
                }
    });
}

TEST(Reductions, DoNotDependOnThreads) {
    std::mt19937 random(3);
    std::normal_distribution<float> any;
    struct Space {
        Form form;
        std::vector<std::int64_t> extents;
        int split;
    };
    for (const Space& s :
         {Space{Form::RowReduce, {2000000}, 0}, Space{Form::RowReduce, {3, 300000}, 1},
          Space{Form::RowReduce, {5000, 100}, 1}, Space{Form::ColReduce, {50176, 64}, 1},
          Space{Form::ColReduce, {300, 5000}, 1}, Space{Form::ColReduce, {100000, 3}, 1}})
        for (const Opcode op : {Opcode::ReduceSum, Opcode::ReduceM2}) {
            Builder b = reduction(s.form, s.extents, s.split, op, DType::Float32, DType::Float32,
                                  DType::Float32);
            auto memory = buffers_for(b.p);
            for (std::size_t k = 0; k < memory[0].size() / 4; ++k)
                floats(memory[0])[k] = any(random);
            cpu::ProgramKernel kernel(b.p);
            Buffer first;
            for (const int n : {1, 2, 3, 5}) {
                const Threads threads(n);
                run(kernel, memory, {});
                if (n == 1) first = memory[1];
                EXPECT_EQ(std::memcmp(first.data(), memory[1].data(), first.size()), 0)
                    << b.p.str() << n << " threads";
            }
        }
}

TEST(Checks, ABadIndexIsNamed) {
    for (const int threads : {1, 2}) {
        const Threads set(threads);
        const std::int64_t n = 100000;
        Builder b = Builder::map({n});
        const auto x = b.load(DType::Int64);
        plan::Instr i;
        i.op = Opcode::CheckIndex;
        i.type = DType::Int64;
        i.a = x;
        i.aux = 0;
        i.imm_range = {0, 10};
        i.int_imm = -100;
        const auto checked = b.push(i);
        b.store(checked, DType::Int64);
        b.p.index_ops = {"nll_loss"};
        auto memory = buffers_for(b.p);
        for (std::int64_t k = 0; k < n; ++k)
            write_value(memory[0], k, DType::Int64, static_cast<double>(k % 10));
        write_value(memory[0], 17, DType::Int64, -100);
        cpu::ProgramKernel kernel(b.p);
        run(kernel, memory, {});
        EXPECT_EQ(memory[0], memory[1]);
        write_value(memory[0], 77777, DType::Int64, 10);
        write_value(memory[0], 99999, DType::Int64, -3);
        try {
            run(kernel, memory, {});
            FAIL() << "no error";
        } catch (const IndexError& e) {
            EXPECT_NE(std::string(e.what()).find("nll_loss"), std::string::npos) << e.what();
            EXPECT_NE(std::string(e.what()).find(" 10 "), std::string::npos) << e.what();
        }
        write_value(memory[0], 77777, DType::Int64, 1);
        write_value(memory[0], 99999, DType::Int64, 1);
        run(kernel, memory, {});  // and works again
    }
}

TEST(Batches, SegmentsOfAllSizes) {
    Builder b = Builder::map({10});
    const auto x = b.load(DType::Float32), y = b.load(DType::Float32);
    const auto rate = b.source(Opcode::Scalar, DType::Float32, 0);
    const auto factor = b.load(b.access(DType::Float32, {0}, false), DType::Float32);
    b.store(b.f32(Opcode::Sub, x, b.f32(Opcode::Mul, rate, b.f32(Opcode::Mul, y, factor))),
            DType::Float32);
    const std::vector<std::int64_t> sizes{10, 1, 0, 100000, 257, 3, 1025, 2000000, 16, 31};
    for (const int threads : {1, 2, 3}) {
        const Threads set(threads);
        std::vector<std::vector<float>> memory;
        std::vector<void*> pointers;
        memory.reserve(4 * sizes.size());
        for (const auto n : sizes) {
            for (const float value : {1.0f, 2.0f, 0.0f})
                memory.emplace_back(static_cast<std::size_t>(n), value);
            memory.insert(memory.end() - 1, std::vector<float>(1, static_cast<float>(n % 7)));
        }
        for (auto& m : memory)
            pointers.push_back(m.data());
        std::vector<cpu::ProgramKernel::Run> runs;
        for (std::size_t s = 0; s < sizes.size(); ++s)
            runs.push_back({sizes[s], pointers.data() + 4 * s});
        cpu::ProgramKernel kernel(b.p);
        kernel.run(runs, std::vector<std::uint64_t>{bits_of(0.5)});
        for (std::size_t s = 0; s < sizes.size(); ++s)
            for (const float v : memory[4 * s + 3])
                ASSERT_EQ(v, 1.0f - static_cast<float>(sizes[s] % 7)) << sizes[s];
    }
}

TEST(Random, TheBitsAreTheDefinition) {
    const std::uint64_t key = 0x0123456789abcdefu, stream = 0xfedcba9876543210u;
    for_each_target([&] {
        for (const bool uniform : {false, true})
            for (const std::int64_t start :
                 {std::int64_t{0}, std::int64_t{1}, std::int64_t{6}, std::int64_t{0x3fffffffe}})
                for (const bool strided : {false, true}) {
                    const std::int64_t n = 5000;
                    const DType t = uniform ? DType::Float32 : DType::Int64;
                    Builder b = Builder::map({n});
                    const auto at =
                        b.source(Opcode::Iota, DType::Int64,
                                 b.access(DType::Int64, {strided ? 3 : 1}, false, start));
                    b.store(
                        b.source(uniform ? Opcode::RandomUniform : Opcode::RandomBits, t, 0, at),
                        t);
                    std::vector<Buffer> memory{Buffer(0),
                                               Buffer(static_cast<std::size_t>(n) * size_of(t))};
                    cpu::ProgramKernel kernel(b.p);
                    run(kernel, memory, {key, stream});
                    for (std::int64_t k = 0; k < n; ++k) {
                        const auto word = philox_word(
                            key, stream, static_cast<std::uint64_t>(start + k * (strided ? 3 : 1)));
                        const double got = uniform ? read_float(memory[1], k, t)
                                                   : static_cast<double>(read_int(memory[1], k, t));
                        ASSERT_EQ(got, uniform ? static_cast<double>(word >> 8) * 0x1p-24
                                               : static_cast<double>(word))
                            << k;
                    }
                }
    });
}

TEST(Programs, AreReadable) {
    Builder b = reduction(Form::RowReduce, {3, 4}, 1, Opcode::ReduceSum, DType::Float16,
                          DType::Float32, DType::Float32);
    const std::string text = b.p.str();
    EXPECT_NE(text.find("reduce rows over [3, 4] split 1"), std::string::npos) << text;
    EXPECT_NE(text.find("%1 reduce_sum float32 %0"), std::string::npos) << text;
}

TEST(Maps, LongTransposedRows) {
    for_each_target([] {
        // NCHW to NHWC and back, with many channels: rows are cut into pieces.
        for (const bool back : {false, true}) {
            const std::int64_t images = 3, pixels = 35, channels = 1024;
            Builder b = back ? Builder::map({images, channels, pixels})
                             : Builder::map({images, pixels, channels});
            const std::vector<std::int64_t> strides =
                back ? std::vector<std::int64_t>{channels * pixels, 1, channels}
                     : std::vector<std::int64_t>{channels * pixels, 1, pixels};
            const auto x = b.load(b.access(DType::Float32, strides, false), DType::Float32);
            b.store(b.f32(Opcode::Neg, x), DType::Float32);
            auto memory = buffers_for(b.p);
            for (std::size_t k = 0; k < memory[0].size() / 4; ++k)
                floats(memory[0])[k] = static_cast<float>(k % 10007);
            const auto expected = interpret(b.p, memory, {});
            cpu::ProgramKernel kernel(b.p);
            run(kernel, memory, {});
            for (const auto& e : expected)
                ASSERT_EQ(compare(e, memory[1]), "");
        }
    });
}

TEST(Updates, InPlaceThroughAChain) {
    // m2 = f(m, g) overwrites m, while m is still needed for p2: the store must wait.
    Builder b = Builder::map({3000});
    const auto m = b.load(DType::Float32), g = b.load(DType::Float32), p = b.load(DType::Float32);
    const auto m2 = b.f32(Opcode::Add, m, g);
    const auto p2 = b.f32(Opcode::Sub, p, b.f32(Opcode::Mul, m2, m));
    b.store(m2, DType::Float32);
    b.p.accesses.back().alias_of = 0;
    b.store(p2, DType::Float32);
    b.p.accesses.back().alias_of = 2;
    std::vector<Buffer> memory(5, Buffer(3000 * 4));
    for (std::size_t k = 0; k < 3000; ++k)
        floats(memory[0])[k] = 2, floats(memory[1])[k] = 3, floats(memory[2])[k] = 100;
    cpu::ProgramKernel kernel(b.p);
    run(kernel, memory, {}, {0, 1, 2, 0, 2});
    for (std::size_t k = 0; k < 3000; ++k) {
        ASSERT_EQ(floats(memory[0])[k], 5.0f);
        ASSERT_EQ(floats(memory[2])[k], 90.0f);
    }
}

}  // namespace
}  // namespace pippin::programs
