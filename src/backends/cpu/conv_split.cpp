// Convolutions and their input gradients on matrix units for bfloat16. All pixels are rows of one
// matrix, of which each tap of the window sees some rows on (split_lines.h).
#include <algorithm>
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
using split::Lines;
using split::up;
using std::int64_t;

constexpr int64_t kRowBytes = 1 << 20;          // a thread's rows: half of the second cache
constexpr int64_t kMostRowBytes = 6 << 20;      // of them with what windows see around
constexpr int64_t kMostWeightBytes = 96 << 20;  // of packed weights

class SplitConv : public HeavyKernel {
  public:
    SplitConv(const plan::HeavyLaunch& l, const ConvGeometry& g, Lines lines,
              const MakeKernel& make_other)
        : lines_(std::move(lines)),
          backward_(l.op == &graph::ops::kConv2dGradInput),
          from_(backward_ ? g.co : g.ci),
          to_(backward_ ? g.ci : g.co),
          bias_(l.epilogue.bias),
          residual_(l.epilogue.residual),
          relu_(l.epilogue.activation == plan::Activation::Relu),
          depths_(up(from_, kDepth) / kDepth),
          threads_(num_threads()),
          other_(l, make_other) {
        // Forward: rows of all phases give one y. Backward: rows of dy give each phase of dx.
        in_phases_ = backward_ ? 1 : lines_.seen_phases;
        rows_ = rows_at_once(lines_, in_phases_ * from_);
        planes_ = rows_ + 2 * lines_.around + kBlock;
        phase_bytes_ = planes_ * depths_ * kDepth * 6;
        for (const Lines::Tap& tap : lines_.taps)
            taps_.push_back((lines_.around + (backward_ ? -tap.rows_on : tap.rows_on)) * 64 +
                            (backward_ ? 0 : tap.phase * phase_bytes_));
        panel_ = tap_count() * depths_ * kPanelBytes;
        weight_bytes_ = up(to_, kBlock) / kBlock * panel_;
        staged_bytes_ = tap_count() * kBlock * kDepth * 4;
        thread_bytes_ = std::max(in_phases_ * phase_bytes_, staged_bytes_);
        scratch_bytes = static_cast<std::size_t>(weight_bytes_ + threads_ * thread_bytes_);
    }

    static int64_t rows_at_once(const Lines& l, int64_t numbers) {
        const int64_t fit = kRowBytes / (up(numbers, kDepth) * 6) - 2 * l.around;
        return std::min(up(std::max(fit, int64_t{128}), kBlock), up(l.rows(), kBlock));
    }

    void run(void* const* operands, void* output) override {
        std::atomic<bool> good{true};
        pack_weights(static_cast<const float*>(operands[1]), good);
        if (good) convolve(operands, static_cast<float*>(output), good);
        if (!good) other_.run(operands, output);
    }

  private:
    int64_t tap_count() const { return static_cast<int64_t>(lines_.taps.size()); }
    std::byte* of_thread(int thread) const {
        return static_cast<std::byte*>(scratch) + weight_bytes_ + thread * thread_bytes_;
    }

    // From [channel of y][channel of x][tap] to panels [block of columns][tap][depth].
    void pack_weights(const float* w, std::atomic<bool>& good) const {
        const int64_t taps = tap_count(), blocks = up(to_, kBlock) / kBlock;
        const int threads = std::min<int>(threads_, num_threads());
        const int64_t tasks = blocks * depths_, share = std::min<int64_t>(tasks, threads);
        parallel_threads(static_cast<int>(share), [&](int thread) {
            auto* const staged = reinterpret_cast<float*>(of_thread(thread));
            split::Range range;
            for (int64_t t = tasks * thread / share; t < tasks * (thread + 1) / share; ++t) {
                const int64_t n0 = t / depths_ * kBlock, k0 = t % depths_ * kDepth;
                const int64_t n = std::min(kBlock, to_ - n0), k = std::min(kDepth, from_ - k0);
                for (int64_t tap = 0; tap < taps; ++tap) {
                    const int64_t index = lines_.taps[static_cast<std::size_t>(tap)].index;
                    float* const at = staged + tap * kBlock * kDepth;
                    if (backward_)
                        for (int64_t i = 0; i < k; ++i)
                            split::gather(w + ((k0 + i) * to_ + n0) * taps + index, taps, n,
                                          at + i * kBlock);
                    else
                        for (int64_t i = 0; i < n; ++i)
                            split::gather(w + ((n0 + i) * from_ + k0) * taps + index, taps, k,
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

    // The rows of all phases that windows of rows [first, first + count) see.
    void split_rows(const float* x, int64_t first, int64_t count, std::byte* to,
                    std::vector<std::int32_t>& pixels, std::atomic<bool>& good) const {
        const int64_t rows = up(count, kBlock) + 2 * lines_.around;
        pixels.resize(static_cast<std::size_t>(rows));
        split::Range range;
        for (int64_t phase = 0; phase < in_phases_; ++phase) {
            if (backward_)
                lines_.pixels_of_y(first - lines_.around, rows, pixels.data());
            else
                lines_.pixels_of_x(phase, first - lines_.around, rows, pixels.data());
            split::split_pixels({x, from_, pixels.data()}, rows, from_,
                                rows_of(to + phase * phase_bytes_), range);
        }
        if (!range.good) good = false;
    }
    split::Rows rows_of(std::byte* at) const { return {at, 64, 3 * planes_ * 64, planes_ * 64}; }

    void convolve(void* const* operands, float* output, std::atomic<bool>& good) const {
        const int threads = std::min(threads_, num_threads());
        std::vector<std::vector<std::int32_t>> pixels_of_threads(static_cast<std::size_t>(threads));
        const auto task = [&](const BlockTask& t) {
            std::vector<std::int32_t>& pixels =
                pixels_of_threads[static_cast<std::size_t>(t.thread)];
            const int64_t first = t.first_row * kBlock;
            const int64_t last = std::min(t.last_row * kBlock, lines_.rows());
            split_rows(static_cast<const float*>(operands[0]), first, last - first,
                       of_thread(t.thread), pixels, good);
            const split::Tiles tiles;
            // Backward each phase of dx has taps of its own, or none and is 0.
            const int64_t phases =
                backward_ ? static_cast<int64_t>(lines_.phases.size()) : int64_t{1};
            int64_t tap = 0;
            for (int64_t phase = 0; phase < phases; ++phase) {
                int64_t end = backward_ ? tap : tap_count();
                while (end < tap_count() &&
                       lines_.taps[static_cast<std::size_t>(end)].phase == phase)
                    ++end;
                if (backward_)
                    lines_.pixels_of_x(phase, first, last - first, pixels.data());
                else
                    lines_.pixels_of_y(first, last - first, pixels.data());
                for (int64_t j = t.first_column; j < t.last_column; ++j) {
                    const int64_t n = j * kBlock;
                    split::Output out = output_of(operands, output, n);
                    for (int64_t q = first; q < last; q += kBlock) {
                        split::Product p{rows_of(of_thread(t.thread)),
                                         {static_cast<std::byte*>(scratch) + j * panel_ +
                                          tap * depths_ * kPanelBytes},
                                         depths_,
                                         taps_.data() + tap,
                                         end - tap};
                        p.a.at += (q - first) * 64;
                        out.to_rows = pixels.data() + (q - first);
                        tiles.run(p, std::min(kBlock, last - q), std::min(kBlock, to_ - n), out);
                    }
                }
                tap = end;
            }
        };
        share_blocks(threads, up(lines_.rows(), kBlock) / kBlock, rows_ / kBlock,
                     up(to_, kBlock) / kBlock, task);
    }

    // From column n on.
    split::Output output_of(void* const* operands, float* output, int64_t n) const {
        split::Output out{output + n, to_};
        if (bias_ >= 0) out.bias = static_cast<const float*>(operands[bias_]) + n;
        if (residual_ >= 0) {
            out.residual = static_cast<const float*>(operands[residual_]) + n;
            out.residual_row = to_;
        }
        out.relu = relu_;
        return out;
    }

    Lines lines_;
    bool backward_;
    int64_t from_, to_;  // channels
    int bias_, residual_;
    bool relu_;
    int64_t depths_;
    int threads_;
    std::vector<int64_t> taps_;
    int64_t in_phases_ = 1, rows_ = 0, planes_ = 0, panel_ = 0;
    int64_t weight_bytes_ = 0, phase_bytes_ = 0, staged_bytes_ = 0, thread_bytes_ = 0;
    OtherKernel other_;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_split(const plan::HeavyLaunch& l, const ConvGeometry& g,
                                             const MakeKernel& make_other) {
    if (!can_split(l) || l.op == &graph::ops::kConv2dGradWeight || g.is_product()) return nullptr;
    const bool backward = l.op == &graph::ops::kConv2dGradInput;
    Lines lines(g);
    if (!lines.pays(g)) return nullptr;
    if (lines.taps.size() == 1 && g.ci < 256) return nullptr;  // oneDNN is faster
    const int64_t depth = up(backward ? g.co : g.ci, kDepth) * (backward ? 1 : lines.seen_phases);
    if ((SplitConv::rows_at_once(lines, depth) + 2 * lines.around + kBlock) * depth * 6 >
            kMostRowBytes ||
        up(backward ? g.ci : g.co, kBlock) * up(backward ? g.co : g.ci, kDepth) * g.kh * g.kw * 6 >
            kMostWeightBytes)
        return nullptr;
    return std::make_unique<SplitConv>(l, g, std::move(lines), make_other);
}

}  // namespace pippin::cpu
