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

}  // namespace pippin::test
