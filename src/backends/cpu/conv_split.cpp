// Convolutions of stride 1 that keep an image's size, and their input gradients, on matrix units
// for bfloat16. Images lie one behind the other with gaps of zeros between lines and between
// images, so that all pixels are rows of one matrix and a tap of the window is the same matrix some
// rows on.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/split_lines.h"
#include "backends/cpu/split_product.h"
#include "backends/cpu/split_tiles.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

using split::kBlock;
using split::kDepth;
using split::kPanelBytes;
using std::int64_t;

constexpr int64_t kRowBytes = 1 << 20;          // a thread's rows: half of the second cache
constexpr int64_t kMostRowBytes = 6 << 20;      // of them with what windows see around
constexpr int64_t kMostWeightBytes = 96 << 20;  // of packed weights

using split::Lines;
using split::up;

class SplitConv : public HeavyKernel {
  public:
    SplitConv(const plan::HeavyLaunch& l, const ConvGeometry& g, const Lines& lines,
              const MakeKernel& make_other)
        : lines_(lines),
          backward_(l.op == &graph::ops::kConv2dGradInput),
          bias_(l.epilogue.bias),
          residual_(l.epilogue.residual),
          relu_(l.epilogue.activation == plan::Activation::Relu),
          depths_(up(lines.from, kDepth) / kDepth),
          threads_(num_threads()),
          other_(l, make_other) {
        rows_ = rows_at_once(lines);
        planes_ = rows_ + 2 * lines.around + kBlock;
        for (int64_t y = 0; y < lines.taps_h; ++y)
            for (int64_t x = 0; x < lines.taps_w; ++x) {
                const int64_t rows = lines.rows_on(g, y, x);
                taps_.push_back((lines.around + (backward_ ? -rows : rows)) * 64);
            }
        panel_ = lines.taps() * depths_ * kPanelBytes;
        weight_bytes_ = up(lines.to, kBlock) / kBlock * panel_;
        row_bytes_ = planes_ * depths_ * kDepth * 6;
        staged_bytes_ = lines.taps() * kBlock * kDepth * 4;
        scratch_bytes = static_cast<std::size_t>(weight_bytes_ +
                                                 threads_ * std::max(row_bytes_, staged_bytes_));
    }

    static int64_t rows_at_once(const Lines& l) {
        const int64_t fit = kRowBytes / (up(l.from, kDepth) * 6) - 2 * l.around;
        return std::min(up(std::max(fit, int64_t{128}), kBlock), up(l.pixels_with_gaps(), kBlock));
    }

    void run(void* const* operands, void* output) override {
        std::atomic<bool> good{true};
        pack_weights(static_cast<const float*>(operands[1]), good);
        if (good) convolve(operands, static_cast<float*>(output), good);
        if (!good) other_.run(operands, output);
    }

  private:
    std::byte* of_thread(int thread) const {
        return static_cast<std::byte*>(scratch) + weight_bytes_ +
               thread * std::max(row_bytes_, staged_bytes_);
    }

    // From [channel of y][channel of x][tap] to panels [block of columns][tap][depth].
    void pack_weights(const float* w, std::atomic<bool>& good) const {
        const int64_t taps = lines_.taps(), blocks = up(lines_.to, kBlock) / kBlock;
        const int64_t from = lines_.from, to = lines_.to;
        const int threads = std::min<int>(threads_, num_threads());
        const int64_t tasks = blocks * depths_, share = std::min<int64_t>(tasks, threads);
        parallel_threads(static_cast<int>(share), [&](int thread) {
            auto* const staged = reinterpret_cast<float*>(of_thread(thread));
            split::Range range;
            for (int64_t t = tasks * thread / share; t < tasks * (thread + 1) / share; ++t) {
                const int64_t n0 = t / depths_ * kBlock, k0 = t % depths_ * kDepth;
                const int64_t n = std::min(kBlock, to - n0), k = std::min(kDepth, from - k0);
                for (int64_t tap = 0; tap < taps; ++tap) {
                    float* const at = staged + tap * kBlock * kDepth;
                    if (backward_)
                        for (int64_t i = 0; i < k; ++i)
                            split::gather(w + ((k0 + i) * to + n0) * taps + tap, taps, n,
                                          at + i * kBlock);
                    else
                        for (int64_t i = 0; i < n; ++i)
                            split::gather(w + ((n0 + i) * from + k0) * taps + tap, taps, k,
                                          at + i * kDepth);
                    const split::Source source =
                        backward_ ? split::Source{at, kBlock, 1} : split::Source{at, 1, kDepth};
                    split::split_columns(source, k, n,
                                         static_cast<std::byte*>(scratch) + t / depths_ * panel_ +
                                             (tap * depths_ + t % depths_) * kPanelBytes,
                                         range);
                }
            }
            if (!range.good) good = false;
        });
    }

    // Rows [first, last) of the matrix, gaps included; before the first image and behind the last
    // one all is 0.
    void split_pixels(const float* x, int64_t first, int64_t last, const split::Rows& to,
                      split::Range& range) const {
        const Lines& l = lines_;
        const auto clear = [&](int64_t begin, int64_t end) {
            for (int64_t p = 0; p < depths_ * 3; ++p)
                std::memset(to.at + p * to.part_bytes + (begin - first) * 64, 0,
                            static_cast<std::size_t>(end - begin) * 64);
        };
        int64_t q = first;
        if (q < 0) {
            q = std::min(int64_t{0}, last);
            clear(first, q);
        }
        while (q < last) {
            const int64_t image = q / l.image, y = q % l.image / l.line, at = q % l.line;
            if (image >= l.n) {
                clear(q, last);
                break;
            }
            const bool inside = y < l.h && at < l.w;
            const int64_t end = std::min(last, q - at + (inside ? l.w : l.line));
            if (inside) {
                split::Rows here = to;
                here.at += (q - first) * 64;
                split::split_rows({x + ((image * l.h + y) * l.w + at) * l.from, l.from, 1}, end - q,
                                  l.from, here, range);
            } else {
                clear(q, end);
            }
            q = end;
        }
    }

    void convolve(void* const* operands, float* output, std::atomic<bool>& good) const {
        const Lines& l = lines_;
        const int threads = std::min(threads_, num_threads());
        std::vector<std::vector<std::int32_t>> rows_of_threads(static_cast<std::size_t>(threads));
        const auto task = [&](const BlockTask& t) {
            std::vector<std::int32_t>& to_rows =
                rows_of_threads[static_cast<std::size_t>(t.thread)];
            const int64_t first = t.first_row * kBlock;
            const int64_t last = std::min(t.last_row * kBlock, l.pixels_with_gaps());
            const split::Rows rows{of_thread(t.thread), 64, 3 * planes_ * 64, planes_ * 64};
            split::Range range;
            split_pixels(static_cast<const float*>(operands[0]), first - l.around,
                         first + up(last - first, kBlock) + l.around, rows, range);
            if (!range.good) good = false;
            to_rows.resize(static_cast<std::size_t>(last - first));
            for (int64_t q = first; q < last; ++q) {
                const int64_t image = q / l.image, y = q % l.image / l.line, x = q % l.line;
                to_rows[static_cast<std::size_t>(q - first)] =
                    y < l.h && x < l.w ? static_cast<std::int32_t>((image * l.h + y) * l.w + x)
                                       : -1;
            }
            const split::Tiles tiles;
            for (int64_t j = t.first_column; j < t.last_column; ++j) {
                const int64_t n = j * kBlock;
                split::Output out{output + n, l.to};
                if (bias_ >= 0) out.bias = static_cast<const float*>(operands[bias_]) + n;
                if (residual_ >= 0) {
                    out.residual = static_cast<const float*>(operands[residual_]) + n;
                    out.residual_row = l.to;
                }
                out.relu = relu_;
                for (int64_t q = first; q < last; q += kBlock) {
                    split::Product p{rows,
                                     {static_cast<std::byte*>(scratch) + j * panel_},
                                     depths_,
                                     taps_.data(),
                                     l.taps()};
                    p.a.at += (q - first) * 64;
                    out.to_rows = to_rows.data() + (q - first);
                    tiles.run(p, std::min(kBlock, last - q), std::min(kBlock, l.to - n), out);
                }
            }
        };
        share_blocks(threads, up(l.pixels_with_gaps(), kBlock) / kBlock, rows_ / kBlock,
                     up(l.to, kBlock) / kBlock, task);
    }

    Lines lines_;
    bool backward_;
    int bias_, residual_;
    bool relu_;
    int64_t depths_;
    int threads_;
    std::vector<int64_t> taps_;
    int64_t rows_ = 0, planes_ = 0, panel_ = 0;
    int64_t weight_bytes_ = 0, row_bytes_ = 0, staged_bytes_ = 0;
    OtherKernel other_;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_split(const plan::HeavyLaunch& l, const ConvGeometry& g,
                                             const MakeKernel& make_other) {
    if (!can_split(l) || l.op == &graph::ops::kConv2dGradWeight || !split::keeps_size(g))
        return nullptr;
    const bool backward = l.op == &graph::ops::kConv2dGradInput;
    const Lines lines(g, backward ? g.co : g.ci, backward ? g.ci : g.co);
    // Splitting pays where each number is used often enough, on tiles that are mostly full.
    if (!lines.pays()) return nullptr;
    const int64_t depth = up(lines.from, kDepth);
    if ((SplitConv::rows_at_once(lines) + 2 * lines.around + kBlock) * depth * 6 > kMostRowBytes ||
        up(lines.to, kBlock) * depth * lines.taps() * 6 > kMostWeightBytes)
        return nullptr;
    return std::make_unique<SplitConv>(l, g, lines, make_other);
}

}  // namespace pippin::cpu
