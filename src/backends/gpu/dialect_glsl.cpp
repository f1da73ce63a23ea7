#include <string_view>

#include "backends/gpu/kernel.h"

namespace pippin::gpu {

int KernelSource::shared_bytes() const {
    int bytes = 0;
    for (const Shared& s : shared)
        bytes += s.count * (s.type == "F4" || s.type == "U4"        ? 16
                            : s.type == "I64" || s.type == "double" ? 8
                                                                    : 4);
    return bytes;
}

namespace {

struct Element {
    const char *name, *memory, *value;
    int size;
};

// Integers narrower than 32 bits are storage alone: they become uint on the way.
constexpr Element kElements[] = {
    {"U8", "uint8_t", "uint", 1},   {"U16", "uint16_t", "uint", 2},   {"U32", "uint", "uint", 4},
    {"I32", "int", "int", 4},       {"I64", "int64_t", "int64_t", 8}, {"F32", "float", "float", 4},
    {"F64", "double", "double", 8}, {"F4", "vec4", "vec4", 16},       {"U4", "uvec4", "uvec4", 16},
};

constexpr const char* kNativeHalf = R"(
float f16_to_f32(uint h) { return unpackHalf2x16(h).x; }
uint f32_to_f16(float x) { return packHalf2x16(vec2(x, 0.0f)); }
uint pack_f16(float x, float y) { return packHalf2x16(vec2(x, y)); }
)";

constexpr const char* kMatrices = R"(
#define WARP gl_SubgroupID
#define WARP_LANE gl_SubgroupInvocationID
#define MAT_H fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define MAT_C fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define MAT_ZERO(c) c = MAT_C(0.0)
#define MAT_LOAD(m, array, at, stride, columns) coopMatLoadNV(m, array, at, stride, columns)
#define MAT_MUL(a, b, c) c = coopMatMulAddNV(a, b, c)
#define MAT_STORE(c, array, at, stride) coopMatStoreNV(c, array, at, stride, false)
)";

}  // namespace

std::string render_glsl(const KernelSource& k, const GlslOptions& options) {
    std::string text = "#version 460\n";
    const auto has = [&](std::string_view word) {
        return k.body.find(word) != std::string::npos ||
               k.functions.find(word) != std::string::npos;
    };
    for (const char* extension :
         {"GL_EXT_buffer_reference", "GL_EXT_shader_explicit_arithmetic_types_int64",
          "GL_EXT_control_flow_attributes"})
        text += std::string("#extension ") + extension + " : require\n";
    if (has("MAT_C"))
        for (const char* extension :
             {"GL_NV_cooperative_matrix", "GL_KHR_memory_scope_semantics",
              "GL_KHR_shader_subgroup_basic", "GL_EXT_shader_explicit_arithmetic_types_float16"})
            text += std::string("#extension ") + extension + " : require\n";
    if (has("_U8(")) text += "#extension GL_EXT_shader_8bit_storage : require\n";
    if (has("_U16(")) text += "#extension GL_EXT_shader_16bit_storage : require\n";
    // Execution modes of SPIR-V (float controls) that GLSL has no words for.
    if (options.keep_denormals || options.keep_specials)
        text += "#extension GL_EXT_spirv_intrinsics : require\n";
    if (options.keep_denormals) text += "spirv_execution_mode(capabilities = [4464], 4459, 32);\n";
    if (options.keep_specials) text += "spirv_execution_mode(capabilities = [4466], 4461, 32);\n";
    text += "layout(local_size_x = " + std::to_string(k.threads) + ") in;\n";
    // Matrices are loaded and stored under this model's rules.
    if (has("MAT_C")) text += "#pragma use_vulkan_memory_model\n";
    text += R"(
#define I64 int64_t
#define F4 vec4
#define MAKE_F4(a, b, c, d) vec4(a, b, c, d)
#define U4 uvec4
#define MAKE_U4(a, b, c, d) uvec4(a, b, c, d)
#define SET_PART(quad, i, v) (quad)[i] = (v)
#define LANE gl_LocalInvocationID.x
#define GROUP (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + first_group)
#define AS_FLOAT uintBitsToFloat
#define AS_UINT floatBitsToUint
#define FMA fma
#define EXACT precise
#define ROUND_EVEN roundEven
#define I64_BITS(hi, lo) ((int64_t(hi) << 32) | int64_t(lo))
#define BARRIER() barrier()
#define UNROLL [[unroll]]
#define ROLL [[dont_unroll]]
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments { int64_t v[]; };
layout(push_constant) uniform Push { Arguments arguments; uint first_group; };
#define ARG(i) (arguments.v[i])
#define ADDRESS(i) uint64_t(arguments.v[i])
#define PTR uint64_t
uint MULHI(uint a, uint b) {
    uint hi;
    uint lo;
    umulExtended(a, b, hi, lo);
    return hi;
}
)";
    if (has("MAT_C")) text += kMatrices;
    text += "#define THREADS " + std::to_string(k.threads) + "u\n";
    for (const Element& e : kElements) {
        const std::string name = e.name;
        if (!has("LD_" + name + "(") && !has("ST_" + name + "(")) continue;
        text +=
            "layout(buffer_reference, std430, buffer_reference_align = " + std::to_string(e.size) +
            ") buffer Memory" + name + " { " + e.memory + " v[]; };\n";
        // Numbers in brackets have 32 bits.
        const std::string place =
            "Memory" + name +
            (k.wide ? "((p) + uint64_t(I64(i)) * " + std::to_string(e.size) + "ul).v[0]"
                    : "(p).v[i]");
        text += "#define LD_" + name + "(p, i) " + e.value + "(" + place + ")\n";
        text += "#define ST_" + name + "(p, i, x) " + place + " = " + e.memory + "(x)\n";
    }
    for (const Shared& s : k.shared)
        text += "shared " + s.type + " " + s.name + "[" + std::to_string(s.count) + "];\n";
    // Without NaN to keep to, compilers make a minimum of a comparison and a choice.
    text += options.keep_specials
                ? "#define LESS(a, b) ((a) < (b))\n#define AT_MOST(a, b) ((a) <= (b))\n"
                : "#define LESS is_less\n#define AT_MOST is_at_most\n";
    text += options.native_half ? kNativeHalf : kHalfSource;
    text += kMathSource;
    text += k.functions;
    text += "void main() {\nif (GROUP >= uint(ARG(0))) return;\n";
    text += k.body;
    text += "}\n";
    return text;
}

}  // namespace pippin::gpu
