// Accuracy of the float32 functions, over all of their range, for every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "programs/builder.h"
#include "programs/targets.h"

namespace pippin::programs {
namespace {

using plan::Opcode;

// Floats from all over the range, spread evenly over their bit patterns.
std::vector<float> spread(float low, float high) {
    std::vector<float> x;
    for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 2999) {
        const auto bits = static_cast<std::uint32_t>(u);
        float f;
        std::memcpy(&f, &bits, 4);
        if (f >= low && f <= high) x.push_back(f);
    }
    for (int k = 0; k <= 200000; ++k)
        x.push_back(low + (std::min(high, 100.0f) - low) * static_cast<float>(k) / 200000);
    std::erase_if(x, [&](float f) { return !(f >= low && f <= high); });
    return x;
}

struct Worst {
    double error = 0;
    float at = 0;
};

// The largest of error(result, exact value) over x.
Worst sweep(Opcode op, const std::vector<float>& x, const std::function<double(double)>& exact,
            const std::function<double(double, double)>& error) {
    const auto n = static_cast<std::int64_t>(x.size());
    Builder b = Builder::map({n});
    b.store(b.f32(op, b.load(DType::Float32)), DType::Float32);
    std::vector<Buffer> buffers(2, Buffer(x.size() * 4));
    std::memcpy(buffers[0].data(), x.data(), x.size() * 4);
    cpu::ProgramKernel kernel(b.p);
    run(kernel, buffers, {});
    Worst w;
    for (std::int64_t k = 0; k < n; ++k) {
        const double got = read_float(buffers[1], k, DType::Float32);
        const double e = error(got, exact(static_cast<double>(x[static_cast<std::size_t>(k)])));
        if (!(e <= w.error)) w = {std::isnan(e) ? 1e30 : e, x[static_cast<std::size_t>(k)]};
    }
    return w;
}

// In units of the last place of the exact value.
double ulps(double got, double exact) {
    const double size = std::max(std::abs(exact), 0x1p-126);
    if (std::abs(exact) > 3.4028235e38)
        return std::isinf(got) && (got > 0) == (exact > 0) ? 0 : std::abs(got) > 3.4e38 ? 1 : 1e9;
    return std::abs(got - exact) / std::ldexp(1.0, std::ilogb(size) - 23);
}
double relative(double got, double exact) {
    if (std::abs(exact) < 0x1p-126) return std::abs(got - exact) <= 0x1p-149 ? 0 : 1;
    return exact == got ? 0 : std::abs(got - exact) / std::abs(exact);
}
double absolute(double got, double exact) { return std::abs(got - exact); }

TEST(Accuracy, Exp) {
    const auto x = spread(-110, 90);
    for_each_target([&] {
        const Worst w = sweep(
            Opcode::Exp, x, [](double v) { return std::exp(v); }, ulps);
        EXPECT_LE(w.error, 2.0) << "at " << w.at;
        RecordProperty("ulps", std::to_string(w.error));
    });
}

TEST(Accuracy, Log) {
    const auto x = spread(0, 3.4e38f);
    for_each_target([&] {
        const Worst w = sweep(
            Opcode::Log, x, [](double v) { return std::log(v); },
            [](double g, double e) { return std::isinf(e) ? (g == e ? 0 : 1e9) : ulps(g, e); });
        EXPECT_LE(w.error, 2.0) << "at " << w.at;
    });
}

TEST(Accuracy, SinAndCos) {
    // Beyond a thousand or so a float's neighbours are far apart; near a zero of sine nothing less
    // than the distance to it can be asked for.
    const auto x = spread(-3.4e38f, 3.4e38f);
    for_each_target([&] {
        for (const Opcode op : {Opcode::Sin, Opcode::Cos}) {
            const Worst w = sweep(
                op, x, [op](double v) { return op == Opcode::Sin ? std::sin(v) : std::cos(v); },
                [](double g, double e) {
                    return std::abs(e) > 1e-3 ? ulps(g, e)
                                              : std::min(ulps(g, e), absolute(g, e) * 0x1p30);
                });
            EXPECT_LE(w.error, 2.0) << plan::name_of(op) << " at " << w.at;
        }
    });
}

TEST(Accuracy, Tanh) {
    const auto x = spread(-3.4e38f, 3.4e38f);
    for_each_target([&] {
        const Worst w = sweep(
            Opcode::Tanh, x, [](double v) { return std::tanh(v); }, relative);
        EXPECT_LE(w.error, 4e-7) << "at " << w.at;
        const Worst above = sweep(
            Opcode::Tanh, x, [](double) { return 1.0; },
            [](double g, double) { return std::abs(g) - 1; });
        EXPECT_LE(above.error, 0) << "above one at " << above.at;
    });
}

TEST(Accuracy, Sigmoid) {
    const auto x = spread(-110, 3.4e38f);
    for_each_target([&] {
        const Worst w = sweep(
            Opcode::Sigmoid, x, [](double v) { return 1 / (1 + std::exp(-v)); }, ulps);
        EXPECT_LE(w.error, 3.0) << "at " << w.at;
    });
}

TEST(Accuracy, Erf) {
    const auto x = spread(-3.4e38f, 3.4e38f);
    for_each_target([&] {
        const Worst a = sweep(
            Opcode::Erf, x, [](double v) { return std::erf(v); }, absolute);
        EXPECT_LE(a.error, 2e-7) << "at " << a.at;
        const Worst r = sweep(
            Opcode::Erf, x, [](double v) { return std::erf(v); }, relative);
        EXPECT_LE(r.error, 4e-7) << "at " << r.at;
    });
}

TEST(Accuracy, Rsqrt) {
    const auto x = spread(0, 3.4e38f);
    for_each_target([&] {
        const Worst w = sweep(
            Opcode::Rsqrt, x, [](double v) { return 1 / std::sqrt(v); },
            [](double g, double e) { return std::isinf(e) ? (g == e ? 0 : 1e9) : ulps(g, e); });
        EXPECT_LE(w.error, 1.5) << "at " << w.at;
    });
}

}  // namespace
}  // namespace pippin::programs
