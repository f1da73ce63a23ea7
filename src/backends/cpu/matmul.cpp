// Batched matrix products: oneDNN for float32 and halves, blocked loops for the rest.
#include <algorithm>

#include "backends/cpu/convert.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/matmul_small.h"
#include "backends/cpu/matmul_view.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/split_product.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

using onednn::Call;
using onednn::Desc;
using onednn::Dims;

// A dim that repeats (stride 0) is an extent of 1 to oneDNN, which broadcasts it.
Desc matrix_desc(const plan::Operand& o, bool may_broadcast) {
    Dims dims, strides;
    std::int64_t outer = 1;
    const int rank = o.shape.rank();
    for (int d = 0; d < rank; ++d) {
        const std::int64_t s = o.strides[static_cast<std::size_t>(d)];
        const bool repeats = may_broadcast && d < rank - 2 && s == 0;
        dims.push_back(repeats ? 1 : o.shape[d]);
        strides.push_back(s);
        if (s != 0) outer = std::max(outer, s * o.shape[d]);
    }
    // Extents of 1 may carry any stride; oneDNN wants sensible ones.
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (dims[d] == 1) strides[d] = d + 2 < dims.size() ? outer : 1;
    const std::size_t m = dims.size() - 2, n = dims.size() - 1;
    if (dims[m] == 1 && dims[n] != 1) strides[m] = dims[n] * strides[n];
    if (dims[n] == 1 && dims[m] != 1 && strides[m] != 1) strides[n] = 1;
    if (dims[n] == 1 && strides[m] == 1 && dims[m] != 1) strides[n] = dims[m];
    return {dims, onednn::data_type(o.dtype), strides};
}

// Whether oneDNN should get the right matrix packed. Where its rows lie one behind the other,
// oneDNN 2.6 reads it at half speed for some widths (512 x 768 x 3072: 182 GFLOP/s, 310 with the
// packing counted; 1536, 2304 and 2560 likewise, powers of two not), while few rows of the left one
// do not pay for packing (from 96 on they do).
bool packs_well(const plan::Operand& a, const plan::Operand& b) {
    const int r = b.shape.rank();
    const std::int64_t m = a.shape[r - 2], k = b.shape[r - 2], n = b.shape[r - 1];
    for (int d = 0; d < r - 2; ++d)
        if (b.shape[d] != 1) return false;
    const bool in_rows = b.strides[static_cast<std::size_t>(r - 1)] == 1 && k > 1;
    return in_rows && b.dtype == DType::Float32 && n >= 1280 && (n & (n - 1)) != 0 && m >= 96 &&
           k >= 64;
}

class OneDnnMatmul : public HeavyKernel {
  public:
    explicit OneDnnMatmul(const plan::HeavyLaunch& launch)
        : rest_(launch, launch.output.shape.rank() - 1) {
        const plan::Operand a = matrix_a(launch);
        const plan::Operand b = matrix_b(launch);
        const plan::Operand& c = launch.output;
        bias_ = launch.epilogue.bias;
        residual_ = launch.epilogue.residual;
        const Desc da = matrix_desc(a, true), db = matrix_desc(b, true);
        const Desc dc = matrix_desc(c, false);
        Desc dbias, dr;
        if (bias_ >= 0) {
            Dims dims(static_cast<std::size_t>(c.shape.rank()), 1), strides = dims;
            dims.back() = c.shape.back();
            std::fill(strides.begin(), strides.end() - 1, c.shape.back());
            const plan::Operand& bias = launch.operands[static_cast<std::size_t>(bias_)];
            dbias = {dims, onednn::data_type(bias.dtype), strides};
        }
        if (residual_ >= 0)
            dr = matrix_desc(launch.operands[static_cast<std::size_t>(residual_)], false);
        // oneDNN's relu turns NaN into 0, so it runs as a pass of our own.
        plan::Activation activation = launch.epilogue.activation;
        if (activation == plan::Activation::Relu) activation = plan::Activation::None;
        // As oneDNN likes it best, if it is packed.
        const bool packed = packs_well(a, b);
        Desc right = db;
        if (packed) {
            Dims dims;
            for (int d = 0; d < b.shape.rank(); ++d)
                dims.push_back(b.shape[d]);
            right = {dims, onednn::data_type(b.dtype), onednn::Tag::any};
        }
        auto pd = onednn::matmul(da, right, dbias, dc,
                                 onednn::attributes(activation, residual_ >= 0 ? &dr : nullptr));
        if (!pd || onednn::is_reference(pd)) {
            const auto bare = onednn::matmul(da, right, dbias, dc,
                                             onednn::attributes(plan::Activation::None, nullptr));
            if (bare && (!pd || !onednn::is_reference(bare))) {
                pd = bare;
                residual_ = -1;
                activation = plan::Activation::None;
            }
        }
        if (!pd) throw Error("oneDNN has no matrix product for this launch");
        rest_.drop_bias();
        if (residual_ >= 0) rest_.drop_residual();
        if (activation != plan::Activation::None) rest_.drop_activation();
        call_ = Call(dnnl::matmul(pd));
        call_.add(DNNL_ARG_SRC, da);
        call_.add(DNNL_ARG_WEIGHTS, pd.weights_desc());
        call_.add(DNNL_ARG_DST, dc);
        call_.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
        if (bias_ >= 0) bias_arg_ = call_.add(DNNL_ARG_BIAS, dbias);
        if (residual_ >= 0)
            residual_arg_ = call_.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, dr);
        scratch_bytes = pd.scratchpad_desc().get_size();
        pack_ = onednn::Packing(db, pd.weights_desc());
        if (pack_.packed) {
            packed_at_ = (std::max(scratch_bytes, pack_.scratch_bytes) + 63) / 64 * 64;
            scratch_bytes = packed_at_ + pd.weights_desc().get_size();
        }
    }

    void run(void* const* operands, void* output) override {
        call_.set(0, operands[0]);
        call_.set(1, operands[1]);
        if (pack_.packed) {
            void* packed = static_cast<std::byte*>(scratch) + packed_at_;
            pack_.run(operands[1], packed, scratch);
            call_.set(1, packed);
        }
        call_.set(2, output);
        call_.set(3, scratch);
        if (bias_ >= 0) call_.set(bias_arg_, operands[bias_]);
        if (residual_ >= 0) call_.set(residual_arg_, operands[residual_]);
        call_.run();
        rest_.run(operands, output);
    }

  private:
    Call call_;
    onednn::Packing pack_;
    std::size_t packed_at_ = 0;  // in scratch
    EpiloguePass rest_;
    int bias_ = -1, residual_ = -1, bias_arg_ = -1, residual_arg_ = -1;
};

template <class T, class A>
class PlainMatmul : public HeavyKernel {
  public:
    explicit PlainMatmul(const plan::HeavyLaunch& launch)
        : a_(matrix_a(launch)),
          b_(matrix_b(launch)),
          c_(launch.output),
          rest_(launch, launch.output.shape.rank() - 1) {}

    void run(void* const* operands, void* output) override {
        const int r = c_.shape.rank();
        const auto row = static_cast<std::size_t>(r - 2), col = static_cast<std::size_t>(r - 1);
        const std::int64_t m = c_.shape[r - 2], n = c_.shape[r - 1], k = a_.shape[r - 1];
        const std::int64_t batch = m * n == 0 ? 0 : c_.shape.numel() / (m * n);
        parallel_ranges(
            batch * m, batch * m * n * (k + 1), [&](std::int64_t begin, std::int64_t end, int) {
                constexpr std::int64_t kBlock = 64;
                A sums[kBlock];
                for (std::int64_t i = begin; i < end; ++i) {
                    const T* a = static_cast<const T*>(operands[0]);
                    const T* b = static_cast<const T*>(operands[1]);
                    T* c = static_cast<T*>(output);
                    std::int64_t rest = i / m;
                    for (int d = r - 3; d >= 0; --d) {
                        const std::int64_t at = rest % c_.shape[d];
                        rest /= c_.shape[d];
                        a += at * a_.strides[static_cast<std::size_t>(d)];
                        b += at * b_.strides[static_cast<std::size_t>(d)];
                        c += at * c_.strides[static_cast<std::size_t>(d)];
                    }
                    a += i % m * a_.strides[row];
                    c += i % m * c_.strides[row];
                    for (std::int64_t j0 = 0; j0 < n; j0 += kBlock) {
                        const std::int64_t width = std::min(kBlock, n - j0);
                        std::fill(sums, sums + width, A{});
                        for (std::int64_t p = 0; p < k; ++p) {
                            const A left = A(a[p * a_.strides[col]]);
                            const T* right = b + p * b_.strides[row] + j0 * b_.strides[col];
                            for (std::int64_t j = 0; j < width; ++j)
                                sums[j] += left * A(right[j * b_.strides[col]]);
                        }
                        for (std::int64_t j = 0; j < width; ++j)
                            c[(j0 + j) * c_.strides[col]] = T(sums[j]);
                    }
                }
            });
        rest_.run(operands, output);
    }

  private:
    plan::Operand a_, b_, c_;
    EpiloguePass rest_;
};

std::unique_ptr<HeavyKernel> make_plain(const plan::HeavyLaunch& l) {
    switch (l.output.dtype) {
        case DType::Float16:
            return std::make_unique<PlainMatmul<Half, float>>(l);
        case DType::BFloat16:
            return std::make_unique<PlainMatmul<BFloat, float>>(l);
        case DType::Float32:
            return std::make_unique<PlainMatmul<float, float>>(l);
        case DType::Float64:
            return std::make_unique<PlainMatmul<double, double>>(l);
        // Unsigned, because integers wrap.
        case DType::Int32:
            return std::make_unique<PlainMatmul<std::uint32_t, std::uint32_t>>(l);
        case DType::Int64:
            return std::make_unique<PlainMatmul<std::uint64_t, std::uint64_t>>(l);
        case DType::UInt8:
            return std::make_unique<PlainMatmul<std::uint8_t, std::uint32_t>>(l);
        default:
            throw Error("the CPU has no matrix product of this dtype");
    }
}

// One of the last two strides must be 1 (or not matter) and the other at least as long as a row.
bool onednn_takes(const plan::Operand& o) {
    const int r = o.shape.rank();
    const std::int64_t m = o.shape[r - 2], n = o.shape[r - 1];
    const std::int64_t sm = o.strides[static_cast<std::size_t>(r - 2)];
    const std::int64_t sn = o.strides[static_cast<std::size_t>(r - 1)];
    return ((sn == 1 || n == 1) && (sm >= n || m == 1)) ||
           ((sm == 1 || m == 1) && (sn >= m || n == 1));
}

plan::HeavyLaunch normalised(const plan::HeavyLaunch& launch, bool widen, bool* changed) {
    plan::HeavyLaunch wanted = launch;
    const auto fix = [&](plan::Operand& o, bool is_matrix) {
        const DType dtype = widen && is_half(o.dtype) ? DType::Float32 : o.dtype;
        if (dtype == o.dtype && (is_matrix ? onednn_takes(o) : is_row_major(o))) return;
        o = dense_operand(o, plan::Order::RowMajor, dtype);
        *changed = true;
    };
    for (std::size_t i = 0; i < wanted.operands.size(); ++i)
        fix(wanted.operands[i], static_cast<int>(i) != launch.epilogue.bias);
    fix(wanted.output, true);
    return wanted;
}

std::unique_ptr<HeavyKernel> make_onednn(const plan::HeavyLaunch& launch) {
    if (auto small = make_matmul_small(launch)) return small;
    const auto library = [](const plan::HeavyLaunch& l) -> std::unique_ptr<HeavyKernel> {
        return std::make_unique<OneDnnMatmul>(l);
    };
    // With fewer rows the parts of B, which are made anew each time, cost more than they save.
    const Shape& to = launch.output.shape;
    const bool few_rows = to[to.rank() - 2] < 256 && launch.operands[0].shape.numel() < (1 << 20);
    if (!few_rows)
        if (auto split = make_matmul_split(launch, library)) return split;
    return library(launch);
}

}  // namespace

namespace {

// oneDNN 2.6 on AMX is wrong for batches of bfloat16 matrices whose B lies by columns, 49 to 63 of
// them (found with random sizes up to 200; DTypes/Matmul.NarrowBatches).
bool onednn_is_wrong(const plan::HeavyLaunch& launch) {
    const plan::Operand b = matrix_b(launch);
    const int r = b.shape.rank();
    const std::int64_t n = b.shape[r - 1];
    return b.dtype == DType::BFloat16 && r > 2 && n > 48 && n < 64 &&
           b.strides[static_cast<std::size_t>(r - 1)] != 1;
}

}  // namespace

std::unique_ptr<HeavyKernel> make_matmul(const plan::HeavyLaunch& launch) {
    const plan::Operand& c = launch.output;
    const bool known = c.dtype == DType::Float32 || is_half(c.dtype);
    const bool empty = c.shape.numel() == 0 || launch.operands[0].shape.numel() == 0;
    if (!known || empty) return make_plain(launch);
    if (c.dtype != DType::Float16 && !onednn_is_wrong(launch)) {
        try {
            bool changed = false;
            const plan::HeavyLaunch wanted = normalised(launch, false, &changed);
            if (!changed) return make_onednn(launch);
            return make_converted(launch, wanted, make_onednn);
        } catch (const std::exception&) {
            if (c.dtype == DType::Float32) throw;
            // bfloat16 on a processor without instructions for it: as float32
        }
    }
    bool changed = false;
    return make_converted(launch, normalised(launch, true, &changed), make_onednn);
}

}  // namespace pippin::cpu
