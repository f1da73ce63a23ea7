// Fused programs on the GPU against the interpreter.
#include "gpu/gpu_testing.h"

#include <cstdlib>
#include <cstring>

#include "backends/gpu/devices.h"
#include "pippin/error.h"
#include "programs/opcode_cases.h"
#include "programs/random_program.h"

namespace pippin::gpu_test {
namespace {

using namespace programs;

class Programs : public GpuTest {};

// A device that takes the smallest floats for zero is not asked about them.
std::vector<Buffer> without_denormals(const plan::Program& p, std::vector<Buffer> buffers) {
    for (std::size_t a = 0; a < buffers.size(); ++a) {
        const DType t = p.accesses[a].dtype;
        if (t != DType::Float32 && t != DType::BFloat16) continue;
        for (std::size_t e = 0; e < buffers[a].size() / size_of(t); ++e)
            if (std::abs(read_float(buffers[a], static_cast<std::int64_t>(e), t)) < 0x1p-126)
                write_value(buffers[a], static_cast<std::int64_t>(e), t, 0);
    }
    return buffers;
}

void check_trial(const plan::Program& p, std::vector<Buffer> before,
                 const std::vector<std::uint64_t>& scalars, const std::vector<std::size_t>& place,
                 const std::string& what) {
    const bool flushes = !gpu::devices()[0].keeps_denormals;
    if (flushes) before = without_denormals(p, std::move(before));
    auto expected = interpret(p, before, scalars);
    for (auto& e : expected)
        if (flushes && is_floating(e.dtype)) e.value.error += 0x1p-126;
    // Vulkan asks for 2.5 units in the last place of a division.
    if (!gpu::devices()[0].software)
        for (auto& e : expected)
            if (is_floating(e.dtype) && std::isfinite(e.value.f))
                e.value.error += 3e-7 * std::abs(e.value.f);
    auto after = before;
    ASSERT_NO_THROW(run_program(p, after, scalars, place)) << what << p.str();
    std::vector<std::vector<bool>> written;
    for (std::size_t a = 0; a < before.size(); ++a)
        written.emplace_back(before[a].size() / size_of(p.accesses[a].dtype), false);
    for (const auto& e : expected) {
        const std::size_t at = place.empty() ? e.access : place[e.access];
        const std::string difference = compare(e, after[at]);
        ASSERT_TRUE(difference.empty()) << what << difference << '\n' << p.str();
        written[at][static_cast<std::size_t>(e.element)] = true;
    }
    for (std::size_t a = 0; a < before.size(); ++a) {
        const std::size_t size = size_of(p.accesses[a].dtype);
        for (std::size_t e = 0; e < written[a].size(); ++e)
            ASSERT_TRUE(written[a][e] ||
                        std::memcmp(&before[a][e * size], &after[a][e * size], size) == 0)
                << what << "access " << a << " element " << e << " was overwritten\n"
                << p.str();
    }
}

void check_case(const Case& c) {
    const auto list = static_cast<std::int64_t>(values(c.type).size());
    const OpcodeTrial t = opcode_trial(c, c.operands == 1 ? list : list * list + 5, -1);
    check_trial(t.program, t.buffers, {}, {},
                std::string(plan::name_of(c.op)) + " of " + std::string(name_of(c.type)) + ": ");
}

constexpr DType kRegisters[] = {DType::Bool, DType::Int32, DType::Int64, DType::Float32};

TEST_F(Programs, UnaryOpcodes) {
    for (const Opcode op :
         {Opcode::Neg, Opcode::Abs, Opcode::Sign, Opcode::Exp, Opcode::Log, Opcode::Sqrt,
          Opcode::Rsqrt, Opcode::Reciprocal, Opcode::Tanh, Opcode::Sigmoid, Opcode::Erf,
          Opcode::Sin, Opcode::Cos, Opcode::Floor, Opcode::Ceil, Opcode::Round, Opcode::Relu})
        check_case({op, DType::Float32, DType::Float32, 1});
    for (const DType t : {DType::Int32, DType::Int64})
        for (const Opcode op : {Opcode::Neg, Opcode::Abs, Opcode::Sign, Opcode::Relu})
            check_case({op, t, t, 1});
    for (const DType t : kRegisters)
        for (const Opcode op : {Opcode::LogicalNot, Opcode::IsNan, Opcode::IsFinite})
            check_case({op, t, DType::Bool, 1});
}

TEST_F(Programs, Casts) {
    for (const DType from : kRegisters)
        for (const DType to : {DType::Bool, DType::UInt8, DType::Int32, DType::Int64,
                               DType::Float16, DType::BFloat16, DType::Float32})
            check_case({Opcode::Cast, from, to, 1});
}

TEST_F(Programs, BinaryOpcodes) {
    for (const Opcode op : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Pow,
                            Opcode::Remainder, Opcode::Maximum, Opcode::Minimum}) {
        check_case({op, DType::Float32, DType::Float32, 2});
        for (const DType t : {DType::Int32, DType::Int64})
            check_case({op, t, t, 2});
    }
    for (const DType t : {DType::Bool, DType::Int32, DType::Int64})
        for (const Opcode op : {Opcode::And, Opcode::Or, Opcode::Xor})
            check_case({op, t, t, 2});
    for (const DType t : kRegisters) {
        for (const Opcode op : {Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le})
            check_case({op, t, DType::Bool, 2});
        check_case({Opcode::Select, t, t, 3});
    }
    check_case({Opcode::Fma, DType::Float32, DType::Float32, 3});
}

// PIPPIN_RANDOM_PROGRAMS: how many; PIPPIN_RANDOM_SEED: the first one.
TEST_F(Programs, RandomOnes) {
    const auto number = [](const char* name, std::uint64_t otherwise) {
        const char* text = std::getenv(name);
        return text ? std::strtoull(text, nullptr, 10) : otherwise;
    };
    const std::uint64_t first = number("PIPPIN_RANDOM_SEED", 0);
    const std::uint64_t count = number("PIPPIN_RANDOM_PROGRAMS", 60);
    for (std::uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) {
        Generator g(seed, false);
        const plan::Program p = g.program();
        const auto before = g.buffers(p);
        std::vector<std::size_t> place(p.accesses.size());
        for (std::size_t a = 0; a < place.size(); ++a)
            place[a] =
                p.accesses[a].alias_of >= 0 ? static_cast<std::size_t>(p.accesses[a].alias_of) : a;
        check_trial(p, before, g.scalars(), place, "seed " + std::to_string(seed) + ": ");
    }
}

}  // namespace
}  // namespace pippin::gpu_test
