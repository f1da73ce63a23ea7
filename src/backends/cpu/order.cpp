// cumsum, argsort and scatter. Operands and results are dense and row-major: [outer, n, inner]
// around the dim. A line along the dim has one owner, so that results never depend on threads.
#include "backends/cpu/order.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/geometry.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records_order.h"

namespace pippin::cpu {

namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

struct Lines {
    int64_t outer = 1, n = 1, inner = 1;

    Lines(const Shape& s, int dim) : n(s[dim]) {
        for (int d = 0; d < s.rank(); ++d)
            (d < dim ? outer : inner) *= d == dim ? 1 : s[d];
    }
    int64_t count() const { return outer * inner; }
    /// Offset of line i's first element; the next is `inner` further.
    int64_t first(int64_t i) const { return i / inner * n * inner + i % inner; }
};

void need_dense(const plan::HeavyLaunch& l) {
    for (const plan::Operand& o : l.operands)
        if (!is_row_major(o)) throw Error("the operands must be row-major");
    if (!is_row_major(l.output)) throw Error("the result must be row-major");
}

template <class F>
auto by_dtype(DType t, F f) {
    switch (t) {
        case DType::Bool:
        case DType::UInt8:
            return f(std::uint8_t{});
        case DType::Int32:
            return f(std::int32_t{});
        case DType::Int64:
            return f(int64_t{});
        case DType::Float16:
            return f(Half{});
        case DType::BFloat16:
            return f(BFloat{});
        case DType::Float32:
            return f(float{});
        case DType::Float64:
            break;
    }
    return f(double{});
}

// --- cumsum: floats are added up in double, integers wrap ---

template <class T>
struct Running {
    using type = uint64_t;
    static type widen(T v) { return static_cast<type>(v); }
    static T narrow(type v) { return static_cast<T>(v); }
};
template <class T>
struct RunningReal {
    using type = double;
    static type widen(T v) { return static_cast<double>(static_cast<float>(v)); }
    static T narrow(type v) { return T(static_cast<float>(v)); }
};
template <>
struct Running<float> : RunningReal<float> {};
template <>
struct Running<Half> : RunningReal<Half> {};
template <>
struct Running<BFloat> : RunningReal<BFloat> {};
template <>
struct Running<double> {
    using type = double;
    static type widen(double v) { return v; }
    static double narrow(type v) { return v; }
};

template <class T>
class CumSum : public HeavyKernel {
  public:
    explicit CumSum(const plan::HeavyLaunch& l)
        : lines_(l.output.shape, graph::ops::dim_attr(l.attrs)),
          reverse_(graph::ops::reverse_attr(l.attrs)) {
        need_dense(l);
    }

    // A task is a block of neighbouring lines, which are read row by row.
    void run(void* const* operands, void* output) override {
        using R = Running<T>;
        const T* x = static_cast<const T*>(operands[0]);
        T* y = static_cast<T*>(output);
        const int64_t blocks = (lines_.inner + kBlock - 1) / kBlock;
        parallel_ranges(
            lines_.outer * blocks, lines_.count() * lines_.n, [&](int64_t begin, int64_t end, int) {
                for (int64_t task = begin; task < end; ++task) {
                    const int64_t column = task % blocks * kBlock;
                    const int64_t width = std::min(kBlock, lines_.inner - column);
                    const int64_t from = task / blocks * lines_.n * lines_.inner + column;
                    typename R::type sums[kBlock] = {};
                    for (int64_t j = 0; j < lines_.n; ++j) {
                        const int64_t at = from + (reverse_ ? lines_.n - 1 - j : j) * lines_.inner;
                        for (int64_t c = 0; c < width; ++c)
                            y[at + c] = R::narrow(sums[c] += R::widen(x[at + c]));
                    }
                }
            });
    }

  private:
    static constexpr int64_t kBlock = 64;
    Lines lines_;
    bool reverse_;
};

// --- argsort: values become unsigned keys of the same order, NaN the largest ---

uint32_t key_of(float v) {
    if (std::isnan(v)) return ~uint32_t{0};
    v += 0.0f;  // -0 is 0
    uint32_t u;
    std::memcpy(&u, &v, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}
uint32_t key_of(Half v) { return key_of(static_cast<float>(v)); }
uint32_t key_of(BFloat v) { return key_of(static_cast<float>(v)); }
uint32_t key_of(std::uint8_t v) { return v; }
uint32_t key_of(std::int32_t v) { return static_cast<uint32_t>(v) ^ 0x80000000u; }
uint64_t key_of(int64_t v) { return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63); }
uint64_t key_of(double v) {
    if (std::isnan(v)) return ~uint64_t{0};
    v += 0.0;
    uint64_t u;
    std::memcpy(&u, &v, sizeof u);
    return u >> 63 ? ~u : u | uint64_t{1} << 63;
}

// A key and a position; the position decides among equal keys.
struct Narrow {
    uint64_t both;
    static Narrow of(uint32_t key, int64_t at) {
        return {uint64_t{key} << 32 | static_cast<uint64_t>(at)};
    }
    bool operator<(const Narrow& o) const { return both < o.both; }
    int64_t position() const { return static_cast<int64_t>(both & 0xffffffffu); }
};
struct Wide {
    uint64_t key;
    int64_t at;
    static Wide of(uint64_t key, int64_t at) { return {key, at}; }
    bool operator<(const Wide& o) const { return key != o.key ? key < o.key : at < o.at; }
    int64_t position() const { return at; }
};

template <class T>
class ArgSort : public HeavyKernel {
  public:
    explicit ArgSort(const plan::HeavyLaunch& l)
        : lines_(l.operands[0].shape, graph::ops::dim_attr(l.attrs)),
          count_(graph::ops::count_attr(l.attrs)),
          descending_(graph::ops::descending_attr(l.attrs)) {
        need_dense(l);
        if (sizeof(Key) == 4 && lines_.n > std::numeric_limits<uint32_t>::max())
            throw Error("cannot sort lines of more than 2^32 elements of " +
                        std::string(name_of(l.operands[0].dtype)) + "; cast to float64 or int64");
        bands_ = num_threads();
        band_bytes_ = align64(static_cast<std::size_t>(lines_.n) * sizeof(Item));
        scratch_bytes = band_bytes_ * static_cast<std::size_t>(bands_);
    }

    void run(void* const* operands, void* output) override {
        const T* x = static_cast<const T*>(operands[0]);
        int64_t* y = static_cast<int64_t*>(output);
        const int64_t lines = lines_.count(), n = lines_.n;
        if (lines == 0 || count_ == 0) return;
        const int64_t steps = static_cast<int64_t>(std::log2(static_cast<double>(n)) + 1);
        const int bands = std::min(bands_, threads_for(lines, lines * n * steps));
        parallel_threads(bands, [&](int b) {
            Item* items = reinterpret_cast<Item*>(static_cast<char*>(scratch) +
                                                  static_cast<std::size_t>(b) * band_bytes_);
            for (int64_t i = lines * b / bands; i < lines * (b + 1) / bands; ++i) {
                const T* line = x + lines_.first(i);
                for (int64_t j = 0; j < n; ++j) {
                    const Key key = key_of(line[j * lines_.inner]);
                    items[j] = Item::of(descending_ ? static_cast<Key>(~key) : key, j);
                }
                if (count_ < n) std::nth_element(items, items + count_, items + n);
                std::sort(items, items + count_);
                int64_t* to = y + i / lines_.inner * count_ * lines_.inner + i % lines_.inner;
                for (int64_t j = 0; j < count_; ++j)
                    to[j * lines_.inner] = items[j].position();
            }
        });
    }

  private:
    using Key = decltype(key_of(T{}));
    using Item = std::conditional_t<sizeof(Key) == 4, Narrow, Wide>;
    Lines lines_;
    int64_t count_;
    bool descending_;
    int bands_ = 1;
    std::size_t band_bytes_ = 0;
};

// --- scatter: x's bytes, and src's over them ---

template <class T, class I>
class Scatter : public HeavyKernel {
  public:
    explicit Scatter(const plan::HeavyLaunch& l)
        : dim_(graph::ops::dim_attr(l.attrs)),
          y_(l.output.shape),
          source_(l.operands[1].shape),
          lines_(source_, dim_) {
        need_dense(l);
        std::int64_t step = 1;
        for (int d = y_.rank() - 1; d >= 0; --d) {
            strides_[static_cast<std::size_t>(d)] = step;
            step *= y_[d];
        }
    }

    void run(void* const* operands, void* output) override {
        const I* index = static_cast<const I*>(operands[1]);
        const T* src = static_cast<const T*>(operands[2]);
        T* y = static_cast<T*>(output);
        const int64_t extent = y_[dim_], step = strides_[static_cast<std::size_t>(dim_)];
        const int64_t total = source_.numel();
        for (int64_t i = 0; i < total; ++i)
            if (index[i] < 0 || index[i] >= extent)
                throw IndexError("scatter: index " + std::to_string(index[i]) +
                                 " is out of range for extent " + std::to_string(extent));
        const auto bytes = static_cast<std::size_t>(y_.numel()) * sizeof(T);
        if (bytes) std::memcpy(y, operands[0], bytes);
        parallel_ranges(lines_.count(), total, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t from = lines_.first(i), to = place(i);
                for (int64_t j = 0; j < lines_.n; ++j) {
                    const int64_t at = from + j * lines_.inner;
                    y[to + static_cast<int64_t>(index[at]) * step] = src[at];
                }
            }
        });
    }

  private:
    // Where line i of the index begins in y, whose other dims may be longer.
    int64_t place(int64_t i) const {
        int64_t at = 0;
        for (int d = source_.rank() - 1; d >= 0; --d) {
            if (d == dim_) continue;
            at += i % source_[d] * strides_[static_cast<std::size_t>(d)];
            i /= source_[d];
        }
        return at;
    }

    int dim_;
    Shape y_, source_;
    Lines lines_;
    plan::Strides strides_{};
};

template <class T>
std::unique_ptr<HeavyKernel> scatter_of(const plan::HeavyLaunch& l) {
    if (l.operands[1].dtype == DType::Int64) return std::make_unique<Scatter<T, int64_t>>(l);
    if (l.operands[1].dtype == DType::Int32) return std::make_unique<Scatter<T, std::int32_t>>(l);
    throw Error("indices must be int64 or int32");
}

}  // namespace

std::unique_ptr<HeavyKernel> make_cumsum(const plan::HeavyLaunch& l) {
    return by_dtype(l.output.dtype, [&](auto v) -> std::unique_ptr<HeavyKernel> {
        return std::make_unique<CumSum<decltype(v)>>(l);
    });
}
std::unique_ptr<HeavyKernel> make_argsort(const plan::HeavyLaunch& l) {
    return by_dtype(l.operands[0].dtype, [&](auto v) -> std::unique_ptr<HeavyKernel> {
        return std::make_unique<ArgSort<decltype(v)>>(l);
    });
}
std::unique_ptr<HeavyKernel> make_scatter(const plan::HeavyLaunch& l) {
    switch (size_of(l.output.dtype)) {
        case 1:
            return scatter_of<std::uint8_t>(l);
        case 2:
            return scatter_of<std::uint16_t>(l);
        case 4:
            return scatter_of<uint32_t>(l);
        default:
            return scatter_of<uint64_t>(l);
    }
}

}  // namespace pippin::cpu
