// Every opcode with every type it exists for, over ordinary and extreme values, against the
// interpreter.
#include <gtest/gtest.h>

#include "programs/opcode_cases.h"
#include "programs/targets.h"

namespace pippin::programs {
namespace {

void check(const Case& c, std::int64_t n, int constant_operand) {
    OpcodeTrial t = opcode_trial(c, n, constant_operand);
    std::vector<Buffer>& buffers = t.buffers;
    const auto expected = interpret(t.program, buffers, {});
    cpu::ProgramKernel kernel(t.program);
    run(kernel, buffers, {});
    for (const auto& e : expected) {
        const std::string difference = compare(e, buffers[e.access]);
        const auto at = static_cast<std::int64_t>(e.element);
        ASSERT_TRUE(difference.empty())
            << plan::name_of(c.op) << " of " << name_of(c.type) << " to " << name_of(c.result)
            << ", constant operand " << constant_operand << ", n " << n << ": " << difference
            << ", first operand "
            << (buffers.size() > 1 && constant_operand != 0
                    ? read_float(buffers[0], at, t.program.accesses[0].dtype)
                    : 0.0);
    }
}

void check_all(const Case& c) {
    const auto list = static_cast<std::int64_t>(values(c.type).size());
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64},
                                 c.operands == 1 ? list : list * list + 5})
        for (int constant = -1; constant < c.operands; ++constant) {
            if (c.operands == 1 && constant == 0) continue;
            check(c, n, constant);
            if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(Opcodes, UnaryFloat) {
    for_each_target([] {
        for (const DType t : {DType::Float32, DType::Float64})
            for (const Opcode op :
                 {Opcode::Neg, Opcode::Abs, Opcode::Sign, Opcode::Exp, Opcode::Log, Opcode::Sqrt,
                  Opcode::Rsqrt, Opcode::Reciprocal, Opcode::Tanh, Opcode::Sigmoid, Opcode::Erf,
                  Opcode::Sin, Opcode::Cos, Opcode::Floor, Opcode::Ceil, Opcode::Round,
                  Opcode::Relu})
                ASSERT_NO_FATAL_FAILURE(check_all({op, t, t, 1}));
    });
}

TEST(Opcodes, UnaryInteger) {
    for_each_target([] {
        for (const DType t : {DType::Int32, DType::Int64})
            for (const Opcode op : {Opcode::Neg, Opcode::Abs, Opcode::Sign, Opcode::Relu})
                ASSERT_NO_FATAL_FAILURE(check_all({op, t, t, 1}));
    });
}

TEST(Opcodes, Tests) {
    for_each_target([] {
        for (const DType t :
             {DType::Bool, DType::Int32, DType::Int64, DType::Float32, DType::Float64})
            for (const Opcode op : {Opcode::LogicalNot, Opcode::IsNan, Opcode::IsFinite})
                ASSERT_NO_FATAL_FAILURE(check_all({op, t, DType::Bool, 1}));
    });
}

TEST(Opcodes, Casts) {
    for_each_target([] {
        for (const DType from :
             {DType::Bool, DType::Int32, DType::Int64, DType::Float32, DType::Float64})
            for (const DType to : {DType::Bool, DType::UInt8, DType::Int32, DType::Int64,
                                   DType::Float16, DType::BFloat16, DType::Float32, DType::Float64})
                ASSERT_NO_FATAL_FAILURE(check_all({Opcode::Cast, from, to, 1}));
    });
}

TEST(Opcodes, BinaryFloat) {
    for_each_target([] {
        for (const DType t : {DType::Float32, DType::Float64})
            for (const Opcode op : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Pow,
                                    Opcode::Remainder, Opcode::Maximum, Opcode::Minimum})
                ASSERT_NO_FATAL_FAILURE(check_all({op, t, t, 2}));
    });
}

TEST(Opcodes, BinaryInteger) {
    for_each_target([] {
        for (const DType t : {DType::Int32, DType::Int64})
            for (const Opcode op : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Pow,
                                    Opcode::Remainder, Opcode::Maximum, Opcode::Minimum,
                                    Opcode::And, Opcode::Or, Opcode::Xor})
                ASSERT_NO_FATAL_FAILURE(check_all({op, t, t, 2}));
        for (const Opcode op :
             {Opcode::And, Opcode::Or, Opcode::Xor, Opcode::Maximum, Opcode::Minimum})
            ASSERT_NO_FATAL_FAILURE(check_all({op, DType::Bool, DType::Bool, 2}));
    });
}

TEST(Opcodes, Comparisons) {
    for_each_target([] {
        for (const DType t :
             {DType::Bool, DType::Int32, DType::Int64, DType::Float32, DType::Float64})
            for (const Opcode op : {Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le})
                ASSERT_NO_FATAL_FAILURE(check_all({op, t, DType::Bool, 2}));
    });
}

TEST(Opcodes, Ternary) {
    for_each_target([] {
        for (const DType t :
             {DType::Bool, DType::Int32, DType::Int64, DType::Float32, DType::Float64})
            ASSERT_NO_FATAL_FAILURE(check_all({Opcode::Select, t, t, 3}));
        for (const DType t : {DType::Float32, DType::Float64})
            ASSERT_NO_FATAL_FAILURE(check_all({Opcode::Fma, t, t, 3}));
    });
}

TEST(Opcodes, ConstantPowers) {
    for_each_target([] {
        for (const DType t : {DType::Float32, DType::Float64})
            for (const double exponent : {2.0, 3.0, 1.0, 0.5, -0.5, -1.0, 0.0, -2.0, 4.0}) {
                const auto list = values(t);
                const auto n = static_cast<std::int64_t>(list.size());
                Builder b = Builder::map({n});
                b.store(b.op(Opcode::Pow, t, b.load(t), b.constant(exponent, t)), t);
                std::vector<Buffer> buffers(2, Buffer(static_cast<std::size_t>(n) * size_of(t)));
                for (std::int64_t e = 0; e < n; ++e)
                    write_value(buffers[0], e, t, list[static_cast<std::size_t>(e)]);
                const auto expected = interpret(b.p, buffers, {});
                cpu::ProgramKernel kernel(b.p);
                run(kernel, buffers, {});
                for (const auto& e : expected) {
                    const std::string difference = compare(e, buffers[1]);
                    ASSERT_TRUE(difference.empty())
                        << read_float(buffers[0], e.element, t) << " to the power of " << exponent
                        << ": " << difference;
                }
            }
    });
}

TEST(Opcodes, LoadsAndStoresOfEveryType) {
    for_each_target([] {
        for (const DType from : {DType::Bool, DType::UInt8, DType::Int32, DType::Int64,
                                 DType::Float16, DType::BFloat16, DType::Float32, DType::Float64})
            for (const DType reg :
                 {DType::Bool, DType::Int32, DType::Int64, DType::Float32, DType::Float64})
                for (const DType to :
                     {DType::Bool, DType::UInt8, DType::Int32, DType::Int64, DType::Float16,
                      DType::BFloat16, DType::Float32, DType::Float64}) {
                    const auto list = values(from);
                    const std::int64_t n = 77;
                    Builder b = Builder::map({n});
                    const auto x = b.load(b.access(from, {1}, false), reg);
                    b.store(x, b.access(to, {1}, true));
                    std::vector<Buffer> buffers;
                    buffers.emplace_back(static_cast<std::size_t>(n) * size_of(from));
                    buffers.emplace_back(static_cast<std::size_t>(n) * size_of(to));
                    for (std::int64_t e = 0; e < n; ++e)
                        write_value(buffers[0], e, from,
                                    list[static_cast<std::size_t>(e) % list.size()]);
                    const auto expected = interpret(b.p, buffers, {});
                    cpu::ProgramKernel kernel(b.p);
                    run(kernel, buffers, {});
                    for (const auto& e : expected) {
                        const std::string difference = compare(e, buffers[1]);
                        ASSERT_TRUE(difference.empty())
                            << name_of(from) << " to " << name_of(reg) << " to " << name_of(to)
                            << ": " << difference;
                    }
                }
    });
}

TEST(Opcodes, UnknownCombinationsAreRefused) {
    Builder b = Builder::map({4});
    b.store(b.op(Opcode::Exp, DType::Int32, b.load(DType::Int32)), DType::Int32);
    EXPECT_ANY_THROW(cpu::ProgramKernel{b.p});
}

}  // namespace
}  // namespace pippin::programs
