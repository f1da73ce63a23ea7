// attention_grad, which gradient rules emit only where nobody differentiates them again.
#include "graph/build_attention.h"
#include "graph_testing.h"

namespace pippin::graph {
namespace {

struct Case {
    const char* name;
    bool causal, masked;
    double dropout;
};
constexpr Case kCases[] = {{"plain", false, false, 0},       {"causal", true, false, 0},
                           {"masked", false, true, 0},       {"dropout", false, false, 0.4},
                           {"all dropped", false, false, 1}, {"masked dropout", false, true, 0.3}};

// Its reference against the gradient in primitive ops, and attention's against the composition.
TEST(Attention, ReferencesEqualTheComposition) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        std::mt19937_64 rng(7);
        World world;
        const auto make = [&](const Shape& s) { return world.make(s, draw({s}, rng)); };
        AttentionInputs in{
            make({2, 2, 3, 2}), make({2, 2, 4, 2}), make({2, 2, 4, 3}), nullptr, nullptr, {5, 11}};
        if (c.masked)
            in.mask = world.make({2, 1, 3, 4}, {1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1,  //
                                                0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1},
                                 DType::Bool);
        if (c.dropout > 0) in.seed = world.row({5, 11}, DType::Int64);
        const AttentionAttrs a{0.6, c.dropout, c.causal};
        const NodePtr y = attention(in, a), composed = composed_attention(in, a);
        expect_close(world(permute(y, {0, 2, 1, 3})), world(composed));

        const NodePtr dy = make(y->shape);
        const auto want = gradients(composed, permute(dy, {0, 2, 1, 3}), {in.q, in.k, in.v});
        const auto again = gradients(y, dy, {in.q, in.k, in.v});
        std::vector<double> flat;
        for (std::size_t i = 0; i < 3; ++i) {
            expect_close(world(again[i]), world(want[i]));
            const auto part = world(permute(want[i], {0, 2, 1, 3}));
            flat.insert(flat.end(), part.begin(), part.end());
        }
        expect_close(world(attention_grad(in, dy, a)), flat);

        grad_mode() = false;
        const auto heavy = gradients(y, dy, {in.q, in.k, in.v});
        grad_mode() = true;
        for (std::size_t i = 0; i < 3; ++i)
            expect_close(world(heavy[i]), world(want[i]));
    }
}

TEST(Attention, RefusesWhatDoesNotFit) {
    World world;
    const auto make = [&](const Shape& s) {
        return world.make(s, std::vector<double>(static_cast<std::size_t>(s.numel())));
    };
    const NodePtr q = make({1, 1, 2, 3});
    const auto refused = [&](const NodePtr& k, const NodePtr& v, const NodePtr& mask) {
        EXPECT_THROW(attention({q, k, v, mask, nullptr, {0, 0}}, {}), Error);
    };
    refused(make({1, 1, 2, 2}), q, nullptr);
    refused(q, make({1, 1, 4, 3}), nullptr);
    refused(make({1, 2, 2, 3}), q, nullptr);
    refused(make({1, 2, 3}), q, nullptr);
    refused(q, q, make({1, 1, 3, 2}));
    refused(q, q, make({2, 2}));
}

}  // namespace
}  // namespace pippin::graph
