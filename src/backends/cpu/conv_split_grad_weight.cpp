// Weight gradients of convolutions that keep an image's size, on matrix units for bfloat16. Pixels
// are the inner extent: x lies as lines of pixels, one a channel, and a tap of the window begins
// some pixels on in each of them.
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

constexpr int64_t kPixelsAtOnce = 256;       // of those, so that channels fit the second cache
constexpr int64_t kMostSumBytes = 64 << 20;  // of the sums of all taps

class SplitGradWeight : public HeavyKernel {
  public:
    SplitGradWeight(const plan::HeavyLaunch& l, const ConvGeometry& g, const Lines& lines,
                    const MakeKernel& make_other)
        : lines_(lines),
          rows_(up(lines.from, kBlock)),
          columns_(up(lines.to, kBlock)),
          threads_(num_threads()),
          other_(l, make_other) {
        for (int64_t y = 0; y < lines.taps_h; ++y)
            for (int64_t x = 0; x < lines.taps_w; ++x)
                taps_.push_back((lines.around + lines.rows_on(g, y, x)) * 2);
        chunk_ =
            std::max(split_chunk_bytes / ((rows_ + columns_) * 6) / kPixelsAtOnce, int64_t{1}) *
            kPixelsAtOnce;
        chunk_ = std::min(chunk_, up(lines.pixels_with_gaps(), kDepth));
        // Behind the last pixel a store may write zeros.
        line_bytes_ = up((chunk_ + 2 * lines.around + kDepth) * 2, 64) + 64;
        sum_bytes_ = sums(lines) * 4;
        x_bytes_ = 3 * rows_ * line_bytes_;
        scratch_bytes = static_cast<std::size_t>(sum_bytes_ + x_bytes_ + chunk_ * columns_ * 6);
    }
    static int64_t sums(const Lines& l) { return l.taps() * up(l.from, kBlock) * up(l.to, kBlock); }

    void run(void* const* operands, void* output) override {
        std::atomic<bool> good{true};
        const int64_t end = lines_.pixels_with_gaps();
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
    std::byte* x_lines() const { return static_cast<std::byte*>(scratch) + sum_bytes_; }
    std::byte* dy_panels() const { return x_lines() + x_bytes_; }

    // fn(pixel of the maps, pixel with gaps, how many) for the parts of lines in [begin, end).
    template <class F>
    void for_lines(int64_t begin, int64_t end, F&& fn) const {
        const Lines& l = lines_;
        int64_t q = std::max(begin, int64_t{0});
        end = std::min(end, l.pixels_with_gaps());
        while (q < end) {
            const int64_t image = q / l.image, y = q % l.image / l.line, x = q % l.line;
            const int64_t count = y < l.h && x < l.w ? std::min(l.w - x, end - q) : 0;
            if (count > 0) fn((image * l.h + y) * l.w + x, q, count);
            q += l.line - x;
        }
    }

    void split_x(const float* x, int64_t q, int64_t count, std::atomic<bool>& good) const {
        const int64_t before = q - lines_.around;
        parallel_ranges(rows_ / kTile, rows_ * count, [&](int64_t begin, int64_t end, int) {
            split::Range range;
            for (int64_t t = begin; t < end; ++t) {
                const int64_t c = t * kTile, plane = rows_ * line_bytes_;
                std::byte* const at = x_lines() + c * line_bytes_;
                for (int64_t p = 0; p < 3; ++p)
                    std::memset(at + p * plane, 0, static_cast<std::size_t>(kTile * line_bytes_));
                if (c >= lines_.from) continue;
                for_lines(before, q + count + lines_.around,
                          [&](int64_t pixel, int64_t with_gaps, int64_t pixels) {
                              split::split_rows(
                                  {x + pixel * lines_.from + c, 1, lines_.from},
                                  std::min(kTile, lines_.from - c), pixels,
                                  {at + (with_gaps - before) * 2, line_bytes_, 64, plane}, range);
                          });
            }
            if (!range.good) good = false;
        });
    }

    void split_dy(const float* dy, int64_t q, int64_t count, std::atomic<bool>& good) const {
        const int64_t depths = up(count, kDepth) / kDepth, blocks = columns_ / kBlock;
        parallel_ranges(depths, count * columns_, [&](int64_t begin, int64_t end, int) {
            split::Range range;
            alignas(64) float staged[kDepth * kBlock];
            for (int64_t k = begin; k < end; ++k)
                for (int64_t j = 0; j < blocks; ++j) {
                    const int64_t first = q + k * kDepth,
                                  n = std::min(kBlock, lines_.to - j * kBlock);
                    std::memset(staged, 0, sizeof staged);
                    for_lines(first, std::min(first + kDepth, q + count),
                              [&](int64_t pixel, int64_t with_gaps, int64_t pixels) {
                                  for (int64_t i = 0; i < pixels; ++i)
                                      std::memcpy(staged + (with_gaps - first + i) * kBlock,
                                                  dy + (pixel + i) * lines_.to + j * kBlock,
                                                  static_cast<std::size_t>(n) * 4);
                              });
                    split::split_columns({staged, kBlock, 1}, kDepth, kBlock,
                                         dy_panels() + (j * depths + k) * kPanelBytes, range);
                }
            if (!range.good) good = false;
        });
    }

    // Sums lie as [tap][channel of x][channel of y].
    void add(int64_t count, bool adds) const {
        const int64_t depths = up(count, kDepth) / kDepth, taps = lines_.taps();
        const int64_t row_blocks = rows_ / kBlock;
        const int64_t units = columns_ / kBlock * row_blocks * taps;
        const int64_t share = std::min<int64_t>(std::min(threads_, num_threads()), units);
        parallel_threads(static_cast<int>(share), [&](int thread) {
            const split::Tiles tiles;
            constexpr int64_t kStep = kPixelsAtOnce / kDepth;
            for (int64_t k = 0; k < depths; k += kStep)
                for (int64_t u = units * thread / share; u < units * (thread + 1) / share; ++u) {
                    const int64_t tap = u % taps, i = u / taps % row_blocks * kBlock;
                    const int64_t j = u / taps / row_blocks;
                    const split::Product p{{x_lines() + i * line_bytes_ + k * 64, line_bytes_, 64,
                                            rows_ * line_bytes_},
                                           dy_panels() + (j * depths + k) * kPanelBytes,
                                           std::min(kStep, depths - k),
                                           &taps_[static_cast<std::size_t>(tap)],
                                           1};
                    split::Output out{sums() + (tap * rows_ + i) * columns_ + j * kBlock, columns_};
                    out.adds = adds || k > 0;
                    tiles.run(p, kBlock, kBlock, out);
                }
        });
    }

    void write(float* output) const {
        const int64_t taps = lines_.taps(), from = lines_.from;
        parallel_ranges(lines_.to, lines_.to * from * taps, [&](int64_t begin, int64_t end, int) {
            for (int64_t c = begin; c < end; ++c)
                for (int64_t i = 0; i < from; ++i)
                    for (int64_t t = 0; t < taps; ++t)
                        output[(c * from + i) * taps + t] = sums()[(t * rows_ + i) * columns_ + c];
        });
    }

    Lines lines_;
    int64_t rows_, columns_;
    int threads_;
    std::vector<int64_t> taps_;
    int64_t chunk_ = 0, line_bytes_ = 0, sum_bytes_ = 0, x_bytes_ = 0;
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
