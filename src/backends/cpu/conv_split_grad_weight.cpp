// Weight gradients of convolutions on matrix units for bfloat16. Pixels (split_lines.h) are the
// inner extent. dy lies turned, a line a channel; x lies as rows of two pixels, once from
// even and once from odd pixels on, so that a tap of the window begins at some row of the one or
// the other.
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
using split::kTile;
using split::Lines;
using split::up;
using std::int64_t;

constexpr int64_t kPixelsAtOnce = 1024;      // of those, for each time that sums are read
constexpr int64_t kMostSumBytes = 64 << 20;  // of the sums of all taps

class SplitGradWeight : public HeavyKernel {
  public:
    SplitGradWeight(const plan::HeavyLaunch& l, const ConvGeometry& g, Lines lines,
                    const MakeKernel& make_other)
        : lines_(std::move(lines)),
          from_(g.ci),
          to_(g.co),
          x_channels_(up(from_, kBlock)),
          y_channels_(up(to_, kBlock)),
          threads_(num_threads()),
          other_(l, make_other) {
        // Of each phase the pairs that taps begin at: from even pixels, from odd ones.
        planes_.resize(static_cast<std::size_t>(2 * lines_.seen_phases), -1);
        int64_t planes = 0;
        for (const Lines::Tap& tap : lines_.taps)
            if (int64_t& plane = plane_of(tap.phase, lines_.around + tap.rows_on); plane < 0)
                plane = planes++;
        const int64_t number_bytes = (planes * x_channels_ + y_channels_) * 6;
        const int64_t fit = split_chunk_bytes / number_bytes,
                      step = fit < kPixelsAtOnce ? kDepth : kPixelsAtOnce;
        chunk_ = std::min(std::max(fit / step * step, kDepth), up(lines_.rows(), kDepth));
        x_rows_ = chunk_ / 2 + lines_.around + 1;
        x_part_ = x_channels_ / kTile * x_rows_ * 64;
        for (const Lines::Tap& tap : lines_.taps) {
            const int64_t pixel = lines_.around + tap.rows_on;
            taps_.push_back(plane_of(tap.phase, pixel) * 3 * x_part_ + pixel / 2 * 64);
        }
        sum_bytes_ = sum_bytes(g);
        x_bytes_ = planes * 3 * x_part_;
        scratch_bytes = static_cast<std::size_t>(sum_bytes_ + x_bytes_ + chunk_ * y_channels_ * 6);
    }
    static int64_t sum_bytes(const ConvGeometry& g) {
        return g.kh * g.kw * up(g.ci, kBlock) * up(g.co, kBlock) * 4;
    }

    void run(void* const* operands, void* output) override {
        std::atomic<bool> good{true};
        const int64_t end = lines_.rows();
        for (int64_t q = 0; q < end && good; q += chunk_) {
            const int64_t count = std::min(chunk_, end - q);
            split_x(static_cast<const float*>(operands[0]), q, count, good);
            split_dy(static_cast<const float*>(operands[1]), q, count, good);
            if (good) add(count, q > 0);
        }
        if (!good) return other_.run(operands, output);
        write(static_cast<float*>(output));
    }

  private:
    float* sums() const { return static_cast<float*>(scratch); }
    std::byte* x_pairs() const { return static_cast<std::byte*>(scratch) + sum_bytes_; }
    std::byte* dy_tiles() const { return x_pairs() + x_bytes_; }
    int64_t& plane_of(int64_t phase, int64_t pixel) {
        return planes_[static_cast<std::size_t>(phase * 2 + pixel % 2)];
    }
    static int64_t whole(int64_t count) { return up(count, kDepth); }

    void split_x(const float* x, int64_t q, int64_t count, std::atomic<bool>& good) const {
        constexpr int64_t kStep = 128;
        const int64_t end = whole(count) + 2 * lines_.around, steps = (end + kStep - 1) / kStep;
        const int64_t tasks = lines_.seen_phases * steps;
        parallel_ranges(tasks, tasks * kStep * x_channels_, [&](int64_t first, int64_t last, int) {
            split::Range range;
            std::int32_t pixels[kStep + 1];
            for (int64_t t = first; t < last; ++t) {
                const int64_t phase = t / steps, begin = t % steps * kStep;
                lines_.pixels_of_x(phase, q - lines_.around + begin, kStep + 1, pixels);
                std::byte* to[2];
                for (int64_t odd = 0; odd < 2; ++odd) {
                    const int64_t plane = planes_[static_cast<std::size_t>(phase * 2 + odd)];
                    to[odd] =
                        plane < 0 ? nullptr : x_pairs() + plane * 3 * x_part_ + begin / 2 * 64;
                }
                for (int64_t i = 0; i < std::min(kStep, end - begin); i += kTile)
                    for (int64_t c = 0; c < x_channels_; c += kTile) {
                        const int64_t at = c / kTile * x_rows_ * 64;
                        split::split_pairs({x + c, from_, pixels}, from_ - c, i,
                                           std::min(i + kTile, end - begin),
                                           to[0] ? to[0] + at : nullptr,
                                           to[1] ? to[1] + at : nullptr, x_part_, range);
                    }
            }
            if (!range.good) good = false;
        });
    }

    // Tiles of dy lie as [block of channels][kDepth pixels][part][half of the block].
    void split_dy(const float* dy, int64_t q, int64_t count, std::atomic<bool>& good) const {
        const int64_t depths = whole(count) / kDepth;
        parallel_ranges(depths, count * y_channels_, [&](int64_t begin, int64_t end, int) {
            split::Range range;
            std::int32_t pixels[kDepth];
            for (int64_t k = begin; k < end; ++k) {
                lines_.pixels_of_y(q + k * kDepth, kDepth, pixels);
                for (int64_t c = 0; c < y_channels_; c += kTile)
                    split::split_turned({dy + c, to_, pixels}, to_ - c,
                                        std::min(kDepth, count - k * kDepth),
                                        {dy_tiles() + (c / kBlock * depths + k) * kPanelBytes +
                                             c % kBlock / kTile * split::kTileBytes,
                                         64, kPanelBytes, 2 * split::kTileBytes},
                                        range);
            }
            if (!range.good) good = false;
        });
    }

    // Sums lie as [tap][channel of y][channel of x].
    void add(int64_t count, bool adds) const {
        const int64_t depths = whole(count) / kDepth,
                      taps = static_cast<int64_t>(lines_.taps.size());
        const int64_t y_blocks = y_channels_ / kBlock;
        const bool strided = lines_.seen_phases > 1;
        const int64_t units = x_channels_ / kBlock * taps * y_blocks;
        const int64_t share = std::min<int64_t>(std::min(threads_, num_threads()), units);
        parallel_threads(static_cast<int>(share), [&](int thread) {
            const split::Tiles tiles;
            constexpr int64_t kNoTap = 0, kStep = kPixelsAtOnce / kDepth;
            for (int64_t k = 0; k < depths; k += kStep)
                for (int64_t u = units * thread / share; u < units * (thread + 1) / share; ++u) {
                    // What can be reused soon lies inside: pixels of x by several taps, or where
                    // each tap has its own, pixels of dy.
                    const int64_t tap = strided ? u / y_blocks % taps : u % taps;
                    const int64_t y = (strided ? u : u / taps) % y_blocks * kBlock;
                    const int64_t x = u / taps / y_blocks * kBlock;
                    const split::Product p{
                        {dy_tiles() + (y / kBlock * depths + k) * kPanelBytes, 64, kPanelBytes,
                         2 * split::kTileBytes},
                        {x_pairs() + x / kTile * x_rows_ * 64 +
                             taps_[static_cast<std::size_t>(tap)] + k * split::kTileBytes,
                         split::kTileBytes, x_rows_ * 64, x_part_},
                        std::min(kStep, depths - k),
                        &kNoTap,
                        1};
                    split::Output out{sums() + (tap * y_channels_ + y) * x_channels_ + x,
                                      x_channels_};
                    out.adds = adds || k > 0;
                    tiles.run(p, kBlock, kBlock, out);
                }
        });
    }

    void write(float* output) const {
        const auto taps = static_cast<int64_t>(lines_.taps.size());
        parallel_ranges(to_, to_ * from_ * taps, [&](int64_t begin, int64_t end, int) {
            for (int64_t c = begin; c < end; ++c)
                for (int64_t t = 0; t < taps; ++t) {
                    const float* const sum = sums() + (t * y_channels_ + c) * x_channels_;
                    const int64_t index = lines_.taps[static_cast<std::size_t>(t)].index;
                    for (int64_t i = 0; i < from_; ++i)
                        output[(c * from_ + i) * taps + index] = sum[i];
                }
        });
    }

    Lines lines_;
    int64_t from_, to_;                // channels
    int64_t x_channels_, y_channels_;  // whole blocks of them
    int threads_;
    std::vector<int64_t> taps_;    // bytes on in x_pairs()
    std::vector<int64_t> planes_;  // of each phase's even and odd pairs, -1: none
    int64_t chunk_ = 0, x_rows_ = 0, x_part_ = 0, sum_bytes_ = 0, x_bytes_ = 0;
    OtherKernel other_;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_split_grad_weight(const plan::HeavyLaunch& l,
                                                         const ConvGeometry& g,
                                                         const MakeKernel& make_other) {
    if (!can_split(l) || l.op != &graph::ops::kConv2dGradWeight || g.is_product()) return nullptr;
    Lines lines(g);
    if (!lines.pays(g) || SplitGradWeight::sum_bytes(g) > kMostSumBytes) return nullptr;
    if (lines.taps.size() == 1 && g.ci < 512) return nullptr;  // oneDNN is faster
    return std::make_unique<SplitGradWeight>(l, g, std::move(lines), make_other);
}

}  // namespace pippin::cpu
