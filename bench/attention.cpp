// Attention's own kernel beside the same in matrix products and a softmax, turn by turn: the ratio
// says which one scaled_dot_product_attention should take.
//     bench/attention [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "graph/build_attention.h"
#include "graph/random.h"
#include "pippin/pippin.h"
#include "tensor/variable.h"

namespace {

using namespace pippin;

struct Case {
    const char* name;
    std::int64_t b, h, l, e;
    DType dtype = float32;
    double dropout = 0;
    bool causal = false, backward = true;
};
constexpr Case kCases[] = {
    {"BERT 8x12x128x64, training", 8, 12, 128, 64},
    {"BERT, dropout 0.1", 8, 12, 128, 64, float32, 0.1},
    {"BERT, evaluation", 8, 12, 128, 64, float32, 0, false, false},
    {"BERT, bfloat16", 8, 12, 128, 64, bfloat16},
    {"BERT, bfloat16, evaluation", 8, 12, 128, 64, bfloat16, 0, false, false},
    {"ViT 8x12x197x64, training", 8, 12, 197, 64},
    {"ViT, evaluation", 8, 12, 197, 64, float32, 0, false, false},
    {"ViT, bfloat16", 8, 12, 197, 64, bfloat16},
    {"2x12x256x64", 2, 12, 256, 64},
    {"2x12x384x64", 2, 12, 384, 64},
    {"2x12x512x64", 2, 12, 512, 64},
    {"2x12x512x64, bfloat16", 2, 12, 512, 64, bfloat16},
    {"1x8x1024x64, bfloat16", 1, 8, 1024, 64, bfloat16},
    {"1x8x1024x64, causal", 1, 8, 1024, 64, float32, 0, true},
    {"1x1x512x64", 1, 1, 512, 64},
    {"1x1x512x64, evaluation", 1, 1, 512, 64, float32, 0, false, false},
    {"4x4x16x32", 4, 4, 16, 32},
    {"4x4x16x32, evaluation", 4, 4, 16, 32, float32, 0, false, false},
    {"64x12x50x64", 64, 12, 50, 64},
    {"64x12x50x64, evaluation", 64, 12, 50, 64, float32, 0, false, false},
    {"BERT, float16", 8, 12, 128, 64, float16},
};

// One step on tensors as a transformer has them: heads beside each other in each position.
double seconds(const Case& c, bool composed, const Tensor (&x)[3], const Tensor& dy) {
    const auto start = std::chrono::steady_clock::now();
    const auto heads = [&](int i) { return node_of(transpose(x[i], 1, 2)); };
    graph::AttentionInputs in{heads(0), heads(1), heads(2), nullptr, nullptr, {0, 0}};
    if (c.dropout > 0) {
        std::tie(in.random[0], in.random[1]) = graph::next_random();
        in.seed = node_of(tensor<std::int64_t>(
            {static_cast<std::int64_t>(in.random[0]), static_cast<std::int64_t>(in.random[1])}));
    }
    const graph::AttentionAttrs a{1 / std::sqrt(static_cast<double>(c.e)), c.dropout, c.causal};
    Tensor y = wrap(composed ? graph::composed_attention(in, a)
                             : graph::permute(graph::attention(in, a), {0, 2, 1, 3}));
    y = transpose(y, 1, 2).reshape({c.b, c.l, c.h * c.e});
    if (c.backward) {
        y.backward(dy);
        for (const Tensor& t : x)
            t.grad().eval();
        for (Tensor t : x)
            t.zero_grad();
    } else {
        y.eval();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return took.count();
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
    fmt::print("{:30} {:>10} {:>10} {:>7}   fastest of {}\n", "", "composed", "kernel", "ratio",
               rounds);
    for (const Case& c : kCases) {
        Tensor x[3];
        for (Tensor& t : x) {
            t = cast(randn({c.b, c.l, c.h, c.e}), c.dtype).eval();
            if (c.backward) t.requires_grad_();
        }
        const Tensor dy = cast(randn({c.b, c.l, c.h * c.e}), c.dtype).eval();
        double best[2] = {1e9, 1e9};
        for (int round = 0; round < rounds + 2; ++round)
            for (const int which : {0, 1})
                best[which] = std::min(best[which], seconds(c, which == 0, x, dy));
        fmt::print("{:30} {:7.3f} ms {:7.3f} ms {:7.2f}\n", c.name, best[0] * 1e3, best[1] * 1e3,
                   best[0] / best[1]);
    }
}
