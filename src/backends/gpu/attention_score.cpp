// What attention's kernels say of one score: scale, mask, dropout.
#include <fmt/format.h>

#include "backends/gpu/attention.h"
#include "backends/gpu/expression.h"

namespace pippin::gpu {

namespace {

// Sixteen numbers of a thread's 4 x 4 elements: 1 / (1 - p), or 0 with probability p.
constexpr const char* kDropout = R"(
float one_of(F4 a, F4 b, int k) {
    return k == 0   ? a.x
           : k == 1 ? a.y
           : k == 2 ? a.z
           : k == 3 ? a.w
           : k == 4 ? b.x
           : k == 5 ? b.y
           : k == 6 ? b.z
                    : b.w;
}
F4 uniform_block(I64 key, I64 stream, I64 block) {
    U4 four = philox(key, stream, block);
    float unit = 5.9604644775390625e-8f;
    return MAKE_F4(float(four.x >> 8) * unit, float(four.y >> 8) * unit, float(four.z >> 8) * unit,
                   float(four.w >> 8) * unit);
}
)";

}  // namespace

std::string score_functions(const AttentionShape& a) {
    std::string out;
    const auto n = [](std::int64_t v) { return std::to_string(v); };
    // The score of query i and key j, -infinity where it is not seen.
    out += "float adjusted(PTR mask, int mask_base, int i, int j, float s) {\n";
    std::string unseen = fmt::format("i >= {} || j >= {}", n(a.l), n(a.s));
    if (a.attrs.causal) unseen += " || j > i";
    out += fmt::format("if ({}) return AS_FLOAT(0xff800000u);\n", unseen);
    out += fmt::format("float x = s * {};\n", constant(DType::Float32, a.attrs.scale, 0));
    if (a.has_mask) {
        plan::Operand m = a.mask;
        std::string at = "mask_base";
        for (int d = 2; d < 4; ++d)
            if (m.shape[d] != 1 && m.strides[static_cast<std::size_t>(d)] != 0)
                at += fmt::format(" + {} * {}", d == 2 ? "i" : "j",
                                  m.strides[static_cast<std::size_t>(d)]);
        const std::string value = load(m.dtype, "mask", at);
        if (m.dtype == DType::Bool)
            out += fmt::format("if (!{}) return AS_FLOAT(0xff800000u);\n", value);
        else
            out += fmt::format("x = x + {};\n", value);
    }
    out += "return x;\n}\n";
    if (!a.has_dropout) return out;
    out += kDropout;
    // Those of query i and keys j .. j + 3.
    const double p = a.attrs.dropout;
    const std::string limit = constant(DType::Float32, static_cast<float>(p), 0);
    const std::string factor =
        constant(DType::Float32, p >= 1 ? 0 : static_cast<float>(1 / (1 - p)), 0);
    out += fmt::format(
        "F4 kept(I64 key, I64 stream, int head, int i, int j) {{\n"
        "I64 at = (I64(head) * I64({0}) + I64(i)) * I64({1}) + I64(j);\n"
        "F4 u0 = uniform_block(key, stream, at >> 2);\n",
        a.l, a.s);
    if (a.s % 4 == 0)
        out += "F4 u = u0;\n";
    else
        out +=
            "F4 u1 = uniform_block(key, stream, (at >> 2) + I64(1));\n"
            "int k = int(at & I64(3));\n"
            "F4 u = MAKE_F4(one_of(u0, u1, k), one_of(u0, u1, k + 1), one_of(u0, u1, k + 2), "
            "one_of(u0, u1, k + 3));\n";
    out += fmt::format(
        "return MAKE_F4(u.x < {0} ? 0.0f : {1}, u.y < {0} ? 0.0f : {1}, "
        "u.z < {0} ? 0.0f : {1}, u.w < {0} ? 0.0f : {1});\n}}\n",
        limit, factor);
    return out;
}

}  // namespace pippin::gpu
