// The weight gradient of depthwise convolutions: when to use it, tasks, and their sums together.
#include "backends/cpu/conv_depthwise.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

using std::int64_t;

const DepthwiseFunctions& functions() {
    static const DepthwiseFunctions f = [] {
        DepthwiseFunctions g{};
        depthwise_functions(&g);
        return g;
    }();
    return f;
}

std::size_t floats(int64_t count) {
    return align64(static_cast<std::size_t>(count) * sizeof(float));
}

// Floats of the planes of a band.
int64_t plane_floats(const DepthwiseConv& s, int64_t band) {
    return functions().block_channels * (s.x_rows(band) * s.line + band * s.g.ow * s.multiplier);
}

DepthwiseConv depthwise_conv(const ConvGeometry& g) {
    DepthwiseConv s;
    s.g = g;
    s.multiplier = g.co / g.groups;
    s.line = (g.ow - 1) * g.stride[1] + (g.kw - 1) * g.dilation[1] + 1;
    s.padded = g.pad[0] > 0 || g.pad[1] > 0 || s.line > g.w || s.x_rows(g.oh) > g.h;
    // A band's planes stay in the second cache.
    constexpr int64_t kFloats = 65536;
    s.band = g.oh;
    while (s.band > 4 && plane_floats(s, s.band) > kFloats)
        s.band = (s.band + 1) / 2;
    return s;
}

// Each task is a part of the batch's bands for a block of channels. A part's sums are its own, and
// are added up in order, the same parts whatever the number of threads.
class DepthwiseGradWeight : public HeavyKernel {
  public:
    DepthwiseGradWeight(const plan::HeavyLaunch& l, const ConvGeometry& g)
        : s_(depthwise_conv(g)), dtype_(l.output.dtype), threads_(num_threads()) {
        const int64_t block = functions().block_channels, lanes = functions().lanes;
        constexpr int64_t kTasks = 32;
        blocks_ = (g.ci + block - 1) / block;
        bands_ = s_.bands();
        parts_ = std::min(g.n * bands_, (kTasks + blocks_ - 1) / blocks_);
        taps_ = g.kh * g.kw;
        block_floats_ = block * s_.multiplier * taps_;
        // the last block may have fewer vectors
        part_floats_ = (g.ci + lanes - 1) / lanes * lanes * s_.multiplier * taps_;
        planes_bytes_ = floats(plane_floats(s_, s_.band));
        sums_at_ = planes_bytes_ * static_cast<std::size_t>(threads_);
        scratch_bytes = sums_at_ + floats(part_floats_) * static_cast<std::size_t>(parts_);
    }

    void run(void* const* operands, void* output) override {
        const ConvGeometry& g = s_.g;
        const int64_t block = functions().block_channels, units = g.n * bands_;
        const auto size = static_cast<int64_t>(size_of(dtype_));
        const auto* x = static_cast<const char*>(operands[0]);
        const auto* dy = static_cast<const char*>(operands[1]);
        const int64_t x_image = g.h * g.w * g.ci * size, dy_image = g.oh * g.ow * g.co * size;
        const int64_t tasks = parts_ * blocks_;
        const int count =
            std::min(threads_, threads_for(tasks, g.n * g.oh * g.ow * g.co * (taps_ + 4) / 8));
        parallel_threads(count, [&](int t) {
            float* planes = at(planes_bytes_ * static_cast<std::size_t>(t));
            for (int64_t i = tasks * t / count; i < tasks * (t + 1) / count; ++i) {
                const int64_t p = i / blocks_, b = i % blocks_, c = b * block;
                const int64_t channels = std::min(block, g.ci - c);
                float* sums = part(p) + b * block_floats_;
                const int64_t used = std::min(block_floats_, part_floats_ - b * block_floats_);
                std::memset(sums, 0, static_cast<std::size_t>(used) * sizeof(float));
                for (int64_t k = units * p / parts_; k < units * (p + 1) / parts_; ++k) {
                    const int64_t n = k / bands_, r0 = k % bands_ * s_.band;
                    functions().grad_weight(s_, dtype_, x + n * x_image, dy + n * dy_image, c,
                                            channels, r0, std::min(r0 + s_.band, g.oh), planes,
                                            sums);
                }
            }
        });
        parallel_ranges(g.ci, parts_ * part_floats_, [&](int64_t begin, int64_t end, int) {
            if (dtype_ == DType::BFloat16)
                merge(begin, end, static_cast<BFloat*>(output));
            else if (dtype_ == DType::Float16)
                merge(begin, end, static_cast<Half*>(output));
            else
                merge(begin, end, static_cast<float*>(output));
        });
    }

  private:
    float* at(std::size_t bytes) const {
        return reinterpret_cast<float*>(static_cast<char*>(scratch) + bytes);
    }
    float* part(int64_t p) const {
        return at(sums_at_ + floats(part_floats_) * static_cast<std::size_t>(p));
    }

    // All parts of channels [begin, end) of x, as [channel of y][ky][kx].
    template <class T>
    void merge(int64_t begin, int64_t end, T* dw) const {
        const int64_t lanes = functions().lanes, m = s_.multiplier;
        const int64_t step = static_cast<int64_t>(floats(part_floats_) / sizeof(float));
        for (int64_t c = begin; c < end; ++c)
            for (int64_t k = 0; k < m; ++k) {
                const float* sums = part(0) + ((c / lanes * m + k) * taps_) * lanes + c % lanes;
                T* to = dw + (c * m + k) * taps_;
                for (int64_t i = 0; i < taps_; ++i) {
                    float total = 0;
                    for (int64_t p = 0; p < parts_; ++p)
                        total += sums[p * step + i * lanes];
                    to[i] = static_cast<T>(total);
                }
            }
    }

    DepthwiseConv s_;
    DType dtype_;
    int threads_;
    int64_t blocks_ = 1, bands_ = 1, parts_ = 1, taps_ = 1, block_floats_ = 0, part_floats_ = 0;
    std::size_t planes_bytes_ = 0, sums_at_ = 0;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_depthwise(const plan::HeavyLaunch& l,
                                                 const ConvGeometry& g) {
    if (l.op != &graph::ops::kConv2dGradWeight || g.groups == 1 || g.groups != g.ci || g.empty())
        return nullptr;
    const DType dtype = l.output.dtype;
    if (dtype != DType::Float32 && !is_half(dtype)) return nullptr;
    for (const plan::Operand& o : l.operands)
        if (o.dtype != dtype || !is_channels_last(o)) return nullptr;
    if (!is_row_major(l.output)) return nullptr;
    return std::make_unique<DepthwiseGradWeight>(l, g);
}

}  // namespace pippin::cpu
