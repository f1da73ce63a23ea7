// What the graph's tests share: leaves with values, the backward walk, comparing arrays.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_set>

#include "gradient_cases.h"
#include "graph/build.h"
#include "graph/ops/records.h"
#include "graph/reference.h"

namespace pippin::graph {

inline const Device kCpu{Device::Type::CPU};

inline NodePtr leaf(const Shape& shape, DType dtype = DType::Float64) {
    return make_leaf(nullptr, dtype, shape, kCpu);
}

/// A graph's leaves with their values.
struct World {
    LeafValues values;

    NodePtr make(const Shape& shape, const std::vector<double>& data,
                 DType dtype = DType::Float64) {
        const NodePtr n = leaf(shape, dtype);
        values[n.get()] = {shape, data};
        return n;
    }
    NodePtr row(const std::vector<double>& data, DType dtype = DType::Float64) {
        return make({static_cast<std::int64_t>(data.size())}, data, dtype);
    }
    std::vector<double> operator()(const NodePtr& n) const {
        return evaluate_reference(n, values).data;
    }
};

/// Every node of a graph, inputs before their users.
inline std::vector<NodePtr> in_order(const NodePtr& root) {
    std::vector<NodePtr> order;
    std::unordered_set<const Node*> seen;
    std::vector<std::pair<NodePtr, std::size_t>> stack{{root, 0}};
    seen.insert(root.get());
    while (!stack.empty()) {
        auto& [n, next] = stack.back();
        if (next == n->inputs.size()) {
            order.push_back(n);
            stack.pop_back();
            continue;
        }
        const NodePtr in = n->inputs[next++];
        if (seen.insert(in.get()).second) stack.emplace_back(in, 0);
    }
    return order;
}

/// d(sum(root * dy))/d(wrt), null where there is none. Marks the graph's requires_grad anew.
inline std::vector<NodePtr> gradients(const NodePtr& root, const NodePtr& dy,
                                      const std::vector<NodePtr>& wrt) {
    const std::vector<NodePtr> order = in_order(root);
    for (const NodePtr& n : order) {
        n->requires_grad = std::find(wrt.begin(), wrt.end(), n) != wrt.end();
        if (!n->op->gradient || !is_floating(n->dtype)) continue;
        for (const NodePtr& in : n->inputs)
            n->requires_grad |= in->requires_grad;
    }
    std::unordered_map<const Node*, NodePtr> sums{{root.get(), dy}};
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
        const NodePtr& n = *it;
        if (!n->requires_grad || n->inputs.empty() || !sums.contains(n.get())) continue;
        const Inputs parts = n->op->gradient(n, sums[n.get()]);
        EXPECT_EQ(parts.size(), n->inputs.size()) << n->op->name;
        for (std::size_t k = 0; k < parts.size(); ++k) {
            const NodePtr& in = n->inputs[k];
            if (!parts[k] || !in->requires_grad) continue;
            EXPECT_EQ(parts[k]->shape.str(), in->shape.str()) << n->op->name << " input " << k;
            EXPECT_EQ(parts[k]->dtype, in->dtype) << n->op->name << " input " << k;
            NodePtr& sum = sums[in.get()];
            sum = sum ? add(sum, parts[k]) : parts[k];
        }
    }
    std::vector<NodePtr> out;
    for (const NodePtr& n : wrt) {
        const auto found = sums.find(n.get());
        out.push_back(found == sums.end() || !n->requires_grad ? nullptr : found->second);
    }
    return out;
}

inline std::vector<double> draw(const CaseInput& in, std::mt19937_64& rng) {
    std::vector<double> data(static_cast<std::size_t>(in.shape.numel()));
    for (double& v : data) {
        v = std::uniform_real_distribution<double>(in.low, in.high)(rng);
        if (in.index) v = std::floor(v);
    }
    return data;
}

inline void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                         double tolerance = 1e-12) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
        if (std::isnan(want[k]) ? std::isnan(got[k]) : got[k] == want[k]) continue;
        EXPECT_NEAR(got[k], want[k], tolerance * (1 + std::fabs(want[k]))) << "element " << k;
    }
}

}  // namespace pippin::graph
