// Pooling over NHWC maps. Threads own whole rows of the result, so that sums come out the same
// whatever their number; other memory orders and halves go through scratch.
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/pool_rows.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

using std::int64_t;

template <class T, class A, class Index>
PoolRows<T, A, Index> rows_for() {
    PoolRows<T, A, Index> rows{};
    get_pool_rows(&rows);
    return rows;
}

// A max pooling's window, with the tables that the rows read.
struct MaxTables {
    MaxWindow window{};
    std::vector<Taps> taps[2];
    std::vector<Cover> covers[2];
    std::vector<Covers> covers_of[2];

    explicit MaxTables(const PoolGeometry& g) {
        window.h = g.h, window.w = g.w, window.c = g.c, window.oh = g.oh, window.ow = g.ow;
        for (int d = 0; d < 2; ++d) {
            window.kernel[d] = g.kernel[d];
            window.stride[d] = g.stride[d];
            window.pad[d] = g.pad[d];
            window.dilation[d] = g.dilation[d];
            fill(d, d == 0 ? g.h : g.w, d == 0 ? g.oh : g.ow);
        }
        window.rows = taps[0].data(), window.columns = taps[1].data();
        window.row_covers = covers_of[0].data(), window.column_covers = covers_of[1].data();
    }
    MaxTables(const MaxTables&) = delete;
    MaxTables& operator=(const MaxTables&) = delete;

  private:
    void fill(int d, int64_t inputs, int64_t outputs) {
        std::vector<std::vector<Cover>> of(static_cast<std::size_t>(inputs));
        std::size_t total = 0;
        for (int64_t o = 0; o < outputs; ++o) {
            Taps t{0, 0};
            for (int64_t u = 0; u < window.kernel[d]; ++u) {
                const int64_t at = o * window.stride[d] - window.pad[d] + u * window.dilation[d];
                if (at < 0 || at >= inputs) continue;
                if (t.last == 0) t.first = u;
                t.last = u + 1;
                of[static_cast<std::size_t>(at)].push_back({o, u});
                ++total;
            }
            taps[d].push_back(t);
        }
        covers[d].reserve(total);
        for (const auto& list : of) {
            const Cover* begin = covers[d].data() + covers[d].size();
            covers[d].insert(covers[d].end(), list.begin(), list.end());
            covers_of[d].push_back({begin, begin + list.size()});
        }
    }
};

template <class T, class A, class Index>
class MaxPool : public HeavyKernel {
  public:
    explicit MaxPool(const plan::HeavyLaunch& l)
        : g_(pool_geometry(l, l.operands[0], l.output)), tables_(g_) {}

    void run(void* const* operands, void* output) override {
        const T* x = static_cast<const T*>(operands[0]);
        T* y = static_cast<T*>(output);
        const int64_t row = g_.ow * g_.c;
        const int64_t work = g_.n * g_.oh * row * g_.kernel[0] * g_.kernel[1];
        parallel_ranges(g_.n * g_.oh, work, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i)
                rows_.max(tables_.window, x + i / g_.oh * g_.h * g_.w * g_.c, i % g_.oh,
                          y + i * row);
        });
    }

  private:
    PoolGeometry g_;
    MaxTables tables_;
    PoolRows<T, A, Index> rows_ = rows_for<T, A, Index>();
};

// The arg max is found again, row by row, as far as the rows of the gradient ask for it.
template <class T, class A, class Index>
class MaxPoolGrad : public HeavyKernel {
  public:
    explicit MaxPoolGrad(const plan::HeavyLaunch& l)
        : g_(pool_geometry(l, l.operands[0], l.operands[1])), tables_(g_) {
        x_image_ = g_.h * g_.w * g_.c;
        y_image_ = g_.oh * g_.ow * g_.c;
        apart_ = true;
        exact_ = true;
        for (int d = 0; d < 2; ++d) {
            if (g_.dilation[d] != 1 || g_.stride[d] < g_.kernel[d]) apart_ = false;
            if (g_.stride[d] != g_.kernel[d] || g_.pad[d] != 0) exact_ = false;
        }
        if (apart_) return;
        kept_ = (g_.kernel[0] - 1) * g_.dilation[0] / g_.stride[0] + 1;
        row_bytes_ = align64(static_cast<std::size_t>(g_.ow * g_.c) * sizeof(Index));
        bands_ = num_threads();
        scratch_bytes = static_cast<std::size_t>(bands_ * kept_) * row_bytes_;
    }

    void run(void* const* operands, void* output) override {
        const T* x = static_cast<const T*>(operands[0]);
        const T* dy = static_cast<const T*>(operands[1]);
        T* dx = static_cast<T*>(output);
        const int64_t work = 4 * g_.n * x_image_;
        if (work == 0) return;
        if (apart_) {
            parallel_ranges(g_.n * g_.oh, work, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) {
                    const int64_t n = i / g_.oh;
                    apart(x + n * x_image_, dy + n * y_image_, i % g_.oh, dx + n * x_image_);
                }
            });
            return;
        }
        const int64_t total = g_.n * g_.h;
        const int bands = std::min(bands_, threads_for(total, work));
        parallel_threads(bands, [&](int b) {
            overlapping(x, dy, dx, total * b / bands, total * (b + 1) / bands, b);
        });
    }

  private:
    // An output row writes the input rows from its window to the next one's.
    void apart(const T* x, const T* dy, int64_t r, T* dx) const {
        const int64_t row = g_.w * g_.c;
        const int64_t h0 = r == 0 ? 0 : r * g_.stride[0] - g_.pad[0];
        const int64_t h1 = r + 1 == g_.oh ? g_.h : (r + 1) * g_.stride[0] - g_.pad[0];
        for (int64_t h = h0; h < h1; ++h) {
            // Only what no window covers is to be zeroed.
            const bool covered = exact_ && h < h0 + g_.kernel[0];
            const int64_t from = covered ? g_.ow * g_.stride[1] * g_.c : 0;
            std::fill(dx + h * row + std::min(from, row), dx + (h + 1) * row, T(0));
        }
        rows_.max_grad_apart(tables_.window, x, dy, r, dx);
    }

    // The first output row whose window reaches input row h or a later one.
    int64_t first_window(int64_t h) const {
        const int64_t least = h + g_.pad[0] - (g_.kernel[0] - 1) * g_.dilation[0];
        return least <= 0 ? 0 : (least + g_.stride[0] - 1) / g_.stride[0];
    }

    void overlapping(const T* x, const T* dy, T* dx, int64_t begin, int64_t end, int band) const {
        std::vector<Index*> ring(static_cast<std::size_t>(kept_));
        for (std::size_t k = 0; k < ring.size(); ++k)
            ring[k] = reinterpret_cast<Index*>(static_cast<char*>(scratch) +
                                               (static_cast<std::size_t>(band) * ring.size() + k) *
                                                   row_bytes_);
        int64_t image = -1, known = 0;  // output rows below `known` were found
        for (int64_t i = begin; i < end; ++i) {
            const int64_t n = i / g_.h, h = i % g_.h;
            if (n != image) image = n, known = first_window(h);
            const Covers covers = tables_.window.row_covers[h];
            // All in turn: with dilation a later row may need an output row that this one does not.
            if (covers.begin < covers.end)
                for (; known <= (covers.end - 1)->output; ++known)
                    rows_.arg_max(tables_.window, x + n * x_image_, known,
                                  ring[static_cast<std::size_t>(known % kept_)]);
            rows_.max_grad(tables_.window, dy + n * y_image_, h, ring.data(), kept_,
                           dx + i * g_.w * g_.c);
        }
    }

    PoolGeometry g_;
    MaxTables tables_;
    PoolRows<T, A, Index> rows_ = rows_for<T, A, Index>();
    int64_t kept_ = 1, x_image_ = 0, y_image_ = 0;
    int bands_ = 1;
    bool apart_ = false;  ///< no two windows overlap
    bool exact_ = false;  ///< and they touch each other
    std::size_t row_bytes_ = 0;
};

// Which inputs each output of one dim averages, and which outputs each input is in.
struct Spans {
    std::vector<int64_t> begin, end, out_begin, out_end;
    std::vector<double> count;  ///< what the output is divided by

    void add(int64_t from, int64_t to, double divisor) {
        begin.push_back(from);
        end.push_back(to);
        count.push_back(divisor);
    }
    void invert(int64_t extent) {
        out_begin.assign(static_cast<std::size_t>(extent), 0);
        out_end.assign(static_cast<std::size_t>(extent), 0);
        for (std::size_t i = 0; i < begin.size(); ++i)
            for (int64_t at = begin[i]; at < end[i]; ++at) {
                const auto k = static_cast<std::size_t>(at);
                if (out_end[k] == 0) out_begin[k] = static_cast<int64_t>(i);
                out_end[k] = static_cast<int64_t>(i) + 1;
            }
    }
    Ranges ranges() const { return {begin.data(), end.data(), out_begin.data(), out_end.data()}; }
};

Spans window_spans(const PoolGeometry& g, int d) {
    Spans s;
    const int64_t extent = d == 0 ? g.h : g.w, outputs = d == 0 ? g.oh : g.ow;
    for (int64_t i = 0; i < outputs; ++i) {
        const int64_t from = i * g.stride[d] - g.pad[d];
        const int64_t to = std::min(from + g.kernel[d], extent + g.pad[d]);
        const int64_t a = std::max<int64_t>(from, 0), b = std::max(a, std::min(to, extent));
        s.add(a, b, static_cast<double>(g.count_include_pad ? to - from : b - a));
    }
    s.invert(extent);
    return s;
}

Spans adaptive_spans(int64_t extent, int64_t outputs) {
    Spans s;
    for (int64_t i = 0; i < outputs; ++i) {
        const int64_t a = i * extent / outputs;
        const int64_t b = ((i + 1) * extent + outputs - 1) / outputs;
        s.add(a, b, static_cast<double>(b - a));
    }
    s.invert(extent);
    return s;
}

struct AverageShape {
    int64_t n, c, h, w, oh, ow;
    Spans rows, columns;

    /// Windows of 2 x 2 side by side that cover x.
    bool in_pairs() const {
        bool pairs = h == 2 * oh && w == 2 * ow;
        for (const Spans* s : {&rows, &columns})
            for (std::size_t i = 0; i < s->begin.size(); ++i)
                pairs = pairs && s->begin[i] == 2 * static_cast<int64_t>(i) &&
                        s->end[i] == s->begin[i] + 2 && s->count[i] == 2;
        return pairs;
    }
};

AverageShape average_shape(const plan::HeavyLaunch& l, bool is_grad) {
    const plan::Operand& x = is_grad ? l.output : l.operands[0];
    const plan::Operand& y = is_grad ? l.operands[0] : l.output;
    AverageShape s{x.shape[0], x.shape[1], x.shape[2], x.shape[3], y.shape[2], y.shape[3], {}, {}};
    if (l.op == &graph::ops::kAdaptiveAvgPool2d || l.op == &graph::ops::kAdaptiveAvgPool2dGrad) {
        s.rows = adaptive_spans(s.h, s.oh);
        s.columns = adaptive_spans(s.w, s.ow);
    } else {
        const PoolGeometry g = pool_geometry(l, x, y);
        s.rows = window_spans(g, 0);
        s.columns = window_spans(g, 1);
    }
    return s;
}

template <class T>
std::vector<T> scales(const AverageShape& s) {
    std::vector<T> scale;
    for (const double a : s.rows.count)
        for (const double b : s.columns.count) {
            // A window that lies in the padding alone averages nothing.
            const double count = a * b;
            scale.push_back(static_cast<T>(count > 0 ? 1.0 / count : 0.0));
        }
    return scale;
}

template <class T, class A, class Index>
class AvgPool : public HeavyKernel {
  public:
    explicit AvgPool(const plan::HeavyLaunch& l)
        : s_(average_shape(l, false)), scale_(scales<A>(s_)) {}

    void run(void* const* operands, void* output) override {
        const T* x = static_cast<const T*>(operands[0]);
        T* y = static_cast<T*>(output);
        const int64_t image = s_.h * s_.w * s_.c, row = s_.ow * s_.c;
        parallel_ranges(s_.n * s_.oh, s_.n * image, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                if (pairs_) {
                    rows_.average_pairs(x + i * 2 * s_.w * s_.c, s_.c, s_.ow, y + i * row);
                    continue;
                }
                const auto r = static_cast<std::size_t>(i % s_.oh);
                rows_.average(x + i / s_.oh * image, s_.w, s_.c, s_.ow, s_.rows.begin[r],
                              s_.rows.end[r], s_.columns.ranges(),
                              scale_.data() + r * static_cast<std::size_t>(s_.ow), y + i * row);
            }
        });
    }

  private:
    AverageShape s_;
    std::vector<A> scale_;
    bool pairs_ = s_.in_pairs();
    PoolRows<T, A, Index> rows_ = rows_for<T, A, Index>();
};

template <class T, class A, class Index>
class AvgPoolGrad : public HeavyKernel {
  public:
    explicit AvgPoolGrad(const plan::HeavyLaunch& l)
        : s_(average_shape(l, true)), scale_(scales<A>(s_)) {}

    void run(void* const* operands, void* output) override {
        const T* dy = static_cast<const T*>(operands[0]);
        T* dx = static_cast<T*>(output);
        const int64_t image = s_.oh * s_.ow * s_.c, row = s_.w * s_.c;
        if (pairs_) {
            parallel_ranges(s_.n * s_.oh, s_.n * s_.h * row, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i)
                    rows_.average_grad_pairs(dy + i * s_.ow * s_.c, s_.c, s_.ow, dx + i * 2 * row);
            });
            return;
        }
        parallel_ranges(s_.n * s_.h, s_.n * s_.h * row, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const auto h = static_cast<std::size_t>(i % s_.h);
                rows_.average_grad(dy + i / s_.h * image, s_.w, s_.c, s_.ow, s_.rows.out_begin[h],
                                   s_.rows.out_end[h], s_.columns.ranges(), scale_.data(),
                                   dx + i * row);
            }
        });
    }

  private:
    AverageShape s_;
    std::vector<A> scale_;
    bool pairs_ = s_.in_pairs();
    PoolRows<T, A, Index> rows_ = rows_for<T, A, Index>();
};

template <template <class, class, class> class Kernel>
std::unique_ptr<HeavyKernel> make_dense(const plan::HeavyLaunch& l) {
    switch (l.output.dtype) {
        case DType::Float16:
            return std::make_unique<Kernel<Half, float, std::int32_t>>(l);
        case DType::BFloat16:
            return std::make_unique<Kernel<BFloat, float, std::int32_t>>(l);
        case DType::Float64:
            return std::make_unique<Kernel<double, double, std::int64_t>>(l);
        default:
            return std::make_unique<Kernel<float, float, std::int32_t>>(l);
    }
}

// Halves whose windows overlap so much that a sum would be stored, and rounded, on the way.
bool needs_wide_sums(const plan::HeavyLaunch& l) {
    if (l.op != &graph::ops::kMaxPool2dGrad || !is_half(l.output.dtype)) return false;
    const graph::PoolAttrs a = graph::ops::pool_attrs(l.attrs);
    int64_t covers = 1;
    for (int d = 0; d < 2; ++d)
        covers *= (a.kernel[d] + a.stride[d] - 1) / a.stride[d];
    return covers > kCoversAtOnce;
}

template <template <class, class, class> class Kernel>
std::unique_ptr<HeavyKernel> make(const plan::HeavyLaunch& launch) {
    if (!is_floating(launch.output.dtype)) throw Error("the CPU pools floating dtypes only");
    const plan::Epilogue& e = launch.epilogue;
    if (e.bias >= 0 || e.residual >= 0 || e.activation != plan::Activation::None)
        throw Error("pooling takes no epilogue");
    const bool widen = needs_wide_sums(launch);
    plan::HeavyLaunch wanted = launch;
    bool changed = widen;
    const auto fix = [&](plan::Operand& o) {
        if (!widen && is_channels_last(o)) return;
        o = dense_operand(o, plan::Order::ChannelsLast, widen ? DType::Float32 : o.dtype);
        changed = true;
    };
    for (plan::Operand& o : wanted.operands)
        fix(o);
    fix(wanted.output);
    if (!changed) return make_dense<Kernel>(launch);
    return make_converted(launch, wanted, make_dense<Kernel>);
}

}  // namespace

std::unique_ptr<HeavyKernel> make_max_pool2d(const plan::HeavyLaunch& l) {
    return make<MaxPool>(l);
}
std::unique_ptr<HeavyKernel> make_max_pool2d_grad(const plan::HeavyLaunch& l) {
    return make<MaxPoolGrad>(l);
}
std::unique_ptr<HeavyKernel> make_avg_pool2d(const plan::HeavyLaunch& l) {
    return make<AvgPool>(l);
}
std::unique_ptr<HeavyKernel> make_avg_pool2d_grad(const plan::HeavyLaunch& l) {
    return make<AvgPoolGrad>(l);
}
std::unique_ptr<HeavyKernel> make_adaptive_avg_pool2d(const plan::HeavyLaunch& l) {
    return make<AvgPool>(l);
}
std::unique_ptr<HeavyKernel> make_adaptive_avg_pool2d_grad(const plan::HeavyLaunch& l) {
    return make<AvgPoolGrad>(l);
}

}  // namespace pippin::cpu
