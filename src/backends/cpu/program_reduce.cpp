// Reductions of blocks: rows, columns, and merging of partial results.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/program_reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/vec_loops.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace {

using Byte = std::uint8_t;  // a Bool

// How a kind of reduction combines two values; R: the result's type.
struct Sum {
    template <class R>
    static constexpr R identity() {
        return R{};
    }
    template <class R>
    HWY_INLINE static R run(R a, R b) {
        if constexpr (std::is_same_v<R, std::int64_t>)
            return static_cast<R>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
        else
            return a + b;
    }
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::Add(a, b);
    }
    template <class D, class V>
    HWY_INLINE static V across(D d, V v) {
        return hn::SumOfLanes(d, v);
    }
};
struct Prod {
    template <class R>
    static constexpr R identity() {
        return R{1};
    }
    template <class R>
    HWY_INLINE static R run(R a, R b) {
        if constexpr (std::is_same_v<R, std::int64_t>)
            return static_cast<R>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
        else
            return a * b;
    }
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::Mul(a, b);
    }
    template <class D, class V>
    HWY_INLINE static V across(D d, V v) {
        HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
        hn::Store(v, d, lanes);
        float product = 1.0f;
        for (std::size_t i = 0; i < hn::Lanes(d); ++i)
            product *= lanes[i];
        return hn::Set(d, product);
    }
};
struct Max {
    template <class R>
    static constexpr R identity() {
        if constexpr (std::is_floating_point_v<R>) return -std::numeric_limits<R>::infinity();
        return std::is_same_v<R, Byte> ? R{0} : std::numeric_limits<R>::lowest();
    }
    template <class R>
    HWY_INLINE static R run(R a, R b) {
        return ((a > b) | (a != a)) ? a : b;
    }
    template <class R>
    HWY_INLINE static bool better(R b, R a) {  // b, later in order, takes a's place
        return (b > a) | ((b != b) & (a == a));
    }
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    }
    template <class D, class V>
    HWY_INLINE static V across(D d, V v) {
        if (hn::AllFalse(d, hn::IsNaN(v))) return hn::MaxOfLanes(d, v);
        return hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    }
};
struct Min {
    template <class R>
    static constexpr R identity() {
        if constexpr (std::is_floating_point_v<R>) return std::numeric_limits<R>::infinity();
        return std::is_same_v<R, Byte> ? R{1} : std::numeric_limits<R>::max();
    }
    template <class R>
    HWY_INLINE static R run(R a, R b) {
        return ((a < b) | (a != a)) ? a : b;
    }
    template <class R>
    HWY_INLINE static bool better(R b, R a) {
        return (b < a) | ((b != b) & (a == a));
    }
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
    }
    template <class D, class V>
    HWY_INLINE static V across(D d, V v) {
        if (hn::AllFalse(d, hn::IsNaN(v))) return hn::MinOfLanes(d, v);
        return hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    }
};

// ---- one row ----

// Applies f to each vector of a row. Four accumulators, started anew every few vectors, keep sums
// accurate.
template <class Op, class F>
HWY_INLINE float reduce_row(const float* a, std::size_t n, F f) {
    const hn::ScalableTag<float> d;
    const std::size_t lanes = hn::Lanes(d), step = 4 * lanes, run = 16 * step;
    const Op op{};
    const auto identity = hn::Set(d, Op::template identity<float>());
    auto total = identity;
    std::size_t i = 0;
    while (i + step <= n) {
        const std::size_t end = n - i < run ? n : i + run;
        auto s0 = identity, s1 = identity, s2 = identity, s3 = identity;
        for (; i + step <= end; i += step) {
            s0 = op(d, s0, f(d, hn::LoadU(d, a + i)));
            s1 = op(d, s1, f(d, hn::LoadU(d, a + i + lanes)));
            s2 = op(d, s2, f(d, hn::LoadU(d, a + i + 2 * lanes)));
            s3 = op(d, s3, f(d, hn::LoadU(d, a + i + 3 * lanes)));
        }
        total = op(d, total, op(d, op(d, s0, s1), op(d, s2, s3)));
    }
    for (; i + lanes <= n; i += lanes)
        total = op(d, total, f(d, hn::LoadU(d, a + i)));
    if (i < n) {
        const auto last = f(d, load_part(d, a + i, n - i));
        total = op(d, total, hn::IfThenElse(hn::FirstN(d, n - i), last, identity));
    }
    return hn::GetLane(Op::across(d, total));
}

struct Same {
    template <class D, class V>
    HWY_INLINE V operator()(D, V v) const {
        return v;
    }
};
struct SquaredFrom {
    float mean;
    template <class D, class V>
    HWY_INLINE V operator()(D d, V v) const {
        const V x = hn::Sub(v, hn::Set(d, mean));
        return hn::Mul(x, x);
    }
};

template <class Op, class R, class T>
HWY_INLINE R row_value(const T* a, std::size_t n) {
    if constexpr (std::is_same_v<T, float>) {
        return reduce_row<Op>(a, n, Same{});
    } else {
        R r = Op::template identity<R>();
        for (std::size_t i = 0; i < n; ++i)
            r = Op::run(r, static_cast<R>(a[i]));
        return r;
    }
}

// Rows of at most one vector.
template <class Op>
void short_rows(float* r, const float* a, std::size_t rows, std::size_t columns) {
    const hn::ScalableTag<float> d;
    const auto mask = hn::FirstN(d, columns);
    const auto identity = hn::Set(d, Op::template identity<float>());
    for (std::size_t i = 0; i < rows; ++i, a += columns)
        r[i] = hn::GetLane(Op::across(d, hn::IfThenElse(mask, load_part(d, a, columns), identity)));
}

template <class Op, class R, class T>
void rows_of(void* result, void*, const void* in, std::size_t rows, std::size_t columns,
             std::int64_t) {
    auto* r = static_cast<R*>(result);
    const auto* a = static_cast<const T*>(in);
    if constexpr (std::is_same_v<T, float>) {
        if (columns <= hn::Lanes(hn::ScalableTag<float>()))
            return short_rows<Op>(r, a, rows, columns);
    }
    for (std::size_t i = 0; i < rows; ++i)
        r[i] = row_value<Op, R>(a + i * columns, columns);
}

template <class T>
void rows_m2(void* result, void* companion, const void* in, std::size_t rows, std::size_t columns,
             std::int64_t) {
    auto* m2 = static_cast<T*>(result);
    auto* mean = static_cast<T*>(companion);
    const auto* a = static_cast<const T*>(in);
    for (std::size_t i = 0; i < rows; ++i, a += columns) {
        const T m = row_value<Sum, T>(a, columns) / static_cast<T>(columns);
        T s{};
        if constexpr (std::is_same_v<T, float>) {
            s = reduce_row<Sum>(a, columns, SquaredFrom{m});
        } else {
            for (std::size_t c = 0; c < columns; ++c)
                s += (a[c] - m) * (a[c] - m);
        }
        m2[i] = s;
        mean[i] = m;
    }
}

template <class Op, class T>
void rows_arg(void* result, void* companion, const void* in, std::size_t rows, std::size_t columns,
              std::int64_t position) {
    auto* at = static_cast<std::int64_t*>(result);
    auto* best = static_cast<T*>(companion);
    const auto* a = static_cast<const T*>(in);
    for (std::size_t i = 0; i < rows; ++i, a += columns) {
        const T value = row_value<Op, T>(a, columns);
        std::size_t c = 0;
        while (c + 1 < columns && !(a[c] == value || (value != value && a[c] != a[c])))
            ++c;
        best[i] = value;
        at[i] = position + static_cast<std::int64_t>(c);
    }
}

// ---- columns ----

constexpr std::size_t kFewColumns = 16;

template <class Op, class V>
HWY_INLINE void fold(V* a, std::size_t rows, std::size_t columns) {
    while (rows > 1) {
        const std::size_t half = rows / 2, rest = (rows - half) * columns;
        for (std::size_t i = 0; i < half * columns; ++i)
            a[i] = Op::run(a[i], a[rest + i]);
        rows -= half;
    }
}

// Fewer columns than lanes: rows are taken sixteen at a time as one long row, which is folded at
// the end.
template <class Op>
void few_columns(float* r, const float* a, std::size_t rows, std::size_t columns) {
    HWY_ALIGN float sums[16 * kFewColumns];
    const std::size_t wide = 16 * columns, n = rows * columns, first = n < wide ? n : wide;
    std::memcpy(sums, a, first * sizeof(float));
    for (std::size_t i = first; i < n; i += wide) {
        const std::size_t m = n - i < wide ? n - i : wide;
        for (std::size_t j = 0; j < m; ++j)
            sums[j] = Op::run(sums[j], a[i + j]);
    }
    fold<Op>(sums, rows < 16 ? rows : 16, columns);
    std::memcpy(r, sums, columns * sizeof(float));
}

template <class Op>
HWY_INLINE void many_columns(float* r, const float* a, std::size_t rows, std::size_t columns) {
    const hn::ScalableTag<float> d;
    const std::size_t lanes = hn::Lanes(d);
    const Op op{};
    const auto identity = hn::Set(d, Op::template identity<float>());
    std::size_t c = 0;
    for (; c + 4 * lanes <= columns; c += 4 * lanes) {
        auto s0 = identity, s1 = identity, s2 = identity, s3 = identity;
        const float* p = a + c;
        for (std::size_t i = 0; i < rows; ++i, p += columns) {
            s0 = op(d, s0, hn::LoadU(d, p));
            s1 = op(d, s1, hn::LoadU(d, p + lanes));
            s2 = op(d, s2, hn::LoadU(d, p + 2 * lanes));
            s3 = op(d, s3, hn::LoadU(d, p + 3 * lanes));
        }
        hn::StoreU(s0, d, r + c);
        hn::StoreU(s1, d, r + c + lanes);
        hn::StoreU(s2, d, r + c + 2 * lanes);
        hn::StoreU(s3, d, r + c + 3 * lanes);
    }
    for (; c + lanes <= columns; c += lanes) {
        // two chains of rows, for there are no neighbours to overlap with
        auto s0 = identity, s1 = identity;
        const float* p = a + c;
        std::size_t i = 0;
        for (; i + 2 <= rows; i += 2, p += 2 * columns) {
            s0 = op(d, s0, hn::LoadU(d, p));
            s1 = op(d, s1, hn::LoadU(d, p + columns));
        }
        if (i < rows) s0 = op(d, s0, hn::LoadU(d, p));
        hn::StoreU(op(d, s0, s1), d, r + c);
    }
    if (c < columns) {
        auto s0 = identity;
        const float* p = a + c;
        for (std::size_t i = 0; i < rows; ++i, p += columns)
            s0 = op(d, s0, load_part(d, p, columns - c));
        store_part(s0, d, r + c, columns - c);
    }
}

template <class Op, class R, class T>
void columns_of(void* result, void*, const void* in, std::size_t rows, std::size_t columns,
                std::int64_t) {
    auto* r = static_cast<R*>(result);
    const auto* a = static_cast<const T*>(in);
    if constexpr (std::is_same_v<T, float>) {
        if (columns < kFewColumns)
            few_columns<Op>(r, a, rows, columns);
        else
            many_columns<Op>(r, a, rows, columns);
    } else {
        for (std::size_t c = 0; c < columns; ++c)
            r[c] = static_cast<R>(a[c]);
        for (std::size_t i = 1; i < rows; ++i)
            for (std::size_t c = 0; c < columns; ++c)
                r[c] = Op::run(r[c], static_cast<R>(a[i * columns + c]));
    }
}

// Squared deviations in one pass: the sum s of x - k and q of its square, where k is the first row.
// It is near enough to the mean of a few rows for q - s^2 / rows to lose nothing.
template <class D, class V>
HWY_INLINE V deviations(D d, V s, V q, V scale) {
    const V m2 = hn::NegMulAdd(hn::Mul(s, scale), s, q);
    return hn::IfThenElse(hn::Lt(m2, hn::Zero(d)), hn::Zero(d), m2);
}

void m2_of_many(float* m2, float* mean, const float* a, std::size_t rows, std::size_t columns) {
    const hn::ScalableTag<float> d;
    const std::size_t lanes = hn::Lanes(d);
    const auto scale = hn::Set(d, 1.0f / static_cast<float>(rows));
    std::size_t c = 0;
    for (; c + 2 * lanes <= columns; c += 2 * lanes) {
        const auto k0 = hn::LoadU(d, a + c), k1 = hn::LoadU(d, a + c + lanes);
        auto s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
        const float* p = a + c + columns;
        for (std::size_t i = 1; i < rows; ++i, p += columns) {
            const auto x0 = hn::Sub(hn::LoadU(d, p), k0);
            const auto x1 = hn::Sub(hn::LoadU(d, p + lanes), k1);
            s0 = hn::Add(s0, x0);
            s1 = hn::Add(s1, x1);
            q0 = hn::MulAdd(x0, x0, q0);
            q1 = hn::MulAdd(x1, x1, q1);
        }
        hn::StoreU(hn::MulAdd(s0, scale, k0), d, mean + c);
        hn::StoreU(hn::MulAdd(s1, scale, k1), d, mean + c + lanes);
        hn::StoreU(deviations(d, s0, q0, scale), d, m2 + c);
        hn::StoreU(deviations(d, s1, q1, scale), d, m2 + c + lanes);
    }
    for (; c < columns; c += lanes) {
        const std::size_t n = columns - c < lanes ? columns - c : lanes;
        const auto k = load_part(d, a + c, n);
        auto s = hn::Zero(d), q = s;
        const float* p = a + c + columns;
        for (std::size_t i = 1; i < rows; ++i, p += columns) {
            const auto x = hn::Sub(load_part(d, p, n), k);
            s = hn::Add(s, x);
            q = hn::MulAdd(x, x, q);
        }
        store_part(hn::MulAdd(s, scale, k), d, mean + c, n);
        store_part(deviations(d, s, q, scale), d, m2 + c, n);
    }
}

void m2_of_few(float* m2, float* mean, const float* a, std::size_t rows, std::size_t columns) {
    HWY_ALIGN float k[16 * kFewColumns];
    HWY_ALIGN float s[16 * kFewColumns] = {};
    HWY_ALIGN float q[16 * kFewColumns] = {};
    const std::size_t wide = 16 * columns, n = rows * columns;
    for (std::size_t i = 0; i < wide; i += columns)
        std::memcpy(k + i, a, columns * sizeof(float));
    for (std::size_t i = 0; i < n; i += wide) {
        const std::size_t m = n - i < wide ? n - i : wide;
        for (std::size_t j = 0; j < m; ++j) {
            const float x = a[i + j] - k[j];
            s[j] += x;
            q[j] += x * x;
        }
    }
    fold<Sum>(s, 16, columns);
    fold<Sum>(q, 16, columns);
    const float scale = 1.0f / static_cast<float>(rows);
    for (std::size_t c = 0; c < columns; ++c) {
        const float deviation = q[c] - s[c] * scale * s[c];
        mean[c] = k[c] + s[c] * scale;
        m2[c] = deviation < 0 ? 0 : deviation;
    }
}

template <class T>
void columns_m2(void* result, void* companion, const void* in, std::size_t rows,
                std::size_t columns, std::int64_t) {
    auto* m2 = static_cast<T*>(result);
    auto* mean = static_cast<T*>(companion);
    const auto* a = static_cast<const T*>(in);
    if constexpr (std::is_same_v<T, float>) {
        if (columns < kFewColumns)
            m2_of_few(m2, mean, a, rows, columns);
        else
            m2_of_many(m2, mean, a, rows, columns);
    } else {
        columns_of<Sum, T, T>(mean, nullptr, in, rows, columns, 0);
        for (std::size_t c = 0; c < columns; ++c)
            mean[c] /= static_cast<T>(rows), m2[c] = 0;
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t c = 0; c < columns; ++c) {
                const T x = a[i * columns + c] - mean[c];
                m2[c] += x * x;
            }
    }
}

template <class Op, class T>
void columns_arg(void* result, void* companion, const void* in, std::size_t rows,
                 std::size_t columns, std::int64_t position) {
    auto* at = static_cast<std::int64_t*>(result);
    auto* best = static_cast<T*>(companion);
    const auto* a = static_cast<const T*>(in);
    for (std::size_t c = 0; c < columns; ++c)
        best[c] = a[c], at[c] = position;
    for (std::size_t i = 1; i < rows; ++i)
        for (std::size_t c = 0; c < columns; ++c) {
            const T x = a[i * columns + c];
            if (Op::better(x, best[c]))
                best[c] = x, at[c] = position + static_cast<std::int64_t>(i);
        }
}

// ---- merging ----

template <class Op, class R>
void merge_of(void* result, void*, const void* result2, const void*, std::size_t n, std::int64_t,
              std::int64_t) {
    auto* r = static_cast<R*>(result);
    const auto* s = static_cast<const R*>(result2);
    for (std::size_t i = 0; i < n; ++i)
        r[i] = Op::run(r[i], s[i]);
}

template <class T>
void merge_m2(void* result, void* companion, const void* result2, const void* companion2,
              std::size_t n, std::int64_t count, std::int64_t count2) {
    auto* m2 = static_cast<T*>(result);
    auto* mean = static_cast<T*>(companion);
    const auto* m2b = static_cast<const T*>(result2);
    const auto* meanb = static_cast<const T*>(companion2);
    const double total = static_cast<double>(count) + static_cast<double>(count2);
    const T part = static_cast<T>(static_cast<double>(count2) / total);
    const T cross =
        static_cast<T>(static_cast<double>(count) * static_cast<double>(count2) / total);
    for (std::size_t i = 0; i < n; ++i) {
        const T delta = meanb[i] - mean[i];
        mean[i] += delta * part;
        m2[i] += m2b[i] + delta * delta * cross;
    }
}

template <class Op, class T>
void merge_arg(void* result, void* companion, const void* result2, const void* companion2,
               std::size_t n, std::int64_t, std::int64_t) {
    auto* at = static_cast<std::int64_t*>(result);
    auto* best = static_cast<T*>(companion);
    const auto* at2 = static_cast<const std::int64_t*>(result2);
    const auto* best2 = static_cast<const T*>(companion2);
    for (std::size_t i = 0; i < n; ++i)
        if (Op::better(best2[i], best[i])) best[i] = best2[i], at[i] = at2[i];
}

template <class Op, class R>
void init_of(void* result, void*, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        static_cast<R*>(result)[i] = Op::template identity<R>();
}
template <class R, class C>
void init_zero(void* result, void* companion, std::size_t n) {
    std::memset(result, 0, n * sizeof(R));
    std::memset(companion, 0, n * sizeof(C));
}

template <class T>
constexpr Reg reg() {
    if (std::is_same_v<T, Byte>) return Reg::Bool;
    if (std::is_same_v<T, std::int32_t>) return Reg::Int32;
    if (std::is_same_v<T, std::int64_t>) return Reg::Int64;
    return std::is_same_v<T, float> ? Reg::Float32 : Reg::Float64;
}

template <class Op, class R, class T>
const Reducer* simple() {
    static constexpr Reducer r{reg<R>(),        Reg::Bool,          false,
                               &init_of<Op, R>, &rows_of<Op, R, T>, &columns_of<Op, R, T>,
                               &merge_of<Op, R>};
    return &r;
}
template <class Op, class T>
const Reducer* arg() {
    static constexpr Reducer r{
        Reg::Int64,          reg<T>(),         true, &init_zero<std::int64_t, T>, &rows_arg<Op, T>,
        &columns_arg<Op, T>, &merge_arg<Op, T>};
    return &r;
}

template <class T>
const Reducer* find_typed(plan::Opcode op) {
    using O = plan::Opcode;
    using R = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
    switch (op) {
        case O::ReduceSum:
            return simple<Sum, R, T>();
        case O::ReduceProd:
            return simple<Prod, R, T>();
        case O::ReduceMax:
            return simple<Max, T, T>();
        case O::ReduceMin:
            return simple<Min, T, T>();
        case O::ReduceArgMax:
            return arg<Max, T>();
        case O::ReduceArgMin:
            return arg<Min, T>();
        default:
            break;
    }
    if constexpr (std::is_floating_point_v<T>) {
        static constexpr Reducer m2{reg<T>(),    reg<T>(),       true,        &init_zero<T, T>,
                                    &rows_m2<T>, &columns_m2<T>, &merge_m2<T>};
        if (op == O::ReduceM2) return &m2;
    }
    return nullptr;
}

const Reducer* find(plan::Opcode op, Reg type) {
    switch (type) {
        case Reg::Bool:
            return find_typed<Byte>(op);
        case Reg::Int32:
            return find_typed<std::int32_t>(op);
        case Reg::Int64:
            return find_typed<std::int64_t>(op);
        case Reg::Float32:
            return find_typed<float>(op);
        case Reg::Float64:
            return find_typed<double>(op);
    }
    return nullptr;
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {
namespace {
HWY_EXPORT(find);
}  // namespace

const Reducer* find_reducer(plan::Opcode op, Reg type) {
    return HWY_DYNAMIC_DISPATCH(find)(op, type);
}

}  // namespace pippin::cpu
#endif
