// Every op record is whole.
#include <set>
#include <string>

#include "graph_testing.h"

namespace pippin::graph {
namespace {

// Ops without a gradient rule, and why.
const std::unordered_map<std::string, const char*> kNoGradient = {
    {"leaf", "has no inputs"},
    {"full", "has no inputs"},
    {"iota", "has no inputs"},
    {"run_scalar", "has no inputs"},
    {"random_uniform", "has no inputs"},
    {"random_bits", "has no inputs"},
    {"detach", "stops gradients by its meaning"},
    {"logical_not", "gives bool"},
    {"isnan", "gives bool"},
    {"isfinite", "gives bool"},
    {"eq", "gives bool"},
    {"ne", "gives bool"},
    {"lt", "gives bool"},
    {"le", "gives bool"},
    {"bit_and", "takes integers"},
    {"bit_or", "takes integers"},
    {"bit_xor", "takes integers"},
    {"argmax", "gives integers"},
    {"argmin", "gives integers"},
    {"argsort", "gives integers"},
    {"attention_grad", "comes in primitive ops where it is differentiated"},
    {"check_index", "takes integers"},
};

TEST(Registry, EveryRecordIsWhole) {
    std::set<std::string> names;
    for (const OpRecord* op : registry()) {
        ASSERT_TRUE(op && op->name);
        SCOPED_TRACE(op->name);
        EXPECT_TRUE(names.insert(op->name).second) << "two records have this name";
        EXPECT_TRUE(op->infer);
        EXPECT_TRUE(op->reference);
        EXPECT_EQ(op->gradient == nullptr, kNoGradient.contains(op->name));
        EXPECT_EQ(op->decompose != nullptr, op->kind == Kind::Composite);
        EXPECT_EQ(op->opcode >= 0, op->kind == Kind::Elementwise);
    }
    for (const auto& [name, why] : kNoGradient)
        EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Registry, EveryGradientRuleHasACase) {
    std::set<const OpRecord*> seen;
    for (const GradientCase& c : gradient_cases()) {
        std::vector<NodePtr> leaves;
        for (const CaseInput& in : c.inputs)
            leaves.push_back(leaf(in.shape, in.index ? DType::Int64 : DType::Float64));
        for (const NodePtr& n : in_order(c.build(leaves)))
            seen.insert(n->op);
    }
    for (const OpRecord* op : registry())
        if (op->gradient) {
            EXPECT_TRUE(seen.contains(op)) << op->name;
        }
}

// A composite's decomposition computes what its own reference says, in primitive ops alone.
TEST(Registry, DecompositionsEqualTheirReferences) {
    std::set<const OpRecord*> seen;
    for (const GradientCase& c : gradient_cases())
        for (const DType dtype : {DType::Float64, DType::BFloat16}) {
            SCOPED_TRACE(std::string(c.name) + " " + std::string(name_of(dtype)));
            std::mt19937_64 rng(3);
            World world;
            std::vector<NodePtr> leaves;
            for (const CaseInput& in : c.inputs)
                leaves.push_back(
                    world.make(in.shape, draw(in, rng), in.index ? DType::Int64 : dtype));
            for (const NodePtr& n : in_order(c.build(leaves))) {
                if (n->op->kind != Kind::Composite) continue;
                seen.insert(n->op);
                const NodePtr primitive = n->op->decompose(*n);
                EXPECT_EQ(primitive->shape.str(), n->shape.str());
                EXPECT_EQ(primitive->dtype, n->dtype);
                for (const NodePtr& p : in_order(primitive))
                    EXPECT_NE(p->op->kind, Kind::Composite) << p->op->name;
                expect_close(world(primitive), world(n), is_half(dtype) ? 0.01 : 1e-12);
            }
        }
    for (const OpRecord* op : registry())
        if (op->decompose) {
            EXPECT_TRUE(seen.contains(op)) << op->name;
        }
}

}  // namespace
}  // namespace pippin::graph
