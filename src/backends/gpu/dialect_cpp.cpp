#include "backends/gpu/kernel.h"

namespace pippin::gpu {

namespace {

// Every thread holds the whole matrix of its subgroup and does all of its work.
constexpr const char* kMatrices = R"(
#define WARP (fiber_lane / 32u)
#define WARP_LANE (fiber_lane % 32u)
#define MAT_H Matrix
#define MAT_C Matrix
#define MAT_ZERO(c) (c) = Matrix{}
#define MAT_LOAD mat_load
#define MAT_MUL mat_mul
#define MAT_STORE mat_store
struct Matrix {
    float v[16][16];
};
void mat_load(Matrix& m, const U4* array, int at, int stride, bool columns) {
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            std::uint16_t h;
            std::memcpy(&h, reinterpret_cast<const char*>(array + at + i * stride) + 2 * j, 2);
            (columns ? m.v[j][i] : m.v[i][j]) = f16_to_f32(h);
        }
}
void mat_mul(const Matrix& a, const Matrix& b, Matrix& c) {
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++) c.v[i][j] += a.v[i][k] * b.v[k][j];
}
void mat_store(const Matrix& c, U4* array, int at, int stride) {
    for (int i = 0; i < 16; i++) std::memcpy(array + at + i * stride, c.v[i], 64);
}
)";

}  // namespace

std::string cpp_prelude() {
    std::string text = R"(
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

using uint = std::uint32_t;
using I64 = std::int64_t;
using PTR = std::uint64_t;
struct F4 {
    float x, y, z, w;
};

struct U4 {
    uint x, y, z, w;
};

extern uint fiber_lane, fiber_group;
extern const std::uint64_t* fiber_arguments;
void yield();

#define MAKE_F4(a, b, c, d) (F4{a, b, c, d})
#define MAKE_U4(a, b, c, d) (U4{a, b, c, d})
#define LANE fiber_lane
#define GROUP fiber_group
#define SET_PART(quad, i, v) (reinterpret_cast<float*>(&(quad))[i] = (v))
#define AS_FLOAT(x) std::bit_cast<float>(std::uint32_t(x))
#define AS_UINT(x) std::bit_cast<std::uint32_t>(float(x))
#define FMA(a, b, c) ((a) * (b) + (c))
#define EXACT
#define LESS(a, b) ((a) < (b))
#define AT_MOST(a, b) ((a) <= (b))
#define ROUND_EVEN(x) std::nearbyint(x)
#define I64_BITS(hi, lo) (I64(std::uint64_t(hi) << 32 | std::uint64_t(lo)))
#define BARRIER() yield()
#define UNROLL
#define ROLL
#define ARG(i) I64(fiber_arguments[i])
#define ADDRESS(i) PTR(fiber_arguments[i])
#define MULHI(a, b) uint(std::uint64_t(a) * std::uint64_t(b) >> 32)
#define MEMORY(type, p, i) (reinterpret_cast<type*>(p)[i])
#define floor(x) std::floor(x)
#define ceil(x) std::ceil(x)
#define sqrt(x) std::sqrt(x)
)";
    const auto element = [&](const std::string& name, const std::string& memory,
                             const std::string& value) {
        text += "#define LD_" + name + "(p, i) " + value + "(MEMORY(" + memory + ", p, i))\n";
        text +=
            "#define ST_" + name + "(p, i, x) (MEMORY(" + memory + ", p, i) = " + memory + "(x))\n";
    };
    element("U8", "std::uint8_t", "uint");
    element("U16", "std::uint16_t", "uint");
    element("U32", "uint", "uint");
    element("I32", "int", "int");
    element("I64", "I64", "I64");
    element("F32", "float", "float");
    element("F4", "F4", "F4");
    element("U4", "U4", "U4");
    text += "#include <utility>\nnamespace {\n";
    return text + kHalfSource + kMathSource + kMatrices + "}\n";
}

std::string render_cpp(const KernelSource& k, const std::string& name) {
    std::string text = "namespace " + name + " {\n#undef THREADS\n#define THREADS " +
                       std::to_string(k.threads) + "u\n";
    for (const Shared& s : k.shared)
        text += "static " + s.type + " " + s.name + "[" + std::to_string(s.count) + "];\n";
    text += k.functions;
    text += "void body() {\nif (GROUP >= uint(ARG(0))) return;\n" + k.body + "}\n}\n";
    return text;
}

}  // namespace pippin::gpu
