// What the dispatch tables are written with. A family of ops has one dispatch_*.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "pippin/nn.h"
#include "torch/fixture.h"

namespace pippin::test {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Call&)>;

using Table = std::map<std::string, Function>;

template <class F>
Function unary(F f) {
    return [f](const Call& c) { return Tensors{f(c.operand(0))}; };
}
template <class F>
Function binary(F f) {
    return [f](const Call& c) { return Tensors{f(c.operand(0), c.operand(1))}; };
}
// A call that gives one tensor.
template <class F>
Function one(F f) {
    return [f](const Call& c) { return Tensors{f(c)}; };
}
// One number or two.
inline nn::Pair pair(const Call& c, const char* name, std::int64_t otherwise) {
    if (!c.has(name)) return otherwise;
    const Json& j = c.args[name];
    if (j.is_number()) return j.get<std::int64_t>();
    return {j[0].get<std::int64_t>(), j[1].get<std::int64_t>()};
}

/// A convolution's padding: numbers, or a name that lives as long as the call.
inline nn::Pair padding_numbers(const Call& c) {
    return c.has("padding") && c.args["padding"].is_string() ? 0 : pair(c, "padding", 0);
}
inline std::string_view padding_name(const Call& c) {
    if (!c.has("padding") || !c.args["padding"].is_string()) return {};
    return c.args["padding"].get_ref<const std::string&>();
}

Reduction loss_reduction(const Call& c);

// The families that have files of their own.
void add_activations(Table& t);
void add_losses(Table& t);
void add_attention(Table& t);
void add_more_convolution(Table& t);
void add_order(Table& t);
void add_more_indexing(Table& t);
void add_arranging(Table& t);
void add_images_and_products(Table& t);
void add_packed(Table& t);

}  // namespace pippin::test
