// gather, scatter_add, index_select and index_add. Every index is checked; sums are made by the
// thread that owns their destination, in the order of the source, so that they never depend on
// threads.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

using std::int64_t;

// The first bad index in scan order, whichever thread meets one.
class BadIndex {
  public:
    void report(int64_t position) {
        int64_t seen = position_.load(std::memory_order_relaxed);
        while (position < seen &&
               !position_.compare_exchange_weak(seen, position, std::memory_order_relaxed)) {
        }
    }
    bool any() const { return position_.load(std::memory_order_relaxed) != kNone; }
    int64_t position() const { return position_.load(std::memory_order_relaxed); }

  private:
    static constexpr int64_t kNone = INT64_MAX;
    std::atomic<int64_t> position_{kNone};
};

// Walks over all dims of a shape but one, in row-major order.
struct Walk {
    int rank = 0;
    std::array<int64_t, 8> extents{};
    int64_t count = 1;

    Walk(const Shape& shape, int skipped) {
        for (int d = 0; d < shape.rank(); ++d)
            if (d != skipped) {
                extents[static_cast<std::size_t>(rank++)] = shape[d];
                count *= shape[d];
            }
    }
    std::array<int64_t, 8> strides_of(const plan::Operand& o, int skipped) const {
        std::array<int64_t, 8> s{};
        std::size_t k = 0;
        for (int d = 0; d < o.shape.rank(); ++d)
            if (d != skipped) s[k++] = o.strides[static_cast<std::size_t>(d)];
        return s;
    }
    int64_t offset(int64_t i, const std::array<int64_t, 8>& strides) const {
        int64_t at = 0;
        for (int d = rank - 1; d >= 0; --d) {
            const auto k = static_cast<std::size_t>(d);
            at += i % extents[k] * strides[k];
            i /= extents[k];
        }
        return at;
    }
};

class IndexReader {
  public:
    IndexReader(const plan::Operand& o) : wide_(o.dtype == DType::Int64) {
        if (o.dtype != DType::Int64 && o.dtype != DType::Int32)
            throw Error("indices must be int64 or int32");
    }
    int64_t operator()(const void* data, int64_t at) const {
        return wide_ ? static_cast<const int64_t*>(data)[at]
                     : static_cast<const std::int32_t*>(data)[at];
    }

  private:
    bool wide_;
};

[[noreturn]] void raise(const graph::OpRecord& op, int64_t index, int64_t extent) {
    throw IndexError(std::string(op.name) + ": index " + std::to_string(index) +
                     " is out of range for extent " + std::to_string(extent));
}

// How a dtype is added up.
template <class T>
struct Sum {
    using type = T;
};
template <>
struct Sum<Half> {
    using type = float;
};
template <>
struct Sum<BFloat> {
    using type = float;
};
// Unsigned, because integers wrap.
template <>
struct Sum<std::int32_t> {
    using type = std::uint32_t;
};
template <>
struct Sum<int64_t> {
    using type = std::uint64_t;
};

// y[.., j, ..] = x[.., index[.., j, ..], ..] with index of y's shape.
class Gather : public HeavyKernel {
  public:
    explicit Gather(const plan::HeavyLaunch& l)
        : op_(*l.op),
          dim_(graph::ops::dim_attr(l.attrs)),
          size_(size_of(l.output.dtype)),
          x_(l.operands[0]),
          index_(l.operands[1]),
          y_(l.output),
          read_(index_),
          walk_(y_.shape, dim_) {}

    void run(void* const* operands, void* output) override {
        switch (size_) {
            case 1:
                return run_as<std::uint8_t>(operands, output);
            case 2:
                return run_as<std::uint16_t>(operands, output);
            case 4:
                return run_as<std::uint32_t>(operands, output);
            default:
                return run_as<std::uint64_t>(operands, output);
        }
    }

  private:
    template <class T>
    void run_as(void* const* operands, void* output) const {
        const T* x = static_cast<const T*>(operands[0]);
        T* y = static_cast<T*>(output);
        const auto d = static_cast<std::size_t>(dim_);
        const int64_t extent = x_.shape[dim_], length = y_.shape[dim_];
        const int64_t x_step = x_.strides[d], i_step = index_.strides[d], y_step = y_.strides[d];
        const auto xs = walk_.strides_of(x_, dim_), is = walk_.strides_of(index_, dim_);
        const auto ys = walk_.strides_of(y_, dim_);
        BadIndex bad;
        parallel_ranges(walk_.count, walk_.count * (length + 4),
                        [&](int64_t begin, int64_t end, int) {
                            for (int64_t r = begin; r < end; ++r) {
                                const int64_t xo = walk_.offset(r, xs), io = walk_.offset(r, is);
                                const int64_t yo = walk_.offset(r, ys);
                                for (int64_t j = 0; j < length; ++j) {
                                    const int64_t at = read_(operands[1], io + j * i_step);
                                    if (at < 0 || at >= extent) {
                                        bad.report(io + j * i_step);
                                        continue;
                                    }
                                    y[yo + j * y_step] = x[xo + at * x_step];
                                }
                            }
                        });
        if (bad.any()) raise(op_, read_(operands[1], bad.position()), extent);
    }

    const graph::OpRecord& op_;
    int dim_;
    std::size_t size_;
    plan::Operand x_, index_, y_;
    IndexReader read_;
    Walk walk_;
};

// y[.., index[.., j, ..], ..] += src[.., j, ..] from zero. A line along dim has one owner.
template <class T>
class ScatterAdd : public HeavyKernel {
  public:
    explicit ScatterAdd(const plan::HeavyLaunch& l)
        : op_(*l.op),
          dim_(graph::ops::dim_attr(l.attrs)),
          index_(l.operands[0]),
          src_(l.operands[1]),
          y_(l.output),
          read_(index_),
          lines_(y_.shape, dim_),
          scatters_(index_.shape, dim_) {
        line_bytes_ = align64(static_cast<std::size_t>(y_.shape[dim_]) * sizeof(A));
        bands_ = num_threads();
        scratch_bytes = line_bytes_ * static_cast<std::size_t>(bands_);
    }

    void run(void* const* operands, void* output) override {
        const T* src = static_cast<const T*>(operands[1]);
        T* y = static_cast<T*>(output);
        const auto d = static_cast<std::size_t>(dim_);
        const int64_t extent = y_.shape[dim_], length = index_.shape[dim_];
        const int64_t i_step = index_.strides[d], s_step = src_.strides[d], y_step = y_.strides[d];
        const auto is = lines_.strides_of(index_, dim_), ss = lines_.strides_of(src_, dim_);
        const auto ys = lines_.strides_of(y_, dim_);
        BadIndex bad;
        const int bands =
            std::min(bands_, threads_for(lines_.count, lines_.count * (extent + length)));
        parallel_threads(bands, [&](int b) {
            A* line = reinterpret_cast<A*>(static_cast<char*>(scratch) +
                                           static_cast<std::size_t>(b) * line_bytes_);
            for (int64_t r = lines_.count * b / bands; r < lines_.count * (b + 1) / bands; ++r) {
                std::fill(line, line + extent, A{});
                if (has_source(r)) {
                    const int64_t io = lines_.offset(r, is), so = lines_.offset(r, ss);
                    for (int64_t j = 0; j < length; ++j) {
                        const int64_t at = read_(operands[0], io + j * i_step);
                        if (at < 0 || at >= extent) {
                            bad.report(io + j * i_step);
                            continue;
                        }
                        line[at] += A(src[so + j * s_step]);
                    }
                }
                const int64_t yo = lines_.offset(r, ys);
                for (int64_t j = 0; j < extent; ++j)
                    y[yo + j * y_step] = T(line[j]);
            }
        });
        if (bad.any()) raise(op_, read_(operands[0], bad.position()), extent);
    }

  private:
    using A = typename Sum<T>::type;

    // The index may be shorter than the result along other dims too.
    bool has_source(int64_t line) const {
        for (int d = lines_.rank - 1; d >= 0; --d) {
            const auto k = static_cast<std::size_t>(d);
            if (line % lines_.extents[k] >= scatters_.extents[k]) return false;
            line /= lines_.extents[k];
        }
        return true;
    }

    const graph::OpRecord& op_;
    int dim_;
    plan::Operand index_, src_, y_;
    IndexReader read_;
    Walk lines_, scatters_;
    std::size_t line_bytes_ = 0;
    int bands_ = 1;
};

// A tensor seen as [outer, extent of dim, inner], where that is possible: inner is dense.
struct Slices {
    int64_t outer = 1, inner = 1;
    int64_t outer_stride = 0, dim_stride = 0;
};

bool slices_of(const plan::Operand& o, int dim, Slices* s) {
    *s = {};
    for (int d = o.shape.rank() - 1; d > dim; --d) {
        if (o.shape[d] != 1 && o.strides[static_cast<std::size_t>(d)] != s->inner) return false;
        s->inner *= o.shape[d];
    }
    s->dim_stride = o.strides[static_cast<std::size_t>(dim)];
    int64_t step = 0;
    for (int d = dim - 1; d >= 0; --d) {
        if (o.shape[d] == 1) continue;
        const int64_t stride = o.strides[static_cast<std::size_t>(d)];
        if (s->outer == 1)
            s->outer_stride = stride;
        else if (stride != step)
            return false;
        s->outer *= o.shape[d];
        step = stride * o.shape[d];
    }
    return true;
}

// y = x's slices along dim that the 1-d index names: whole rows are copied.
class IndexSelect : public HeavyKernel {
  public:
    explicit IndexSelect(const plan::HeavyLaunch& l)
        : op_(*l.op),
          dim_(graph::ops::dim_attr(l.attrs)),
          size_(size_of(l.output.dtype)),
          extent_(l.operands[0].shape[dim_]),
          length_(l.output.shape[dim_]),
          step_(l.operands[1].strides[0]),
          read_(l.operands[1]) {
        if (!slices_of(l.operands[0], dim_, &x_) || !slices_of(l.output, dim_, &y_))
            throw Error("index_select needs row-major operands");
    }

    void run(void* const* operands, void* output) override {
        const char* x = static_cast<const char*>(operands[0]);
        char* y = static_cast<char*>(output);
        const std::size_t bytes = static_cast<std::size_t>(y_.inner) * size_;
        const auto size = static_cast<int64_t>(size_);
        BadIndex bad;
        const int64_t rows = y_.outer * length_;
        parallel_ranges(rows, rows * (y_.inner + 8), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t o = i / length_, j = i % length_;
                const int64_t at = read_(operands[1], j * step_);
                if (at < 0 || at >= extent_) {
                    bad.report(j);
                    continue;
                }
                std::memcpy(y + (o * y_.outer_stride + j * y_.dim_stride) * size,
                            x + (o * x_.outer_stride + at * x_.dim_stride) * size, bytes);
            }
        });
        if (bad.any()) raise(op_, read_(operands[1], bad.position() * step_), extent_);
    }

  private:
    const graph::OpRecord& op_;
    int dim_;
    std::size_t size_;
    int64_t extent_, length_, step_;
    IndexReader read_;
    Slices x_, y_;
};

// y's slices along dim are the sums of src's slices whose index names them. The work is cut by
// destination: each thread looks through all indices for the rows it owns.
template <class T>
class IndexAdd : public HeavyKernel {
  public:
    explicit IndexAdd(const plan::HeavyLaunch& l)
        : op_(*l.op),
          dim_(graph::ops::dim_attr(l.attrs)),
          extent_(l.output.shape[dim_]),
          length_(l.operands[1].shape[dim_]),
          step_(l.operands[0].strides[0]),
          read_(l.operands[0]) {
        if (!slices_of(l.operands[1], dim_, &src_) || !slices_of(l.output, dim_, &y_))
            throw Error("index_add needs row-major operands");
        // The sources of each destination, as a counting sort leaves them; and, for halves, one
        // row of sums per thread.
        row_bytes_ = align64(static_cast<std::size_t>(y_.inner) * sizeof(A));
        sums_at_ = align64(static_cast<std::size_t>(extent_ + 1 + length_) * sizeof(int64_t));
        bands_ = num_threads();
        scratch_bytes = sums_at_ + row_bytes_ * static_cast<std::size_t>(bands_);
    }

    void run(void* const* operands, void* output) override {
        const T* src = static_cast<const T*>(operands[1]);
        T* y = static_cast<T*>(output);
        // first[e] is where the sources of destination e begin in `order`.
        int64_t* first = static_cast<int64_t*>(scratch);
        int64_t* order = first + extent_ + 1;
        std::fill(first, first + extent_ + 1, 0);
        for (int64_t j = 0; j < length_; ++j) {
            const int64_t at = read_(operands[0], j * step_);
            if (at < 0 || at >= extent_) raise(op_, at, extent_);
            ++first[at + 1];
        }
        for (int64_t e = 0; e < extent_; ++e)
            first[e + 1] += first[e];
        for (int64_t j = length_ - 1; j >= 0; --j)
            order[--first[read_(operands[0], j * step_) + 1]] = j;
        // Now first[e + 1] is where e begins, and e ends where e + 1 begins.
        const auto begin_of = [&](int64_t e) { return e < extent_ ? first[e + 1] : length_; };

        const int64_t total = y_.outer * extent_;
        const int bands =
            std::min(bands_, threads_for(total, y_.outer * y_.inner * (extent_ + length_)));
        parallel_threads(bands, [&](int b) {
            A* sums = reinterpret_cast<A*>(static_cast<char*>(scratch) + sums_at_ +
                                           static_cast<std::size_t>(b) * row_bytes_);
            for (int64_t i = total * b / bands; i < total * (b + 1) / bands; ++i) {
                const int64_t o = i / extent_, e = i % extent_;
                std::fill(sums, sums + y_.inner, A{});
                for (int64_t k = begin_of(e); k < begin_of(e + 1); ++k) {
                    const T* row = src + o * src_.outer_stride + order[k] * src_.dim_stride;
                    for (int64_t c = 0; c < y_.inner; ++c)
                        sums[c] += A(row[c]);
                }
                T* to = y + o * y_.outer_stride + e * y_.dim_stride;
                for (int64_t c = 0; c < y_.inner; ++c)
                    to[c] = T(sums[c]);
            }
        });
    }

  private:
    using A = typename Sum<T>::type;
    const graph::OpRecord& op_;
    int dim_;
    int64_t extent_, length_, step_;
    IndexReader read_;
    Slices src_, y_;
    std::size_t row_bytes_ = 0, sums_at_ = 0;
    int bands_ = 1;
};

template <template <class> class Kernel>
std::unique_ptr<HeavyKernel> make_sum(const plan::HeavyLaunch& l) {
    switch (l.output.dtype) {
        case DType::UInt8:
            return std::make_unique<Kernel<std::uint8_t>>(l);
        case DType::Int32:
            return std::make_unique<Kernel<std::int32_t>>(l);
        case DType::Int64:
            return std::make_unique<Kernel<int64_t>>(l);
        case DType::Float16:
            return std::make_unique<Kernel<Half>>(l);
        case DType::BFloat16:
            return std::make_unique<Kernel<BFloat>>(l);
        case DType::Float32:
            return std::make_unique<Kernel<float>>(l);
        case DType::Float64:
            return std::make_unique<Kernel<double>>(l);
        case DType::Bool:
            break;
    }
    throw Error("the CPU cannot add up bool");
}

}  // namespace

std::unique_ptr<HeavyKernel> make_gather(const plan::HeavyLaunch& l) {
    return std::make_unique<Gather>(l);
}
std::unique_ptr<HeavyKernel> make_scatter_add(const plan::HeavyLaunch& l) {
    return make_sum<ScatterAdd>(l);
}
std::unique_ptr<HeavyKernel> make_index_select(const plan::HeavyLaunch& l) {
    return std::make_unique<IndexSelect>(l);
}
std::unique_ptr<HeavyKernel> make_index_add(const plan::HeavyLaunch& l) {
    return make_sum<IndexAdd>(l);
}

}  // namespace pippin::cpu
