// From a case's op name and arguments to the call.
#include "torch/dispatch.h"

#include <stdexcept>

namespace pippin::test {
namespace {

using ReduceFunction = Tensor (*)(const Tensor&, const Dims&, bool, Site);
Function reduction(ReduceFunction f) {
    return one([f](const Call& c) {
        return f(c.tensor(0), c.dims("dims"), c.flag("keepdim", false), Site::current());
    });
}
using MomentFunction = Tensor (*)(const Tensor&, const Dims&, double, bool, Site);
Function moment(MomentFunction f) {
    return one([f](const Call& c) {
        return f(c.tensor(0), c.dims("dims"), c.real("correction", 1), c.flag("keepdim", false),
                 Site::current());
    });
}
using ArgFunction = Tensor (*)(const Tensor&, std::optional<std::int64_t>, bool, Site);
Function arg_reduction(ArgFunction f) {
    return one([f](const Call& c) {
        std::optional<std::int64_t> dim;
        if (c.has("dim")) dim = c.integer("dim", 0);
        return f(c.tensor(0), dim, c.flag("keepdim", false), Site::current());
    });
}
// A method that gives the handle's variable a new value; the input stays as it is.
template <class F>
Function in_place(F f) {
    return one([f](const Call& c) {
        Tensor y = reshape(c.tensor(0), c.tensor(0).shape());  // no leaf
        f(y, c);
        return y;
    });
}

Shape shape_of(const Call& c) { return Shape(c.dims("shape")); }

Tensor equal_to(bool b) { return scalar(b ? 1 : 0, boolean); }

Index index_item(const Json& j) {
    if (j.is_null()) return NewAxis;
    if (j.is_string()) return Ellipsis;
    if (j.is_number()) return j.get<std::int64_t>();
    const auto bound = [&](std::size_t i) -> std::optional<std::int64_t> {
        if (j[i].is_null()) return std::nullopt;
        return j[i].get<std::int64_t>();
    };
    return Slice(bound(0), bound(1), bound(2).value_or(1));
}

// Calls f({item, ...}): the functions take an initializer_list, whose length is part of the
// program.
template <class F>
auto with_index(const Json& at, F f) {
    std::vector<Index> i;
    for (const Json& j : at)
        i.push_back(index_item(j));
    switch (i.size()) {
        case 1:
            return f({i[0]});
        case 2:
            return f({i[0], i[1]});
        case 3:
            return f({i[0], i[1], i[2]});
        case 4:
            return f({i[0], i[1], i[2], i[3]});
        default:
            throw std::invalid_argument("an index has one to four items");
    }
}

Pool2dOptions pool_options(const Call& c) {
    const auto kernel = pair(c, "kernel", 1), stride = pair(c, "stride", 0),
               padding = pair(c, "padding", 0), dilation = pair(c, "dilation", 1);
    return {.kernel_h = kernel.h,
            .kernel_w = kernel.w,
            .stride_h = stride.h,
            .stride_w = stride.w,
            .pad_h = padding.h,
            .pad_w = padding.w,
            .dilation_h = dilation.h,
            .dilation_w = dilation.w,
            .ceil_mode = c.flag("ceil", false),
            .count_include_pad = c.flag("count_include_pad", true)};
}

Tensors batch_normalised(const Call& c) {
    const auto copy = [&](std::size_t i) {
        return c.optional_tensor(i).defined() ? c.tensor(i).detach() * 1 : Tensor{};
    };
    Tensors out{Tensor{}, copy(1), copy(2)};
    out[0] = batch_norm(c.tensor(0), out[1], out[2], c.optional_tensor(3), c.optional_tensor(4),
                        c.flag("training", false), c.real("momentum", 0.1), c.real("eps", 1e-5));
    if (!out[1].defined()) out.resize(1);
    return out;
}

// --- the table, by family ---

void add_creation(Table& t) {
    t["zeros"] = one([](const Call& c) { return zeros(shape_of(c), c.options()); });
    t["ones"] = one([](const Call& c) { return ones(shape_of(c), c.options()); });
    t["full"] =
        one([](const Call& c) { return full(shape_of(c), c.real("value", 0), c.options()); });
    t["zeros_like"] = one([](const Call& c) { return zeros_like(c.tensor(0)); });
    t["ones_like"] = one([](const Call& c) { return ones_like(c.tensor(0)); });
    t["full_like"] = one([](const Call& c) { return full_like(c.tensor(0), c.real("value", 0)); });
    t["arange"] = one([](const Call& c) {
        Options o = c.options();
        // What PyTorch reads off the kind of its numbers: 0.0 to 1.0 is floating point.
        if (!o.dtype && (c.args["start"].is_number_float() || c.args["end"].is_number_float()))
            o.dtype = float32;
        return arange(c.real("start", 0), c.real("end", 0), c.real("step", 1), o);
    });
    t["linspace"] = one([](const Call& c) {
        return linspace(c.real("start", 0), c.real("end", 0), c.integer("steps", 0), c.options());
    });
    t["eye"] = one([](const Call& c) { return eye(c.integer("n", 0), c.options()); });
    t["scalar"] = one([](const Call& c) { return scalar(c.real("value", 0), c.options()); });
    t["runtime_scalar"] =
        one([](const Call& c) { return runtime_scalar(c.real("value", 0), c.options()); });
}

void add_pointwise(Table& t) {
    t["add"] = binary([](const Operand& a, const Operand& b) { return a + b; });
    t["sub"] = binary([](const Operand& a, const Operand& b) { return a - b; });
    t["mul"] = binary([](const Operand& a, const Operand& b) { return a * b; });
    t["div"] = binary([](const Operand& a, const Operand& b) { return a / b; });
    t["eq"] = binary([](const Operand& a, const Operand& b) { return a == b; });
    t["ne"] = binary([](const Operand& a, const Operand& b) { return a != b; });
    t["lt"] = binary([](const Operand& a, const Operand& b) { return a < b; });
    t["le"] = binary([](const Operand& a, const Operand& b) { return a <= b; });
    t["gt"] = binary([](const Operand& a, const Operand& b) { return a > b; });
    t["ge"] = binary([](const Operand& a, const Operand& b) { return a >= b; });
    t["add_alpha"] =
        one([](const Call& c) { return add(c.operand(0), c.operand(1), c.real("alpha", 1)); });
    t["pow"] = binary([](const Operand& a, const Operand& b) { return pow(a, b); });
    t["remainder"] = binary(remainder);
    t["maximum"] = binary(maximum);
    t["minimum"] = binary(minimum);
    t["logical_and"] = binary(logical_and);
    t["logical_or"] = binary(logical_or);
    t["logical_xor"] = binary(logical_xor);
    t["logical_not"] = unary(logical_not);
    t["bitwise_and"] = binary(bitwise_and);
    t["bitwise_or"] = binary(bitwise_or);
    t["bitwise_xor"] = binary(bitwise_xor);
    t["where"] = one([](const Call& c) { return where(c.tensor(0), c.operand(1), c.operand(2)); });
    t["clamp"] = one([](const Call& c) {
        std::optional<double> low, high;
        if (c.has("low")) low = c.real("low", 0);
        if (c.has("high")) high = c.real("high", 0);
        return clamp(c.tensor(0), low, high);
    });
    using U = Tensor (*)(const Operand&);
    const std::pair<const char*, U> simple[] = {{"neg", neg},         {"abs", abs},
                                                {"sign", sign},       {"exp", exp},
                                                {"log", log},         {"sqrt", sqrt},
                                                {"rsqrt", rsqrt},     {"reciprocal", reciprocal},
                                                {"square", square},   {"sin", sin},
                                                {"cos", cos},         {"erf", erf},
                                                {"floor", floor},     {"ceil", ceil},
                                                {"round", round},     {"isnan", isnan},
                                                {"tanh", tanh},       {"isfinite", isfinite},
                                                {"sigmoid", sigmoid}, {"relu", relu},
                                                {"silu", silu}};
    for (const auto& [name, f] : simple)
        t[name] = unary(f);
    t["cast"] = one([](const Call& c) { return cast(c.tensor(0), *c.options().dtype); });
    t["leaky_relu"] =
        one([](const Call& c) { return leaky_relu(c.operand(0), c.real("negative_slope", 0.01)); });
    t["gelu"] = one(
        [](const Call& c) { return gelu(c.operand(0), c.has("kind") ? Gelu::Tanh : Gelu::Erf); });
    t["add_"] = in_place([](Tensor& y, const Call& c) { y += c.operand(1); });
    t["sub_"] = in_place([](Tensor& y, const Call& c) { y -= c.operand(1); });
    t["mul_"] = in_place([](Tensor& y, const Call& c) { y *= c.operand(1); });
    t["div_"] = in_place([](Tensor& y, const Call& c) { y /= c.operand(1); });
    t["assign_"] = in_place([](Tensor& y, const Call& c) { y.assign_(c.tensor(1)); });
    t["fill_"] = in_place([](Tensor& y, const Call& c) { y.fill_(number(c.numbers[1])); });
}

void add_shape(Table& t) {
    t["reshape"] = one([](const Call& c) { return reshape(c.tensor(0), shape_of(c)); });
    t["flatten"] = one([](const Call& c) {
        return flatten(c.tensor(0), c.integer("start", 0), c.integer("end", -1));
    });
    t["permute"] = one([](const Call& c) { return permute(c.tensor(0), c.dims("dims")); });
    t["transpose"] = one(
        [](const Call& c) { return transpose(c.tensor(0), c.integer("a", 0), c.integer("b", 0)); });
    t["t"] = one([](const Call& c) { return c.tensor(0).t(); });
    t["squeeze"] = one([](const Call& c) {
        return c.has("dim") ? squeeze(c.tensor(0), c.integer("dim", 0)) : squeeze(c.tensor(0));
    });
    t["unsqueeze"] = one([](const Call& c) { return unsqueeze(c.tensor(0), c.integer("dim", 0)); });
    t["expand"] = one([](const Call& c) { return expand(c.tensor(0), shape_of(c)); });
    t["flip"] = one([](const Call& c) { return flip(c.tensor(0), c.dims("dims")); });
    t["narrow"] = one([](const Call& c) {
        return narrow(c.tensor(0), c.integer("dim", 0), c.integer("start", 0),
                      c.integer("length", 0));
    });
    t["cat"] = one([](const Call& c) { return cat(c.tensors, c.integer("dim", 0)); });
    t["stack"] = one([](const Call& c) { return stack(c.tensors, c.integer("dim", 0)); });
    t["split"] = [](const Call& c) {
        return split(c.tensor(0), c.integer("size", 1), c.integer("dim", 0));
    };
    t["pad"] =
        one([](const Call& c) { return pad(c.tensor(0), c.dims("amounts"), c.real("value", 0)); });
    t["index"] = one([](const Call& c) {
        return with_index(c.args.at("at"),
                          [&](std::initializer_list<Index> i) { return c.tensor(0).index(i); });
    });
    t["index_put_"] = in_place([](Tensor& y, const Call& c) {
        with_index(c.args.at("at"),
                   [&](std::initializer_list<Index> i) { return y.index_put_(i, c.tensor(1)); });
    });
    t["select"] =
        one([](const Call& c) { return c.tensor(0)[c.numbers.at(1).get<std::int64_t>()]; });
}

void add_reduce(Table& t) {
    t["sum"] = reduction(sum);
    t["mean"] = reduction(mean);
    t["prod"] = reduction(prod);
    t["amax"] = reduction(amax);
    t["amin"] = reduction(amin);
    t["any"] = reduction(any);
    t["all"] = reduction(all);
    t["var"] = moment(var);
    t["std"] = moment(std);
    t["norm"] = one([](const Call& c) {
        return norm(c.tensor(0), c.real("p", 2), c.dims("dims"), c.flag("keepdim", false));
    });
    t["max"] = one([](const Call& c) { return c.tensor(0).max(); });
    t["min"] = one([](const Call& c) { return c.tensor(0).min(); });
    t["argmax"] = arg_reduction(argmax);
    t["argmin"] = arg_reduction(argmin);
    t["softmax"] = one([](const Call& c) { return softmax(c.tensor(0), c.integer("dim", 0)); });
    t["log_softmax"] =
        one([](const Call& c) { return log_softmax(c.tensor(0), c.integer("dim", 0)); });
    t["logsumexp"] = one([](const Call& c) {
        return logsumexp(c.tensor(0), c.integer("dim", 0), c.flag("keepdim", false));
    });
}

void add_heavy(Table& t) {
    t["matmul"] = one([](const Call& c) { return matmul(c.tensor(0), c.tensor(1)); });
    t["linear"] =
        one([](const Call& c) { return linear(c.tensor(0), c.tensor(1), c.optional_tensor(2)); });
    t["gather"] =
        one([](const Call& c) { return gather(c.tensor(0), c.integer("dim", 0), c.tensor(1)); });
    t["index_select"] = one(
        [](const Call& c) { return index_select(c.tensor(0), c.integer("dim", 0), c.tensor(1)); });
    t["embedding"] = one([](const Call& c) {
        return embedding(c.tensor(0), c.tensor(1), c.integer("padding_idx", -1));
    });
    t["one_hot"] = one([](const Call& c) { return one_hot(c.tensor(0), c.integer("classes", 0)); });
    t["equal"] = one([](const Call& c) { return equal_to(equal(c.tensor(0), c.tensor(1))); });
    t["allclose"] = one([](const Call& c) {
        return equal_to(
            allclose(c.tensor(0), c.tensor(1), c.real("rtol", 1e-5), c.real("atol", 1e-8)));
    });
    t["conv2d"] = one([](const Call& c) {
        const auto stride = pair(c, "stride", 1), padding = padding_numbers(c),
                   dilation = pair(c, "dilation", 1);
        return conv2d(c.tensor(0), c.tensor(1), c.optional_tensor(2),
                      {stride.h, stride.w, padding.h, padding.w, dilation.h, dilation.w,
                       c.integer("groups", 1), padding_name(c)});
    });
    t["max_pool2d"] = one([](const Call& c) { return max_pool2d(c.tensor(0), pool_options(c)); });
    t["avg_pool2d"] = one([](const Call& c) { return avg_pool2d(c.tensor(0), pool_options(c)); });
    t["adaptive_avg_pool2d"] = one([](const Call& c) {
        const auto size = pair(c, "size", 1);
        return adaptive_avg_pool2d(c.tensor(0), size.h, size.w);
    });
    t["batch_norm"] = batch_normalised;
    t["layer_norm"] = one([](const Call& c) {
        return layer_norm(c.tensor(0), shape_of(c), c.optional_tensor(1), c.optional_tensor(2),
                          c.real("eps", 1e-5));
    });
    t["dropout"] = one([](const Call& c) {
        return dropout(c.tensor(0), c.real("p", 0), c.flag("training", true));
    });
}

const Table& table() {
    static const Table t = [] {
        Table made;
        add_creation(made);
        add_pointwise(made);
        add_shape(made);
        add_reduce(made);
        add_heavy(made);
        add_activations(made);
        add_losses(made);
        add_attention(made);
        add_more_convolution(made);
        add_order(made);
        add_more_indexing(made);
        add_arranging(made);
        add_images_and_products(made);
        add_packed(made);
        return made;
    }();
    return t;
}

}  // namespace

Reduction loss_reduction(const Call& c) {
    const auto name = c.has("reduction") ? c.args["reduction"].get<std::string>() : "mean";
    if (name == "none") return Reduction::None;
    if (name == "sum") return Reduction::Sum;
    if (name == "mean") return Reduction::Mean;
    throw std::invalid_argument("no reduction " + name);
}

std::vector<Tensor> dispatch(const std::string& op, const Call& call) {
    const auto found = table().find(op);
    if (found == table().end())
        throw std::out_of_range("tests/torch/dispatch.cpp knows no op " + op);
    return found->second(call);
}

std::vector<std::string> dispatched_ops() {
    std::vector<std::string> names;
    for (const auto& [name, f] : table())
        names.push_back(name);
    return names;
}

}  // namespace pippin::test
