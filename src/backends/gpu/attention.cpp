// Attention and its gradient: which passes over scores they take.
#include "backends/gpu/attention.h"

#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "graph/ops/records_attention.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

namespace ops = graph::ops;

std::int64_t reach_of(const plan::Operand& o) {
    std::int64_t reach = 0;
    for (int d = 0; d < o.shape.rank(); ++d)
        reach += std::max<std::int64_t>(o.shape[d] - 1, 0) *
                 std::abs(o.strides[static_cast<std::size_t>(d)]);
    return reach;
}

// In products, unless the choice says otherwise or they do not fit.
bool in_products(Work& w, Step& s, const plan::HeavyLaunch& launch, const AttentionShape& a,
                 const Features& f) {
    s.taken.algorithm = Algorithm::Scores;
    if (s.choice.algorithm != Algorithm::OnePass && write_attention_products(w, s, launch, a, f))
        return true;
    s.taken.algorithm = Algorithm::OnePass;
    return false;
}

}  // namespace

AttentionShape::AttentionShape(const plan::HeavyLaunch& launch)
    : attrs(ops::attention_attrs(launch.attrs)),
      q(launch.operands[0]),
      k(launch.operands[1]),
      v(launch.operands[2]),
      b(q.shape[0]),
      h(q.shape[1]),
      l(q.shape[2]),
      e(q.shape[3]),
      s(k.shape[2]),
      ev(v.shape[3]) {
    for (const auto* o : {&q, &k, &v})
        check_operand(*o);
    check_operand(launch.output);
    std::size_t next = 3;
    has_mask = ops::has_mask(launch.attrs);
    has_dropout = ops::has_dropout(launch.attrs);
    if (has_mask) {
        mask = launch.operands[next++];
        if (reach_of(mask) >= (std::int64_t{1} << 31) - 4096)
            throw Error("its mask is too large for 32-bit indices");
    }
    if (has_dropout) seed = launch.operands[next++];
    if (launch.op == &ops::kAttentionGrad) {
        dy = launch.operands[next];  // it comes as [B, L, H, Ev]
        check_operand(dy);
        std::swap(dy.shape[1], dy.shape[2]);
        std::swap(dy.strides[1], dy.strides[2]);
    }
}

void write_attention(Work& w, Step& s, const plan::HeavyLaunch& launch, const Features& f) {
    const AttentionShape a(launch);
    if (launch.output.shape.numel() == 0 || in_products(w, s, launch, a, f)) return;
    write_attention_pass(w, s, a, AttentionPass::Forward, operand_arg(launch.output),
                         launch.output.dtype, f);
}

void write_attention_grad(Work& w, Step& s, const plan::HeavyLaunch& launch, const Features& f) {
    const AttentionShape a(launch);
    if (in_products(w, s, launch, a, f)) return;
    const auto size = static_cast<std::int64_t>(size_of(launch.output.dtype));
    w.scratch_bytes = std::max(w.scratch_bytes, 12 * a.heads() * a.l);
    if (a.heads() * a.l > 0)
        write_attention_pass(w, s, a, AttentionPass::Statistics, value_arg(0), DType::Float32, f);
    Arg to = operand_arg(launch.output);
    const auto part = [&](AttentionPass pass, std::int64_t elements) {
        if (elements > 0) write_attention_pass(w, s, a, pass, to, launch.output.dtype, f);
        to.value += elements * size;
    };
    part(AttentionPass::GradQuery, a.heads() * a.l * a.e);
    part(AttentionPass::GradKey, a.heads() * a.s * a.e);
    part(AttentionPass::GradValue, a.heads() * a.s * a.ev);
}

}  // namespace pippin::gpu
