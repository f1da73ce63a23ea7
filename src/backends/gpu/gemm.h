// The one tiled product behind matmul and convolutions: C[b][m][n] = sum over k of A[b][m][k]
// B[b][k][n], where A, B and C are whatever their functions say.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/work.h"

namespace pippin::gpu {

struct Gemm {
    std::string name;
    std::int64_t batches = 1, m = 1, n = 1, k = 1;
    /// Where the sum of batch b ends, if not at k (at most there): an expression, behind
    /// statements.
    std::string k_end, k_end_needs;

    /// Functions in the subset, all with these names and parameters; loads give 0 where not ok:
    ///   float load_a(PTR p, int b, int m, int k, bool ok)
    ///   float load_b(PTR p, int b, int k, int n, bool ok)
    ///   float bias_at(PTR bias, int b, int n), read once for all rows of a thread
    ///   void store_c(PTR c, float bias, PTR residual, int b, int m, int n, float x)
    std::string functions;
    /// Four at once, where they lie side by side at an address divisible by 16: along k if
    /// a_along_k (b_along_k), else along m (n).
    ///   F4 load_a4(PTR p, int b, int m, int k, bool ok)
    ///   F4 load_b4(PTR p, int b, int k, int n, bool ok)
    bool a_quads = false, b_quads = false;
    /// void store_c4(PTR c, F4 bias, PTR residual, int b, int m, int n, F4 x): four along n
    bool c_quads = false;
    /// Both operands are float16, so that matrix units can take them (Features::matrices). Their
    /// bits, eight at once where they lie side by side at an address divisible by 16, else one:
    ///   U4 load_a8(PTR p, int b, int m, int k, bool ok), or uint load_a1(...)
    ///   U4 load_b8(PTR p, int b, int k, int n, bool ok), or uint load_b1(...)
    bool halves = false, a_octets = false, b_octets = false;
    /// void store_c8(PTR c, F4 bias_x, F4 bias_y, PTR residual, int b, int m, int n, F4 x, F4 y)
    bool c_octets = false;
    /// Whether neighbours in k are neighbours in memory (else those in m or n are).
    bool a_along_k = true, b_along_k = false;
    /// Addresses of A, B, C, bias and residual (a value where there is none).
    Arg a, b, c, bias = value_arg(0), residual = value_arg(0);
    /// Scratch below this is the caller's.
    std::int64_t scratch_from = 0;
};

/// Adds the dispatches, in the form that the step's choice asks for.
void write_gemm(Work& w, Step& s, const Gemm& g, const Features& f);

/// Forms worth a trial beside `first`, which is complete; the likeliest come first. `matrices`: on
/// matrix units.
std::vector<ProductForm> other_forms(const ProductShape& shape, bool matrices,
                                     const ProductForm& first, const Features& f);

/// What a load takes: an element (load_a), four (load_a4), the bits of one float16 (load_a1) or of
/// eight (load_a8).
enum class Width { One, Quad, Half, Octet };
std::vector<Width> widths(bool quads, bool halves, bool octets);
/// Whether loads need not ask if they are behind the sum's end: steps of so many end there.
bool ends_with_steps(const Gemm& g, int depth);
/// The heads of the functions above, up to their "{".
std::string load_a_head(Width w);
std::string load_b_head(Width w);
/// The end of a load's body: the element at `index` of p if ok, else zero. All but the load itself
/// is outside of the condition, which becomes a predicate: a branch, or a choice between values,
/// would have to wait for each load before the next one starts.
std::string load_if_ok(DType dtype, const std::string& index, Width w);

/// An operand's element as an index expression: offset is in the address, strides times the named
/// coordinates; those of extent 1 are left out. "0" for a single element.
std::string strided_index(const plan::Operand& o, const std::vector<std::string>& coordinates);
/// The address of an operand's first element.
Arg operand_arg(const plan::Operand& o);
/// Throws Error where an operand cannot be indexed with 32 bits or its dtype is not one that
/// kernels of floats read.
void check_operand(const plan::Operand& o);
/// Whether four elements along dim `along` can be read or written at once: float32, side by side,
/// and every other step keeps addresses divisible by 16.
bool has_quads(const plan::Operand& o, int along);
/// Four elements of a float32 or half type as memory has them, so that a load can be on its way
/// while other work is done: `zero` and `load(p, element / 4)` are of `type`.
struct RawQuad {
    const char *type, *zero, *load, *unpack;
    std::string declare(const std::string& name) const;  ///< a variable, zero at first
    std::string value(const std::string& name) const;    ///< of it, as F4
};
RawQuad raw_quad(DType dtype);
/// Whether quads along dim `along` can be read so.
bool has_raw_quads(const plan::Operand& o, int along);
/// The same for eight float16.
bool has_octets(const plan::Operand& o, int along);
/// The launch's bias of `channel`, of the PTR bias; "0.0f" where it has none.
std::string bias_value(const plan::HeavyLaunch& l, const std::string& channel);
/// bias_at, whole. Channels are numbers of b and n.
std::string bias_function(const plan::HeavyLaunch& l, const std::string& channel);
extern const char* const kNoBias;  ///< bias_at of what has none
/// The body of store_c4, without a residual; see epilogue().
std::string epilogue4(const plan::HeavyLaunch& l, const std::string& index);
/// The body of store_c8 for float16; the residual (if any) lies side by side at `index` too.
std::string epilogue8(const plan::HeavyLaunch& l, const std::string& residual_index,
                      const std::string& index);
/// The body of store_c behind the sum: bias (a value), residual (index), activation, and the store
/// at `index`.
std::string epilogue(const plan::HeavyLaunch& l, const std::string& bias,
                     const std::string& residual_index, const std::string& index);

}  // namespace pippin::gpu
