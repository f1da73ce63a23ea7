// Heavy launches built by hand: data in any dtype and order, one run, and the record's reference.
#pragma once

#include <gtest/gtest.h>
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) ((void)(begin))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) ((void)(begin))
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"
#include "graph/build.h"
#include "graph/node.h"
#include "graph/ops/records.h"
#include "pippin/device.h"

namespace pippin::heavy_test {

namespace ops = graph::ops;
using graph::RefArray;
using plan::Order;

/// An element of a buffer as a double, and back.
inline double load(DType t, const void* p, std::size_t i) {
    const auto as = [&]<class T>(T) { return static_cast<const T*>(p)[i]; };
    switch (t) {
        case DType::Bool:
        case DType::UInt8:
            return as(std::uint8_t{});
        case DType::Int32:
            return as(std::int32_t{});
        case DType::Int64:
            return static_cast<double>(as(std::int64_t{}));
        case DType::Float16:
            return static_cast<float>(as(Half{}));
        case DType::BFloat16:
            return static_cast<float>(as(BFloat{}));
        case DType::Float32:
            return as(float{});
        case DType::Float64:
            return as(double{});
    }
    return 0;
}
inline void store(DType t, void* p, std::size_t i, double v) {
    const auto as = [&]<class T>(T x) { static_cast<T*>(p)[i] = x; };
    switch (t) {
        case DType::Bool:
        case DType::UInt8:
            return as(static_cast<std::uint8_t>(v));
        case DType::Int32:
            return as(static_cast<std::int32_t>(v));
        case DType::Int64:
            return as(static_cast<std::int64_t>(v));
        case DType::Float16:
            return as(Half(static_cast<float>(v)));
        case DType::BFloat16:
            return as(BFloat(static_cast<float>(v)));
        case DType::Float32:
            return as(static_cast<float>(v));
        case DType::Float64:
            return as(v);
    }
}

/// Words of memory with a vector's room behind them, as every block of the backend has: a library's
/// kernel may read there. The address sanitizer forbids it to ours.
class Memory {
  public:
    Memory() = default;
    explicit Memory(std::size_t words)
        : size_(words), words_(new std::uint64_t[words + kBeyond]()) {
        ASAN_POISON_MEMORY_REGION(words_.get() + size_, kBeyond * 8);
    }
    Memory(const Memory& o) : Memory(o.size_) { std::copy_n(o.data(), size_, data()); }
    Memory(Memory&& o) noexcept { swap(o); }
    Memory& operator=(Memory o) noexcept {
        swap(o);
        return *this;
    }
    ~Memory() {
        if (words_) ASAN_UNPOISON_MEMORY_REGION(words_.get() + size_, kBeyond * 8);
    }
    std::uint64_t* data() { return words_.get(); }
    const std::uint64_t* data() const { return words_.get(); }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }

  private:
    static constexpr std::size_t kBeyond = 16;
    void swap(Memory& o) noexcept {
        std::swap(size_, o.size_);
        std::swap(words_, o.words_);
    }
    std::size_t size_ = 0;
    std::unique_ptr<std::uint64_t[]> words_;
};

/// A dense tensor in memory.
struct Data {
    plan::Operand view;
    Memory memory;  ///< of words, for alignment
    void* bytes() { return memory.data(); }
    const void* bytes() const { return memory.data(); }

    Data() = default;
    Data(DType dtype, const Shape& shape, Order order = Order::RowMajor) {
        view.shape = shape;
        view = cpu::dense_operand(view, order, dtype);
        memory = Memory((cpu::bytes_of(view) + 7) / 8);
    }
    std::size_t at(std::int64_t i) const {
        std::int64_t o = 0;
        for (int d = view.shape.rank() - 1; d >= 0; --d) {
            o += i % view.shape[d] * view.strides[static_cast<std::size_t>(d)];
            i /= view.shape[d];
        }
        return static_cast<std::size_t>(o);
    }
    double get(std::int64_t i) const { return load(view.dtype, bytes(), at(i)); }
    void set(std::int64_t i, double v) { store(view.dtype, bytes(), at(i), v); }
    RefArray ref() const {
        RefArray r{view.shape, {}};
        for (std::int64_t i = 0; i < view.shape.numel(); ++i)
            r.data.push_back(get(i));
        return r;
    }
};

/// Uniform in [-1, 1), or whole numbers for integer dtypes; what the dtype holds exactly.
inline Data random_data(DType dtype, const Shape& shape, Order order, unsigned seed) {
    Data d(dtype, shape, order);
    std::mt19937 gen(seed);
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const double u = static_cast<double>(gen()) / 2147483648.0 - 1;
        d.set(i, is_floating(dtype) ? u : std::floor(u * 8));
    }
    return d;
}
inline Data index_data(DType dtype, const Shape& shape, std::int64_t extent, unsigned seed) {
    Data d(dtype, shape);
    std::mt19937 gen(seed);
    for (std::int64_t i = 0; i < shape.numel(); ++i)
        d.set(i, static_cast<double>(gen() % static_cast<std::uint32_t>(extent)));
    return d;
}

/// A launch of `op` and what it runs on.
struct Trial {
    const graph::OpRecord* op = nullptr;
    graph::Attrs attrs;
    std::vector<Data> inputs;
    std::optional<Data> bias, residual;
    plan::Activation activation = plan::Activation::None;
    Order order = Order::ChannelsLast;  ///< of the output, if it has rank 4

    graph::NodePtr node() const {
        graph::Inputs in;
        for (const Data& d : inputs)
            in.push_back(graph::make_leaf(nullptr, d.view.dtype, d.view.shape, Device{}));
        return graph::make_node(*op, in, attrs);
    }

    plan::HeavyLaunch launch() const {
        const graph::NodePtr n = node();
        plan::HeavyLaunch l;
        l.op = op;
        l.attrs = attrs;
        for (const Data& d : inputs)
            l.operands.push_back(d.view);
        if (bias) {
            l.epilogue.bias = static_cast<std::int32_t>(l.operands.size());
            l.operands.push_back(bias->view);
        }
        if (residual) {
            l.epilogue.residual = static_cast<std::int32_t>(l.operands.size());
            l.operands.push_back(residual->view);
        }
        l.epilogue.activation = activation;
        l.output = Data(n->dtype, n->shape, order).view;
        return l;
    }

    /// Who runs trials; unset: the processor.
    static inline std::function<Data(Trial&)> runner;
    Data run() { return runner ? runner(*this) : run_on_cpu(); }
    Data run_on_cpu() { return run_with(*cpu::make_heavy(launch())); }
    Data run_with(cpu::HeavyKernel& kernel) {
        const plan::HeavyLaunch l = launch();
        std::vector<std::uint64_t> scratch(kernel.scratch_bytes / 8 + 16);
        const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
        kernel.scratch = reinterpret_cast<void*>((address + 63) & ~std::uintptr_t{63});
        std::vector<void*> operands;
        for (Data& d : inputs)
            operands.push_back(d.bytes());
        if (bias) operands.push_back(bias->bytes());
        if (residual) operands.push_back(residual->bytes());
        Data out(l.output.dtype, l.output.shape, order);
        // Garbage, twice: neither the result nor scratch may be taken for zero.
        for (int repeat = 0; repeat < 2; ++repeat) {
            if (!out.memory.empty()) std::memset(out.memory.data(), 0xff, out.memory.size() * 8);
            if (!scratch.empty()) std::memset(scratch.data(), 0xff, scratch.size() * 8);
            kernel.run(operands.data(), out.bytes());
        }
        return out;
    }

    RefArray expected() const { return with_epilogue(reference()); }

    /// The op alone.
    RefArray reference() const {
        const graph::NodePtr n = node();
        std::vector<RefArray> in;
        for (const Data& d : inputs)
            in.push_back(d.ref());
        return n->op->reference(*n, in);
    }

    RefArray with_epilogue(RefArray y) const {
        const int channel = op == &ops::kMatmul ? y.shape.rank() - 1 : 1;
        std::int64_t inner = 1;
        for (int d = channel + 1; d < y.shape.rank(); ++d)
            inner *= y.shape[d];
        for (std::int64_t i = 0; i < y.shape.numel(); ++i) {
            double& v = y.data[static_cast<std::size_t>(i)];
            if (bias) v += bias->get(i / inner % y.shape[channel]);
            if (residual) v += residual->get(i);
            switch (activation) {
                case plan::Activation::None:
                    break;
                case plan::Activation::Relu:
                    v = v < 0 ? 0 : v;
                    break;
                case plan::Activation::Tanh:
                    v = std::tanh(v);
                    break;
                case plan::Activation::Gelu:
                    v = v * 0.5 * (1 + std::erf(v * std::sqrt(0.5)));
                    break;
            }
        }
        return y;
    }
};

inline std::string dtype_name(const ::testing::TestParamInfo<DType>& info) {
    return std::string(name_of(info.param));
}

inline double tolerance(DType t) {
    switch (t) {
        case DType::Float64:
            return 1e-12;
        case DType::Float32:
            return 3e-5;
        case DType::Float16:
            return 2e-3;
        case DType::BFloat16:
            return 2e-2;
        default:
            return 0;
    }
}

/// Compares with a tolerance that grows with the largest value, as sums' rounding does.
inline ::testing::AssertionResult close(const Data& got, const RefArray& want, double tol = -1) {
    if (!(got.view.shape == want.shape))
        return ::testing::AssertionFailure()
               << got.view.shape.str() << " is not " << want.shape.str();
    if (tol < 0) tol = tolerance(got.view.dtype);
    double scale = 1;
    for (const double v : want.data)
        if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    for (std::int64_t i = 0; i < want.shape.numel(); ++i) {
        const double a = got.get(i), b = want.data[static_cast<std::size_t>(i)];
        const bool same = std::isnan(b)   ? std::isnan(a)
                          : std::isinf(b) ? a == b
                                          : std::fabs(a - b) <= tol * scale;
        if (!same)
            return ::testing::AssertionFailure() << "element " << i << " of " << want.shape.str()
                                                 << ": " << a << " instead of " << b;
    }
    return ::testing::AssertionSuccess();
}

/// Runs with 1, 2 and 3 threads; true where all give the same bits.
inline ::testing::AssertionResult same_for_any_threads(Trial& run) {
    const int before = num_threads();
    std::optional<Data> first;
    ::testing::AssertionResult result = ::testing::AssertionSuccess();
    for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        Data y = run.run();
        if (!first)
            first = std::move(y);
        else if (cpu::bytes_of(y.view) > 0 &&
                 std::memcmp(first->bytes(), y.bytes(), cpu::bytes_of(y.view)) != 0)
            result = ::testing::AssertionFailure() << threads << " threads give other bits than 1";
    }
    set_num_threads(before);
    return result;
}

}  // namespace pippin::heavy_test
