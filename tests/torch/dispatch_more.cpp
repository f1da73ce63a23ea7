// Transposed and one-dimensional convolution, sorting, indexing, arranging, images, einsum.
#include "pippin/ops_conv.h"
#include "pippin/ops_image.h"
#include "pippin/ops_index.h"
#include "pippin/ops_linalg.h"
#include "pippin/ops_shape.h"
#include "torch/dispatch.h"

namespace pippin::test {

namespace {

using Tensors = std::vector<Tensor>;

Tensors both(const ValuesIndices& r) { return {r.values, r.indices}; }

Pool1dOptions line_options(const Call& c) {
    return {.kernel = c.integer("kernel", 1),
            .stride = c.integer("stride", 0),
            .pad = c.integer("padding", 0),
            .dilation = c.integer("dilation", 1),
            .ceil_mode = c.flag("ceil", false),
            .count_include_pad = c.flag("count_include_pad", true)};
}

WindowOptions window_options(const Call& c) {
    const auto kernel = pair(c, "kernel", 1), stride = pair(c, "stride", 1),
               padding = pair(c, "padding", 0), dilation = pair(c, "dilation", 1);
    return {kernel.h, kernel.w, stride.h, stride.w, padding.h, padding.w, dilation.h, dilation.w};
}

std::optional<std::int64_t> optional_dim(const Call& c) {
    if (!c.has("dim")) return std::nullopt;
    return c.integer("dim", 0);
}

PadMode pad_mode(const Call& c) {
    const auto name = c.args.at("mode").get<std::string>();
    if (name == "reflect") return PadMode::Reflect;
    if (name == "replicate") return PadMode::Replicate;
    if (name == "circular") return PadMode::Circular;
    throw std::invalid_argument("no pad mode " + name);
}

InterpolateOptions interpolate_options(const Call& c) {
    InterpolateOptions o;
    o.size = c.dims("size");
    if (c.has("scale")) o.scale = c.args["scale"].get<std::vector<double>>();
    const auto mode = c.args.at("mode").get<std::string>();
    o.mode = mode == "nearest"         ? Interpolation::Nearest
             : mode == "nearest-exact" ? Interpolation::NearestExact
                                       : Interpolation::Linear;
    o.align_corners = c.flag("align_corners", false);
    return o;
}

}  // namespace

void add_more_convolution(Table& t) {
    t["conv_transpose2d"] = one([](const Call& c) {
        const auto stride = pair(c, "stride", 1), padding = pair(c, "padding", 0),
                   dilation = pair(c, "dilation", 1), extra = pair(c, "output_padding", 0);
        return conv_transpose2d(c.tensor(0), c.tensor(1), c.optional_tensor(2),
                                {stride.h, stride.w, padding.h, padding.w, extra.h, extra.w,
                                 dilation.h, dilation.w, c.integer("groups", 1)});
    });
    t["conv1d"] = one([](const Call& c) {
        return conv1d(c.tensor(0), c.tensor(1), c.optional_tensor(2),
                      {c.integer("stride", 1), padding_numbers(c).w, c.integer("dilation", 1),
                       c.integer("groups", 1), padding_name(c)});
    });
    t["conv_transpose1d"] = one([](const Call& c) {
        return conv_transpose1d(
            c.tensor(0), c.tensor(1), c.optional_tensor(2),
            {c.integer("stride", 1), c.integer("padding", 0), c.integer("output_padding", 0),
             c.integer("dilation", 1), c.integer("groups", 1)});
    });
    t["max_pool1d"] = one([](const Call& c) { return max_pool1d(c.tensor(0), line_options(c)); });
    t["avg_pool1d"] = one([](const Call& c) { return avg_pool1d(c.tensor(0), line_options(c)); });
    t["adaptive_avg_pool1d"] =
        one([](const Call& c) { return adaptive_avg_pool1d(c.tensor(0), c.integer("size", 1)); });
    t["adaptive_max_pool1d"] =
        one([](const Call& c) { return adaptive_max_pool1d(c.tensor(0), c.integer("size", 1)); });
    t["adaptive_max_pool2d"] = one([](const Call& c) {
        const auto size = pair(c, "size", 1);
        return adaptive_max_pool2d(c.tensor(0), size.h, size.w);
    });
}

void add_order(Table& t) {
    t["sort"] = [](const Call& c) {
        return both(sort(c.tensor(0), c.integer("dim", -1), c.flag("descending", false)));
    };
    t["argsort"] = one([](const Call& c) {
        return argsort(c.tensor(0), c.integer("dim", -1), c.flag("descending", false));
    });
    t["topk"] = [](const Call& c) {
        return both(
            topk(c.tensor(0), c.integer("k", 1), c.integer("dim", -1), c.flag("largest", true)));
    };
    t["kthvalue"] = [](const Call& c) {
        return both(kthvalue(c.tensor(0), c.integer("k", 1), c.integer("dim", -1),
                             c.flag("keepdim", false)));
    };
    t["median"] = [](const Call& c) {
        if (!c.has("dim")) return Tensors{median(c.tensor(0))};
        return both(median(c.tensor(0), c.integer("dim", 0), c.flag("keepdim", false)));
    };
    t["max_dim"] = [](const Call& c) {
        return both(max(c.tensor(0), c.integer("dim", 0), c.flag("keepdim", false)));
    };
    t["min_dim"] = [](const Call& c) {
        return both(min(c.tensor(0), c.integer("dim", 0), c.flag("keepdim", false)));
    };
    t["cumprod"] = one([](const Call& c) { return cumprod(c.tensor(0), c.integer("dim", 0)); });
    t["cumsum"] = one([](const Call& c) { return cumsum(c.tensor(0), c.integer("dim", 0)); });
}

void add_more_indexing(Table& t) {
    t["take_along_dim"] = one([](const Call& c) {
        return take_along_dim(c.tensor(0), c.tensor(1), c.integer("dim", 0));
    });
    t["scatter"] = one([](const Call& c) {
        if (c.has("value"))
            return scatter(c.tensor(0), c.integer("dim", 0), c.tensor(1), c.real("value", 0));
        return scatter(c.tensor(0), c.integer("dim", 0), c.tensor(1), c.tensor(2));
    });
    t["scatter_add"] = one([](const Call& c) {
        return scatter_add(c.tensor(0), c.integer("dim", 0), c.tensor(1), c.tensor(2));
    });
    t["index_add"] = one([](const Call& c) {
        return index_add(c.tensor(0), c.integer("dim", 0), c.tensor(1), c.tensor(2),
                         c.real("alpha", 1));
    });
    t["index_copy"] = one([](const Call& c) {
        return index_copy(c.tensor(0), c.integer("dim", 0), c.tensor(1), c.tensor(2));
    });
    t["index_fill"] = one([](const Call& c) {
        return index_fill(c.tensor(0), c.integer("dim", 0), c.tensor(1), c.real("value", 0));
    });
    t["masked_fill"] = one(
        [](const Call& c) { return masked_fill(c.tensor(0), c.tensor(1), c.real("value", 0)); });
}

void add_arranging(Table& t) {
    t["tril"] = one([](const Call& c) { return tril(c.tensor(0), c.integer("diagonal", 0)); });
    t["triu"] = one([](const Call& c) { return triu(c.tensor(0), c.integer("diagonal", 0)); });
    t["diagonal"] = one([](const Call& c) {
        return diagonal(c.tensor(0), c.integer("offset", 0), c.integer("a", 0), c.integer("b", 1));
    });
    t["diag"] = one([](const Call& c) { return diag(c.tensor(0), c.integer("offset", 0)); });
    t["roll"] =
        one([](const Call& c) { return roll(c.tensor(0), c.dims("shifts"), c.dims("dims")); });
    t["movedim"] = one([](const Call& c) {
        return movedim(c.tensor(0), c.integer("source", 0), c.integer("to", 0));
    });
    t["repeat"] = one([](const Call& c) { return repeat(c.tensor(0), c.dims("counts")); });
    t["tile"] = one([](const Call& c) { return tile(c.tensor(0), c.dims("counts")); });
    t["repeat_interleave"] = one([](const Call& c) {
        return repeat_interleave(c.tensor(0), c.integer("count", 1), optional_dim(c));
    });
    t["meshgrid"] = [](const Call& c) {
        return meshgrid(c.tensors, c.flag("xy", false) ? Indexing::XY : Indexing::IJ);
    };
    t["split_with_sizes"] = [](const Call& c) {
        return split_with_sizes(c.tensor(0), c.dims("sizes"), c.integer("dim", 0));
    };
    t["chunk"] = [](const Call& c) {
        return chunk(c.tensor(0), c.integer("chunks", 1), c.integer("dim", 0));
    };
    t["unbind"] = [](const Call& c) { return unbind(c.tensor(0), c.integer("dim", 0)); };
    t["pad_mode"] =
        one([](const Call& c) { return pad(c.tensor(0), c.dims("amounts"), pad_mode(c)); });
}

void add_images_and_products(Table& t) {
    t["unfold"] = one([](const Call& c) { return unfold(c.tensor(0), window_options(c)); });
    t["fold"] = one([](const Call& c) {
        const auto size = pair(c, "size", 1);
        return fold(c.tensor(0), size.h, size.w, window_options(c));
    });
    t["interpolate"] =
        one([](const Call& c) { return interpolate(c.tensor(0), interpolate_options(c)); });
    t["einsum"] = one(
        [](const Call& c) { return einsum(c.args.at("equation").get<std::string>(), c.tensors); });
    t["outer"] = one([](const Call& c) { return outer(c.tensor(0), c.tensor(1)); });
    t["bmm"] = one([](const Call& c) { return bmm(c.tensor(0), c.tensor(1)); });
}

}  // namespace pippin::test
