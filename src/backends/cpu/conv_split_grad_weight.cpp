// Weight gradients of convolutions that keep an image's size, on matrix units for bfloat16. Pixels
// are the inner extent. dy lies turned, a line a channel; x lies as rows of two pixels, once from
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
    SplitGradWeight(const plan::HeavyLaunch& l, const ConvGeometry& g, const Lines& lines,
                    const MakeKernel& make_other)
        : lines_(lines),
          x_channels_(up(lines.from, kBlock)),
          y_channels_(up(lines.to, kBlock)),
          threads_(num_threads()),
          other_(l, make_other) {
        const int64_t number_bytes = (2 * x_channels_ + y_channels_) * 6;
        const int64_t fit = split_chunk_bytes / number_bytes,
                      step = fit < kPixelsAtOnce ? kDepth : kPixelsAtOnce;
        chunk_ =
            std::min(std::max(fit / step * step, kDepth), up(lines.pixels_with_gaps(), kDepth));
        x_rows_ = chunk_ / 2 + lines.around + 1;
        x_part_ = x_channels_ / kTile * x_rows_ * 64;
        for (int64_t y = 0; y < lines.taps_h; ++y)
            for (int64_t x = 0; x < lines.taps_w; ++x) {
                const int64_t pixel = lines.around + lines.rows_on(g, y, x);
                taps_.push_back(pixel % 2 * 3 * x_part_ + pixel / 2 * 64);
            }
        sum_bytes_ = sums(lines) * 4;
        scratch_bytes =
            static_cast<std::size_t>(sum_bytes_ + 6 * x_part_ + chunk_ * y_channels_ * 6);
    }
    static int64_t sums(const Lines& l) { return l.taps() * up(l.from, kBlock) * up(l.to, kBlock); }

    void run(void* const* operands, void* output) override {
        std::atomic<bool> good{true};
        const int64_t end = lines_.pixels_with_gaps();
        for (int64_t q = 0; q < end && good; q += chunk_) {
            const int64_t count = std::min(chunk_, end - q);
            const std::vector<std::int32_t> pixels = pixels_from(q - lines_.around, count);
            split_x(static_cast<const float*>(operands[0]), pixels.data(), count, good);
            split_dy(static_cast<const float*>(operands[1]), pixels.data() + lines_.around, count,
                     good);
            if (good) add(count, q > 0);
        }
        if (!good) return other_.run(operands, output);
        write(static_cast<float*>(output));
    }

  private:
    float* sums() const { return static_cast<float*>(scratch); }
    std::byte* x_pairs() const { return static_cast<std::byte*>(scratch) + sum_bytes_; }
    std::byte* dy_tiles() const { return x_pairs() + 6 * x_part_; }
    static int64_t whole(int64_t count) { return up(count, kDepth); }

    // The maps' pixels that lie from `begin` on where gaps are counted, as many as a chunk of
    // `count` sees.
    std::vector<std::int32_t> pixels_from(int64_t begin, int64_t count) const {
        const Lines& l = lines_;
        std::vector<std::int32_t> pixels(static_cast<std::size_t>(whole(count) + 2 * l.around + 1),
                                         -1);
        const int64_t end =
            std::min(begin + static_cast<int64_t>(pixels.size()), l.pixels_with_gaps());
        for (int64_t q = std::max(begin, int64_t{0}); q < end;) {
            const int64_t image = q / l.image, y = q % l.image / l.line, x = q % l.line;
            const int64_t inside = y < l.h ? std::min(l.w - x, end - q) : 0;
            for (int64_t i = 0; i < inside; ++i)
                pixels[static_cast<std::size_t>(q - begin + i)] =
                    static_cast<std::int32_t>((image * l.h + y) * l.w + x + i);
            q += l.line - x;
        }
        return pixels;
    }

    void split_x(const float* x, const std::int32_t* pixels, int64_t count,
                 std::atomic<bool>& good) const {
        constexpr int64_t kStep = 32;
        const int64_t end = whole(count) + 2 * lines_.around, tasks = (end + kStep - 1) / kStep;
        parallel_ranges(tasks, x_channels_ * count, [&](int64_t first, int64_t last, int) {
            split::Range range;
            for (int64_t t = first; t < last; ++t)
                for (int64_t c = 0; c < x_channels_; c += kTile)
                    split::split_pairs({x + c, lines_.from, pixels}, lines_.from - c, t * kStep,
                                       std::min((t + 1) * kStep, end),
                                       x_pairs() + c / kTile * x_rows_ * 64, x_part_, 3 * x_part_,
                                       range);
            if (!range.good) good = false;
        });
    }

    // Tiles of dy lie as [block of channels][kDepth pixels][part][half of the block].
    void split_dy(const float* dy, const std::int32_t* pixels, int64_t count,
                  std::atomic<bool>& good) const {
        const int64_t depths = whole(count) / kDepth;
        parallel_ranges(depths, count * y_channels_, [&](int64_t begin, int64_t end, int) {
            split::Range range;
            for (int64_t k = begin; k < end; ++k)
                for (int64_t c = 0; c < y_channels_; c += kTile)
                    split::split_turned({dy + c, lines_.to, pixels + k * kDepth}, lines_.to - c,
                                        std::min(kDepth, count - k * kDepth),
                                        {dy_tiles() + (c / kBlock * depths + k) * kPanelBytes +
                                             c % kBlock / kTile * split::kTileBytes,
                                         64, kPanelBytes, 2 * split::kTileBytes},
                                        range);
            if (!range.good) good = false;
        });
    }

    // Sums lie as [tap][channel of y][channel of x].
    void add(int64_t count, bool adds) const {
        const int64_t depths = whole(count) / kDepth, taps = lines_.taps();
        const int64_t x_blocks = x_channels_ / kBlock;
        const int64_t units = y_channels_ / kBlock * x_blocks * taps;
        const int64_t share = std::min<int64_t>(std::min(threads_, num_threads()), units);
        parallel_threads(static_cast<int>(share), [&](int thread) {
            const split::Tiles tiles;
            constexpr int64_t kStep = kPixelsAtOnce / kDepth, kNoTap = 0;
            for (int64_t k = 0; k < depths; k += kStep)
                for (int64_t u = units * thread / share; u < units * (thread + 1) / share; ++u) {
                    const int64_t tap = u % taps, x = u / taps % x_blocks * kBlock;
                    const int64_t y = u / taps / x_blocks * kBlock;
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
        const int64_t taps = lines_.taps(), from = lines_.from;
        parallel_ranges(lines_.to, lines_.to * from * taps, [&](int64_t begin, int64_t end, int) {
            for (int64_t c = begin; c < end; ++c)
                for (int64_t t = 0; t < taps; ++t) {
                    const float* const sum = sums() + (t * y_channels_ + c) * x_channels_;
                    for (int64_t i = 0; i < from; ++i)
                        output[(c * from + i) * taps + t] = sum[i];
                }
        });
    }

    Lines lines_;
    int64_t x_channels_, y_channels_;  // whole blocks of them
    int threads_;
    std::vector<int64_t> taps_;  // bytes on in x_pairs()
    int64_t chunk_ = 0, x_rows_ = 0, x_part_ = 0, sum_bytes_ = 0;
    OtherKernel other_;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_split_grad_weight(const plan::HeavyLaunch& l,
                                                         const ConvGeometry& g,
                                                         const MakeKernel& make_other) {
    if (!can_split(l) || l.op != &graph::ops::kConv2dGradWeight || !split::keeps_size(g))
        return nullptr;
    const Lines lines(g, g.ci, g.co);
    if (!lines.pays() || SplitGradWeight::sums(lines) * 4 > kMostSumBytes) return nullptr;
    return std::make_unique<SplitGradWeight>(l, g, lines, make_other);
}

}  // namespace pippin::cpu
