// Kernels in the common subset of the C-like GPU languages, and the dialects that make a
// language's own source of them.
//
// The subset: C expressions, loops and conditions over float, int, uint, bool and I64 (a 64-bit
// integer); functions of values; no pointers, templates, vectors' swizzles or recursion. All else
// goes through macros that a dialect defines:
//   LANE, THREADS       the thread's number in its group, and how many there are
//   GROUP               the group's number (groups are one row, however the device arranges them)
//   ARG(i)              64-bit argument i of this dispatch; argument 0 is the number of groups
//   ADDRESS(i)          argument i as an address
//   LD_type, ST_type    an element of memory: U8, U16, U32, I32, I64, F32 (F64): LD_F32(p, i)
//   LD_F4, ST_F4        four floats at element 4 i, aligned to 16 bytes
//   F4                  four floats .x .y .z .w, made by MAKE_F4; SET_PART(f4, i, x) sets one
//   U4                  four uints (eight float16), made by MAKE_U4; LD_U4, ST_U4 at element 4 i
//   BARRIER()           all threads of a group get here before any goes on; shared memory is seen
//   AS_FLOAT, AS_UINT   the bits of a float
//   LESS(a, b), AT_MOST(a, b)   whether a < b, a <= b; false for NaN, whatever the device does
//   FMA(a, b, c)        a * b + c, rounded once where the device can
//   EXACT               before a float variable: sums into it are not rearranged
//   I64_BITS(hi, lo)    a 64-bit integer constant
//   MULHI(a, b)         upper half of the 64-bit product of two uints
//   UNROLL, ROLL        before a loop: worth unrolling; must not be unrolled
// Where Features::matrices says so, also what the 32 threads of a subgroup hold together:
//   WARP, WARP_LANE     the subgroup's number in its group, and the thread's in the subgroup
//   MAT_H, MAT_C        a matrix of 16 x 16 float16; of 16 x 16 float
//   MAT_ZERO(c)         c = 0
//   MAT_LOAD(m, u4s, at, stride, columns)   from a shared array of U4, rows (columns if true) being
//                       `stride` elements of it apart
//   MAT_MUL(a, b, c)    c += a b
//   MAT_STORE(c, u4s, at, stride)           to a shared array of U4, the floats' bits
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pippin::gpu {

/// An array that the threads of a group share.
struct Shared {
    std::string type, name;
    int count = 0;
    bool operator==(const Shared&) const = default;
};

struct KernelSource {
    std::string name;   ///< for people and profilers: letters, digits, _
    int threads = 256;  ///< of a group; a power of two, at most 256
    std::vector<Shared> shared;
    std::string functions;  ///< functions of values that the body calls
    std::string body;       ///< statements
    bool float64 = false;   ///< needs 64-bit floats
    bool wide = false;      ///< elements of memory have 64-bit numbers

    int shared_bytes() const;
};

/// float16's conversions (f16_to_f32, f32_to_f16, pack_f16), for devices that have none to rely on.
extern const char* const kHalfSource;
/// bfloat16's conversions and float functions as accurate as the processor's (a few units in the
/// last place): text in the subset that goes before every kernel's own functions.
extern const char* const kMathSource;

/// What a Vulkan driver can be asked to keep to.
struct GlslOptions {
    bool keep_denormals = false;  ///< numbers below the smallest normal one are not zero
    bool keep_specials = false;   ///< signed zeros, infinities and NaN are what they are
    bool native_half = false;     ///< its float16 conversions round to the nearest even
};

/// GLSL for Vulkan: a compute shader whose push constants are the address of the arguments (64
/// bits) and the number of the dispatch's first group (32 bits).
std::string render_glsl(const KernelSource& kernel, const GlslOptions& options);

/// Plain C++, which needs a few lines of its own: that is all a further language takes.
/// cpp_prelude() comes first, once; a kernel becomes `void <name>::body()`, one thread of one
/// group, over fiber_lane, fiber_group and fiber_arguments that whoever runs it sets, and yield()
/// for barriers.
std::string cpp_prelude();
std::string render_cpp(const KernelSource& kernel, const std::string& name);

}  // namespace pippin::gpu
