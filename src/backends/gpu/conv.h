// What the convolutions' kernels share: sizes, and text for places in a map.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backends/gpu/gemm.h"
#include "graph/ops/records.h"

namespace pippin::gpu {

struct ConvGeometry {
    std::int64_t n, ci, h, w, co, oh, ow, kh, kw, groups, cig, cog;
    std::int64_t stride[2], pad[2], dilation[2];

    ConvGeometry(const plan::HeavyLaunch& l, const plan::Operand& x, const Shape& weight,
                 const plan::Operand& y)
        : n(x.shape[0]),
          ci(x.shape[1]),
          h(x.shape[2]),
          w(x.shape[3]),
          co(y.shape[1]),
          oh(y.shape[2]),
          ow(y.shape[3]),
          kh(weight[2]),
          kw(weight[3]) {
        const graph::ConvAttrs a = graph::ops::conv_attrs(l.attrs);
        groups = a.groups;
        cig = ci / groups;
        cog = co / groups;
        for (int d = 0; d < 2; ++d) {
            stride[d] = a.stride[d];
            pad[d] = a.pad[d];
            dilation[d] = a.dilation[d];
        }
    }
    bool depthwise() const { return groups > 1 && cig == 1; }
};

std::string map_index(const plan::Operand& o, const std::string& n, const std::string& c,
                      const std::string& h, const std::string& w);
/// Input row (d = 0) or column of an output row under a window's row.
std::string input_at(const ConvGeometry& g, int d, const std::string& out, const std::string& tap);
/// Statements that cut an index into parts, the last one running fastest.
std::string cut(const std::string& from,
                const std::vector<std::pair<std::string, std::int64_t>>& parts);
/// Channel `name` of group b.
std::string in_group(const ConvGeometry& g, const char* name, std::int64_t channels);
void set_epilogue_args(Gemm& gemm, const plan::HeavyLaunch& l);
std::string residual_index(const plan::HeavyLaunch& l, const std::vector<std::string>& c);
/// store_c, store_c4 and store_c8 into a map whose pixel is m; `pixel` cuts m.
void store_map(Gemm& gemm, const plan::HeavyLaunch& l, const std::string& pixel,
               const std::vector<std::string>& at, std::int64_t channels);

/// Statements by which a group's `threads` threads bring `count` values to shared memory, at most
/// `together` loads of a thread being on their way at once. Of int e: `prepare` are statements,
/// `value` a load that is done where `ok` holds (0 elsewhere), and `put(x)` a statement that stores
/// variable x.
std::string fill_shared(std::int64_t count, int threads, int together, const std::string& prepare,
                        const std::string& ok, const std::string& value,
                        const std::function<std::string(const std::string& x)>& put);
/// Quads (octets) of channels of a map, none of which belongs to two groups.
bool quads_in_groups(const plan::Operand& o, std::int64_t channels);
bool octets_in_groups(const plan::Operand& o, std::int64_t channels);

/// Weights packed in scratch memory from 0 on, [group][n][kh][kw][c] with n the output's channel
/// (of the forward pass) or the input's, as floats or, for matrix units, float16.
struct PackedWeights {
    std::int64_t n, taps, c;
    DType dtype;

    /// load_b of them: `index` gives an element's place, of b, n and k.
    void add_loads(Gemm& gemm, const std::string& body, const std::string& index) const;
    std::int64_t bytes(const ConvGeometry& g) const;
};

/// Of an input gradient as a product, how dy lies and what its weights are to be packed as.
PackedWeights set_input_gradient(Gemm& gemm, const plan::HeavyLaunch& l, const ConvGeometry& g,
                                 const Features& f);
/// The product with weights that are packed before it.
void write_packed_product(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                          bool forward, const PackedWeights& weights, Gemm& gemm,
                          const Features& f);

/// The gradient of what a convolution with strides was of; false where it is not for it.
bool write_grad_input_strided(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                              const Features& f);

/// A convolution of a few channels (or its input gradient), directly; false where it is not for it.
bool write_conv_direct(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                       bool forward, const Features& f);

/// A convolution of 3 x 3 windows with many channels (or its gradients) by Winograd's algorithm;
/// false where it is not for it.
bool write_conv_winograd(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                         bool forward, const Features& f);
bool write_grad_weight_winograd(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                                const Features& f);

}  // namespace pippin::gpu
