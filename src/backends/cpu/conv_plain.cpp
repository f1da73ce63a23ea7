#include "backends/cpu/conv_plain.h"

#include "backends/cpu/epilogue.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

// x, w and y are views of the three tensors, whichever of them the launch writes.
template <class T, class A>
class Plain : public HeavyKernel {
  public:
    Plain(const plan::HeavyLaunch& launch, const ConvGeometry& g)
        : g_(g),
          op_(launch.op),
          first_(launch.operands[0].strides),
          second_(launch.operands[1].strides),
          out_(launch.output.strides),
          rest_(launch, 1) {}

    void run(void* const* operands, void* output) override {
        const T* a = static_cast<const T*>(operands[0]);
        const T* b = static_cast<const T*>(operands[1]);
        T* out = static_cast<T*>(output);
        if (op_ == &graph::ops::kConv2d)
            forward(a, b, out);
        else if (op_ == &graph::ops::kConv2dGradInput)
            grad_input(a, b, out);
        else
            grad_weight(a, b, out);
        rest_.run(operands, output);
    }

  private:
    using Strides = plan::Strides;
    static std::int64_t at(const Strides& s, std::int64_t i, std::int64_t j, std::int64_t k,
                           std::int64_t l) {
        return i * s[0] + j * s[1] + k * s[2] + l * s[3];
    }

    std::int64_t work() const {
        return g_.n * g_.co * g_.oh * g_.ow * (1 + g_.ci / g_.groups * g_.kh * g_.kw);
    }

    void forward(const T* x, const T* w, T* y) const {
        const std::int64_t cg = g_.ci / g_.groups, og = g_.co / g_.groups;
        parallel_ranges(
            g_.n * g_.co * g_.oh, work(), [&](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t r = i % g_.oh, o = i / g_.oh % g_.co, n = i / g_.oh / g_.co;
                    const std::int64_t c0 = o / og * cg;
                    for (std::int64_t q = 0; q < g_.ow; ++q) {
                        A sum{};
                        for (std::int64_t c = 0; c < cg; ++c)
                            for (std::int64_t u = 0; u < g_.kh; ++u) {
                                const std::int64_t h =
                                    r * g_.stride[0] + u * g_.dilation[0] - g_.pad[0];
                                if (h < 0 || h >= g_.h) continue;
                                for (std::int64_t v = 0; v < g_.kw; ++v) {
                                    const std::int64_t z =
                                        q * g_.stride[1] + v * g_.dilation[1] - g_.pad[1];
                                    if (z < 0 || z >= g_.w) continue;
                                    sum += A(x[at(first_, n, c0 + c, h, z)]) *
                                           A(w[at(second_, o, c, u, v)]);
                                }
                            }
                        y[at(out_, n, o, r, q)] = T(sum);
                    }
                }
            });
    }

    void grad_input(const T* dy, const T* w, T* dx) const {
        const std::int64_t cg = g_.ci / g_.groups, og = g_.co / g_.groups;
        parallel_ranges(
            g_.n * g_.ci * g_.h, work(), [&](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t h = i % g_.h, c = i / g_.h % g_.ci, n = i / g_.h / g_.ci;
                    const std::int64_t o0 = c / cg * og;
                    for (std::int64_t z = 0; z < g_.w; ++z) {
                        A sum{};
                        for (std::int64_t u = 0; u < g_.kh; ++u) {
                            const std::int64_t r = h + g_.pad[0] - u * g_.dilation[0];
                            if (r < 0 || r % g_.stride[0] != 0 || r / g_.stride[0] >= g_.oh)
                                continue;
                            for (std::int64_t v = 0; v < g_.kw; ++v) {
                                const std::int64_t q = z + g_.pad[1] - v * g_.dilation[1];
                                if (q < 0 || q % g_.stride[1] != 0 || q / g_.stride[1] >= g_.ow)
                                    continue;
                                for (std::int64_t o = 0; o < og; ++o)
                                    sum += A(dy[at(first_, n, o0 + o, r / g_.stride[0],
                                                   q / g_.stride[1])]) *
                                           A(w[at(second_, o0 + o, c % cg, u, v)]);
                            }
                        }
                        dx[at(out_, n, c, h, z)] = T(sum);
                    }
                }
            });
    }

    void grad_weight(const T* x, const T* dy, T* dw) const {
        const std::int64_t cg = g_.ci / g_.groups, og = g_.co / g_.groups;
        parallel_ranges(g_.co * cg * g_.kh, work(), [&](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t u = i % g_.kh, c = i / g_.kh % cg, o = i / g_.kh / cg;
                for (std::int64_t v = 0; v < g_.kw; ++v) {
                    A sum{};
                    for (std::int64_t n = 0; n < g_.n; ++n)
                        for (std::int64_t r = 0; r < g_.oh; ++r) {
                            const std::int64_t h =
                                r * g_.stride[0] + u * g_.dilation[0] - g_.pad[0];
                            if (h < 0 || h >= g_.h) continue;
                            for (std::int64_t q = 0; q < g_.ow; ++q) {
                                const std::int64_t z =
                                    q * g_.stride[1] + v * g_.dilation[1] - g_.pad[1];
                                if (z < 0 || z >= g_.w) continue;
                                sum += A(x[at(first_, n, o / og * cg + c, h, z)]) *
                                       A(dy[at(second_, n, o, r, q)]);
                            }
                        }
                    dw[at(out_, o, c, u, v)] = T(sum);
                }
            }
        });
    }

    ConvGeometry g_;
    const graph::OpRecord* op_;
    Strides first_, second_, out_;
    EpiloguePass rest_;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_plain(const plan::HeavyLaunch& launch,
                                             const ConvGeometry& geometry) {
    switch (launch.output.dtype) {
        case DType::Float16:
            return std::make_unique<Plain<Half, float>>(launch, geometry);
        case DType::BFloat16:
            return std::make_unique<Plain<BFloat, float>>(launch, geometry);
        case DType::Float32:
            return std::make_unique<Plain<float, float>>(launch, geometry);
        case DType::Float64:
            return std::make_unique<Plain<double, double>>(launch, geometry);
        default:
            throw Error("the CPU has no convolution of this dtype");
    }
}

}  // namespace pippin::cpu
