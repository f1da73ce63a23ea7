// Attention launches for tests of kernels: every option, sizes that fit no tile.
#pragma once

#include "graph/ops/records_attention.h"
#include "heavy/launch.h"

namespace pippin::gpu_test {

struct AttentionCase {
    std::int64_t b, h, l, s, e, ev;
    bool causal = false;
    char mask = 0;  ///< 'b'ool or 'a'dded, of one row for all queries when upper-case
    double dropout = 0;
    bool gradient = false;
    DType dtype = DType::Float32;
    bool inside = false;  ///< heads inside of positions, as projections leave them

    std::string str() const {
        std::string out = gradient ? "gradient" : "forward";
        for (const auto v : {b, h, l, s, e, ev})
            out += " " + std::to_string(v);
        if (causal) out += " causal";
        if (mask) out += std::string(" mask ") + mask;
        if (dropout > 0) out += " dropout " + std::to_string(dropout);
        return out + " " + std::string(name_of(dtype)) + (inside ? " inside" : "");
    }
};

inline constexpr std::uint64_t kAttentionSeed[2] = {77, 0x1234567890ull};

inline heavy_test::Trial attention_trial(const AttentionCase& c) {
    using heavy_test::Data;
    using heavy_test::random_data;
    heavy_test::Trial t;
    t.op = c.gradient ? &graph::ops::kAttentionGrad : &graph::ops::kAttention;
    t.order = plan::Order::RowMajor;
    t.attrs.i = {c.causal, c.mask != 0, c.dropout > 0};
    t.attrs.f = {0.7 / std::sqrt(static_cast<double>(std::max<std::int64_t>(c.e, 1))), c.dropout};
    const auto make = [&](std::int64_t n, std::int64_t w, unsigned seed) {
        Data d = random_data(c.dtype, {c.b, c.h, n, w}, plan::Order::RowMajor, seed);
        if (c.inside) d.view.strides = {n * c.h * w, w, c.h * w, 1};
        return d;
    };
    t.inputs = {make(c.l, c.e, 1), make(c.s, c.e, 2), make(c.s, c.ev, 3)};
    if (c.mask) {
        const bool wide = c.mask == 'b' || c.mask == 'a', truth = c.mask == 'b' || c.mask == 'B';
        Data m(truth ? DType::Bool : c.dtype,
               wide ? Shape{1, c.h, c.l, c.s} : Shape{c.b, 1, 1, c.s});
        std::mt19937 gen(5);
        for (std::int64_t i = 0; i < m.view.shape.numel(); ++i) {
            const auto r = gen() % 8;
            const bool dead_row = i / c.s % 5 == 3;
            if (truth)
                m.set(i, !dead_row && r < 5);
            else
                m.set(i, dead_row || r == 0 ? -HUGE_VAL : 0.5 * static_cast<double>(r) - 2);
        }
        t.inputs.push_back(std::move(m));
    }
    if (c.dropout > 0) {
        Data seed(DType::Int64, {2});
        for (int k = 0; k < 2; ++k)
            seed.set(k, static_cast<double>(kAttentionSeed[k]));
        t.inputs.push_back(std::move(seed));
    }
    if (c.gradient)
        t.inputs.push_back(random_data(c.dtype, {c.b, c.l, c.h, c.ev}, plan::Order::RowMajor, 4));
    return t;
}

/// What the record's reference says.
inline graph::RefArray attention_expected(const heavy_test::Trial& t) {
    const graph::NodePtr n = t.node();
    n->run_args[0] = kAttentionSeed[0];
    n->run_args[1] = kAttentionSeed[1];
    std::vector<graph::RefArray> in;
    for (const auto& d : t.inputs)
        in.push_back(d.ref());
    return n->op->reference(*n, in);
}

}  // namespace pippin::gpu_test
