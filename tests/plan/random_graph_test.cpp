// Random graphs of random ops, run as one fused plan and through the fp64 references, agree. The
// smallest failing graph is printed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "graph/build.h"
#include "graph/reference.h"
#include "pippin/pippin.h"
#include "tensor/variable.h"

namespace pippin {
namespace {

namespace g = graph;
using graph::NodePtr;
using graph::RefArray;

// A graph as a list of choices, so that it can be rebuilt with some of them left out.
struct Recipe {
    std::uint32_t seed = 0;
    int ops = 0;
};

struct Built {
    std::vector<NodePtr> nodes;
    g::LeafValues leaves;
    std::vector<Tensor> targets;
    std::string text;
};

class Generator {
  public:
    Generator(const Recipe& r, DType dtype) : random_(r.seed), ops_(r.ops), dtype_(dtype) {}

    Built build() {
        const Shape shapes[] = {{2, 3, 4, 5}, {1, 6, 2, 2}, {7, 5},      {4, 1, 3},
                                {6},          {},           {3, 8, 1, 2}};
        const Shape base = shapes[pick(7)];
        for (int i = 0; i < 3; ++i)
            leaf(i == 2 ? narrowed(base) : base);
        for (int i = 0; i < ops_; ++i)
            step();
        // Targets: the last node and one or two others.
        Built out = std::move(b_);
        const int extra = pick(3);
        out.targets.push_back(wrap(out.nodes.back()));
        for (int i = 0; i < extra; ++i)
            out.targets.push_back(wrap(out.nodes[index(out.nodes.size())]));
        return out;
    }

  private:
    int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    std::size_t index(std::size_t n) { return random_() % n; }
    NodePtr any() { return b_.nodes[index(b_.nodes.size())]; }

    Shape narrowed(Shape s) {
        for (auto& e : s)
            if (pick(2)) e = 1;
        return s;
    }

    void leaf(const Shape& s) {
        std::vector<double> v(static_cast<std::size_t>(s.numel()));
        for (auto& x : v)
            x = static_cast<float>(static_cast<int>(random_() % 4001) - 2000) / 1000.0f;
        const Tensor t = cast(tensor(v, s), dtype_).eval();
        b_.leaves[node_of(t).get()] = {s, t.to_vector<double>()};
        note(node_of(t), "leaf");
    }

    void note(const NodePtr& n, const std::string& how) {
        std::ostringstream line;
        line << "  n" << b_.nodes.size() << " = " << how << " -> " << n->shape.str() << " "
             << name_of(n->dtype) << "\n";
        b_.text += line.str();
        b_.nodes.push_back(n);
    }

    static bool broadcastable(const Shape& a, const Shape& b) {
        try {
            return broadcast_shapes(a, b).numel() <= 2000;
        } catch (const ValueError&) {
            return false;
        }
    }

    std::string name(const NodePtr& n) const {
        for (std::size_t i = 0; i < b_.nodes.size(); ++i)
            if (b_.nodes[i] == n) return "n" + std::to_string(i);
        return "?";
    }

    void step() {
        const NodePtr a = any();
        const int rank = a->shape.rank();
        switch (pick(15)) {
            case 0:
                return note(g::tanh(a), "tanh " + name(a));
            case 1:
                return note(g::relu(a), "relu " + name(a));
            case 2:
                return note(g::mul_scalar(a, 0.5), "half " + name(a));
            case 3:
                return note(g::sigmoid(a), "sigmoid " + name(a));
            case 4:
            case 5:
            case 6:
            case 7: {
                const NodePtr b = any();
                if (!broadcastable(a->shape, b->shape)) return note(g::neg(a), "neg " + name(a));
                const Shape s = broadcast_shapes(a->shape, b->shape);
                const NodePtr x = g::expand_to(a, s), y = g::expand_to(b, s);
                const int which = pick(5);
                const char* names[] = {"add", "sub", "mul", "maximum", "select"};
                const NodePtr n = which == 0   ? g::add(x, y)
                                  : which == 1 ? g::sub(x, y)
                                  : which == 2 ? g::mul(x, g::tanh(y))
                                  : which == 3 ? g::maximum(x, y)
                                               : g::select(g::lt(x, y), x, g::mul_scalar(y, 0.25));
                return note(n, std::string(names[which]) + " " + name(a) + " " + name(b));
            }
            case 8:
            case 9: {
                g::IntList dims;
                for (int d = 0; d < rank; ++d)
                    if (pick(2)) dims.push_back(d);
                const int which = pick(4);
                const char* names[] = {"sum", "max", "min", "m2"};
                NodePtr n = which == 0   ? g::reduce_sum(a, dims)
                            : which == 1 ? g::reduce_max(a, dims)
                            : which == 2 ? g::reduce_min(a, dims)
                                         : g::reduce_m2(a, dims);
                n = g::tanh(g::mul_scalar(n, 0.1));  // keeps values small
                std::string text = names[which] + std::string(" {");
                for (auto d : dims)
                    text += std::to_string(d) + " ";
                return note(n, text + "} " + name(a));
            }
            case 10: {
                if (rank < 2) return note(g::exp(g::neg(g::abs(a))), "exp -abs " + name(a));
                g::IntList dims;
                for (int d = 0; d < rank; ++d)
                    dims.push_back((d + 1) % rank);
                return note(g::permute(a, dims), "permute " + name(a));
            }
            case 11: {
                if (rank == 0) return note(g::reshape(a, {1, 1}), "reshape " + name(a));
                g::IntList start, stop, step;
                for (int d = 0; d < rank; ++d) {
                    start.push_back(a->shape[d] > 2 ? 1 : 0);
                    stop.push_back(a->shape[d]);
                    step.push_back(1 + pick(2));
                }
                return note(g::slice(a, start, stop, step), "slice " + name(a));
            }
            case 12:
                return note(g::reshape(a, {a->shape.numel()}), "flatten " + name(a));
            case 13: {
                if (rank == 0 || a->shape.numel() > 300)
                    return note(g::sqrt(g::abs(a)), "sqrt abs " + name(a));
                if (pick(2)) {
                    const int d = pick(rank);
                    return note(g::concat({a, g::neg(a)}, d),
                                "concat " + std::to_string(d) + " " + name(a));
                }
                g::IntList low, high, inner;
                for (int d = 0; d < rank; ++d) {
                    low.push_back(pick(2));
                    high.push_back(pick(2));
                    inner.push_back(pick(2));
                }
                return note(g::pad(a, low, high, inner, 0.5), "pad " + name(a));
            }
            default: {
                if (rank == 0) return note(g::cos(a), "cos " + name(a));
                const int d = pick(rank);
                if (pick(2))
                    return note(g::softmax(a, d), "softmax " + std::to_string(d) + " " + name(a));
                g::IntList dims;
                dims.push_back(d);
                return note(g::flip(a, dims), "flip " + name(a));
            }
        }
    }

    std::mt19937 random_;
    int ops_;
    DType dtype_;
    Built b_;
};

// An empty text when all targets agree.
std::string difference(const Recipe& r, DType dtype, double tolerance) {
    Built b = Generator(r, dtype).build();
    // References first: a flush lets the graph go.
    std::vector<RefArray> wants;
    for (auto& t : b.targets)
        wants.push_back(g::evaluate_reference(t.variable()->node, b.leaves));
    for (std::size_t k = 0; k < b.targets.size(); ++k) {
        const auto have = b.targets[k].to_vector<double>();
        if (have.size() != wants[k].data.size()) return "sizes differ";
        for (std::size_t i = 0; i < have.size(); ++i) {
            const double w = wants[k].data[i];
            if (std::isnan(w) && std::isnan(have[i])) continue;
            if (!(std::fabs(have[i] - w) <= tolerance * (1 + std::fabs(w)))) {
                std::ostringstream out;
                out << "target " << k << " element " << i << ": " << have[i] << ", reference " << w
                    << "\n"
                    << b.text;
                return out.str();
            }
        }
    }
    return "";
}

std::string smallest_failure(Recipe r, DType dtype, double tolerance) {
    std::string found = difference(r, dtype, tolerance);
    for (int ops = 1; !found.empty() && ops < r.ops; ++ops) {
        const std::string smaller = difference({r.seed, ops}, dtype, tolerance);
        if (!smaller.empty()) return smaller;
    }
    return found;
}

void check(std::uint32_t first, int count, int ops, DType dtype, double tolerance) {
    for (int i = 0; i < count; ++i) {
        const Recipe r{first + static_cast<std::uint32_t>(i), 1 + i % ops};
        std::string text;
        try {
            text = smallest_failure(r, dtype, tolerance);
        } catch (const std::exception& e) {
            text = std::string("threw: ") + e.what();
        }
        ASSERT_EQ(text, "") << "seed " << r.seed << ", " << r.ops << " ops";
    }
}

TEST(RandomGraphs, SmallFloat64) { check(1, 600, 6, DType::Float64, 1e-9); }
TEST(RandomGraphs, LargeFloat64) { check(100000, 300, 30, DType::Float64, 1e-8); }
TEST(RandomGraphs, Float32) { check(200000, 300, 12, DType::Float32, 2e-4); }

}  // namespace
}  // namespace pippin
