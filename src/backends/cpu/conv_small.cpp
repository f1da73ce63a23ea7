// Direct convolutions for few channels: when to use them, packed weights, threads.
#include "backends/cpu/conv_small.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

using std::int64_t;

const SmallConvFunctions& functions() {
    static const SmallConvFunctions f = [] {
        SmallConvFunctions g{};
        small_conv_forward_functions(&g);
        small_conv_backward_functions(&g);
        return g;
    }();
    return f;
}

std::size_t floats(int64_t count) {
    return align64(static_cast<std::size_t>(count) * sizeof(float));
}

SmallConv small_conv(const ConvGeometry& g) {
    SmallConv s;
    s.g = g;
    s.stride = g.stride[0];
    s.line = (g.w + 2 * g.pad[1] + s.stride - 1) / s.stride;
    s.pitch = s.line * g.ci * s.stride;
    // A band's planes stay in the nearer caches.
    constexpr int64_t kFloats = 16384;
    s.band = std::clamp<int64_t>((kFloats / s.pitch - g.kh) / s.stride + 1, 4, g.oh < 4 ? 4 : g.oh);
    s.band = std::min(s.band, g.oh);
    for (int64_t u = 0; u < g.kh; ++u)
        for (int64_t v = 0; v < g.kw; ++v)
            for (int64_t c = 0; c < g.ci; ++c)
                s.taps.push_back(static_cast<std::int32_t>(
                    u * s.pitch + (c * s.stride + v % s.stride) * s.line + v / s.stride));
    return s;
}

// How many vectors of channels go together.
int vectors_for(int64_t channels) {
    const int64_t n = (channels + functions().lanes - 1) / functions().lanes;
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
}

class Small : public HeavyKernel {
  protected:
    explicit Small(const ConvGeometry& g) : s_(small_conv(g)), threads_(num_threads()) {
        tasks_ = g.n * s_.bands();
        x_image_ = g.h * g.w * g.ci;
        y_image_ = g.oh * g.ow * g.co;
    }
    int64_t work() const { return s_.g.n * y_image_ * static_cast<int64_t>(s_.taps.size()) / 8; }
    int threads(int64_t tasks) const { return std::min(threads_, threads_for(tasks, work())); }
    float* at(std::size_t bytes) const {
        return reinterpret_cast<float*>(static_cast<char*>(scratch) + bytes);
    }
    // The image and the output rows of a task.
    void rows_of(int64_t task, int64_t* image, int64_t* r0, int64_t* r1) const {
        *image = task / s_.bands();
        *r0 = task % s_.bands() * s_.band;
        *r1 = std::min(*r0 + s_.band, s_.g.oh);
    }

    SmallConv s_;
    int threads_;
    int64_t tasks_, x_image_, y_image_;
};

class SmallForward : public Small {
  public:
    SmallForward(const plan::HeavyLaunch& l, const ConvGeometry& g)
        : Small(g), bias_(l.epilogue.bias), activation_(l.epilogue.activation) {
        const int64_t lanes = functions().lanes;
        pixels_ = has_pixels(g.co) && g.co < lanes && g.ow >= lanes;
        vectors_ = vectors_for(g.co);
        const int64_t group = pixels_ ? g.co : vectors_ * lanes;
        padded_ = (g.co + group - 1) / group * group;
        bias_at_ = floats(padded_ * static_cast<int64_t>(s_.taps.size()));
        planes_at_ = bias_at_ + floats(padded_);
        planes_bytes_ = floats(s_.planes_floats());
        scratch_bytes = planes_at_ + planes_bytes_ * static_cast<std::size_t>(threads_);
    }

    void run(void* const* operands, void* output) override {
        const float* x = static_cast<const float*>(operands[0]);
        float* y = static_cast<float*>(output);
        pack(static_cast<const float*>(operands[1]));
        float* bias = at(bias_at_);
        std::fill(bias, bias + padded_, 0.f);
        if (bias_ >= 0)
            std::memcpy(bias, operands[bias_], static_cast<std::size_t>(s_.g.co) * sizeof(float));
        const int count = threads(tasks_);
        parallel_threads(count, [&](int t) {
            float* planes = at(planes_at_ + planes_bytes_ * static_cast<std::size_t>(t));
            for (int64_t i = tasks_ * t / count; i < tasks_ * (t + 1) / count; ++i) {
                int64_t n, r0, r1;
                rows_of(i, &n, &r0, &r1);
                functions().fill(s_, x + n * x_image_, r0, r1, planes);
                float* image = y + n * y_image_;
                if (pixels_)
                    functions().forward_pixels(s_, planes, at(0), bias, activation_, r0, r1, image);
                else
                    functions().forward_channels(s_, planes, vectors_, at(0), bias, activation_, r0,
                                                 r1, image);
            }
        });
    }

  private:
    void pack(const float* w) {
        const int64_t group = pixels_ ? s_.g.co : vectors_ * functions().lanes;
        const int64_t window = s_.g.kh * s_.g.kw, ci = s_.g.ci;
        float* to = at(0);
        for (int64_t first = 0; first < padded_; first += group)
            for (int64_t k = 0; k < window; ++k)
                for (int64_t c = 0; c < ci; ++c)
                    for (int64_t o = first; o < first + group; ++o)
                        *to++ = o < s_.g.co ? w[(o * ci + c) * window + k] : 0.f;
    }

    int bias_;
    plan::Activation activation_;
    bool pixels_ = false;
    int vectors_ = 1;
    int64_t padded_ = 0;
    std::size_t bias_at_ = 0, planes_at_ = 0, planes_bytes_ = 0;
};

// Parts of the batch are summed each by itself and then together, the same parts whatever the
// number of threads.
class SmallGradWeight : public Small {
  public:
    explicit SmallGradWeight(const ConvGeometry& g) : Small(g) {
        const int64_t lanes = functions().lanes;
        pixels_ = takes_pixels(g);
        vectors_ = vectors_for(g.co);
        group_ = vectors_ * lanes;
        const int64_t padded = pixels_ ? g.co * lanes : (g.co + group_ - 1) / group_ * group_;
        sum_floats_ = padded * static_cast<int64_t>(s_.taps.size());
        parts_ = std::min<int64_t>(tasks_, 16);
        const int64_t vectors = (g.ow + lanes - 1) / lanes;
        lines_bytes_ = pixels_ ? floats(s_.band * g.co * vectors * lanes) : 0;
        thread_bytes_ = floats(s_.planes_floats()) + lines_bytes_;
        sums_at_ = thread_bytes_ * static_cast<std::size_t>(threads_);
        scratch_bytes = sums_at_ + floats(sum_floats_) * static_cast<std::size_t>(parts_);
    }

    static bool takes_pixels(const ConvGeometry& g) {
        return has_pixels(g.co) && g.co < functions().lanes && g.ow >= functions().lanes &&
               g.stride[0] == 1;
    }

    void run(void* const* operands, void* output) override {
        const float* x = static_cast<const float*>(operands[0]);
        const float* dy = static_cast<const float*>(operands[1]);
        const int count = threads(parts_);
        parallel_threads(count, [&](int t) {
            float* planes = at(thread_bytes_ * static_cast<std::size_t>(t));
            float* lines = planes + floats(s_.planes_floats()) / sizeof(float);
            for (int64_t p = parts_ * t / count; p < parts_ * (t + 1) / count; ++p) {
                float* sums = part(p);
                std::memset(sums, 0, static_cast<std::size_t>(sum_floats_) * sizeof(float));
                for (int64_t i = tasks_ * p / parts_; i < tasks_ * (p + 1) / parts_; ++i) {
                    int64_t n, r0, r1;
                    rows_of(i, &n, &r0, &r1);
                    functions().fill(s_, x + n * x_image_, r0, r1, planes);
                    const float* image = dy + n * y_image_;
                    if (pixels_)
                        functions().grad_weight_pixels(s_, planes, lines, image, r0, r1, sums);
                    else
                        functions().grad_weight_channels(s_, planes, vectors_, image, r0, r1, sums);
                }
            }
        });
        float* total = part(0);
        for (int64_t p = 1; p < parts_; ++p) {
            const float* more = part(p);
            for (int64_t i = 0; i < sum_floats_; ++i)
                total[i] += more[i];
        }
        unpack(total, static_cast<float*>(output));
    }

  private:
    float* part(int64_t p) const {
        return at(sums_at_ + floats(sum_floats_) * static_cast<std::size_t>(p));
    }
    void unpack(const float* total, float* dw) const {
        const int64_t window = s_.g.kh * s_.g.kw, ci = s_.g.ci, lanes = functions().lanes;
        for (int64_t o = 0; o < s_.g.co; ++o)
            for (int64_t c = 0; c < ci; ++c)
                for (int64_t k = 0; k < window; ++k) {
                    float v = 0;
                    if (pixels_) {
                        const float* sums = total + ((c * s_.g.co + o) * window + k) * lanes;
                        for (int64_t i = 0; i < lanes; ++i)
                            v += sums[i];
                    } else {
                        const int64_t first = o / group_ * group_;
                        v = total[(first * ci + c * group_) * window + k * group_ + o - first];
                    }
                    *dw++ = v;
                }
    }

    bool pixels_ = false;
    int vectors_ = 1;
    int64_t group_ = 0, sum_floats_ = 0, parts_ = 1;
    std::size_t lines_bytes_ = 0, thread_bytes_ = 0, sums_at_ = 0;
};

class SmallGradInput : public Small {
  public:
    explicit SmallGradInput(const ConvGeometry& g) : Small(g) {
        const int64_t lanes = functions().lanes;
        vectors_ = static_cast<int>((g.kw * g.ci + lanes - 1) / lanes);
        weights_bytes_ = floats(g.kh * g.co * vectors_ * lanes);
        row_ = (g.w + 2 * g.pad[1]) * g.ci;
        image_floats_ = row_ * (g.h + 2 * g.pad[0]) + vectors_ * lanes;
        scratch_bytes = weights_bytes_ + floats(image_floats_) * static_cast<std::size_t>(threads_);
    }

    void run(void* const* operands, void* output) override {
        const float* dy = static_cast<const float*>(operands[0]);
        float* dx = static_cast<float*>(output);
        pack(static_cast<const float*>(operands[1]));
        const ConvGeometry& g = s_.g;
        const int count = threads(g.n);
        parallel_threads(count, [&](int t) {
            float* padded =
                at(weights_bytes_ + floats(image_floats_) * static_cast<std::size_t>(t));
            for (int64_t n = g.n * t / count; n < g.n * (t + 1) / count; ++n) {
                std::memset(padded, 0, static_cast<std::size_t>(image_floats_) * sizeof(float));
                functions().grad_input(s_, dy + n * y_image_, vectors_, at(0), padded);
                for (int64_t h = 0; h < g.h; ++h)
                    std::memcpy(dx + n * x_image_ + h * g.w * g.ci,
                                padded + (h + g.pad[0]) * row_ + g.pad[1] * g.ci,
                                static_cast<std::size_t>(g.w * g.ci) * sizeof(float));
            }
        });
    }

  private:
    void pack(const float* w) {
        const ConvGeometry& g = s_.g;
        const int64_t width = vectors_ * functions().lanes;
        float* to = at(0);
        for (int64_t u = 0; u < g.kh; ++u)
            for (int64_t o = 0; o < g.co; ++o, to += width) {
                std::fill(to + g.kw * g.ci, to + width, 0.f);
                for (int64_t v = 0; v < g.kw; ++v)
                    for (int64_t c = 0; c < g.ci; ++c)
                        to[v * g.ci + c] = w[((o * g.ci + c) * g.kh + u) * g.kw + v];
            }
    }

    int vectors_ = 1;
    int64_t row_ = 0, image_floats_ = 0;
    std::size_t weights_bytes_ = 0;
};

bool is_simple(const plan::HeavyLaunch& l, const ConvGeometry& g) {
    if (l.epilogue.residual >= 0 || g.groups != 1 || g.dilation[0] != 1 || g.dilation[1] != 1 ||
        g.stride[0] != g.stride[1] || g.stride[0] > 2 || g.empty())
        return false;
    for (const plan::Operand& o : l.operands)
        if (o.dtype != DType::Float32) return false;
    return l.output.dtype == DType::Float32;
}

}  // namespace

// The limits are where measurements against oneDNN 2.6 crossed (bench/heavy): it catches up when a
// vector of channels is full on both sides.
std::unique_ptr<HeavyKernel> make_conv_small(const plan::HeavyLaunch& l, const ConvGeometry& g) {
    if (!is_simple(l, g) || g.ci > 8 || g.co > 64 || g.kw * g.kh > 128) return nullptr;
    const int64_t lanes = functions().lanes;
    if (lanes == 1) return nullptr;
    if (l.op == &graph::ops::kConv2d)
        return g.co <= 32 ? std::make_unique<SmallForward>(l, g) : nullptr;
    if (l.op == &graph::ops::kConv2dGradWeight) {
        const bool known_width = g.kw == 3 || g.kw == 5 || g.kw == 7;
        const bool full = SmallGradWeight::takes_pixels(g) || g.co % lanes == 0;
        return known_width && full ? std::make_unique<SmallGradWeight>(g) : nullptr;
    }
    return g.kw * g.ci <= 4 * lanes ? std::make_unique<SmallGradInput>(g) : nullptr;
}

}  // namespace pippin::cpu
