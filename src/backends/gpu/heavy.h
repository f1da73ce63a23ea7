// Kernels of heavy launches, one file a family. A family throws Error for a launch that it cannot
// do.
#pragma once

#include "backends/gpu/work.h"

namespace pippin::gpu {

void write_matmul(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_conv2d(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_conv2d_grad_input(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_conv2d_grad_weight(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_pool(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_attention(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_attention_grad(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_index(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_argsort(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);
void write_cumsum(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);

}  // namespace pippin::gpu
