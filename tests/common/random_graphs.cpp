#include "common/random_graphs.h"

#include <cmath>
#include <random>
#include <sstream>

#include "graph/build.h"
#include "tensor/variable.h"

namespace pippin::random_graphs {
namespace {

namespace g = graph;
using graph::NodePtr;
using graph::RefArray;

const Shape kShapes[] = {{6},          {},           {7, 5},       {4, 1, 3}, {2, 3, 4, 5},
                         {1, 6, 2, 2}, {3, 8, 1, 2}, {2, 4, 9, 9}, {5, 33}};
constexpr std::uint32_t kOmitted = ~std::uint32_t{0};
constexpr std::int64_t kMostElements = 2000;

class Builder {
  public:
    Builder(const Recipe& r, DType dtype, Device device,
            const std::function<void(const NodePtr&)>& each)
        : random_(r.seed), dtype_(dtype), device_(device), smooth_(r.smooth), each_(each) {
        const Shape base = kShapes[r.base % std::size(kShapes)];
        leaf(base);
        leaf(base);
        leaf(narrowed(base));
        for (const Choice& c : r.steps)
            step(c);
        std::uint32_t picks = r.targets;
        out_.targets.push_back(wrap(out_.nodes.back()));
        for (; picks; picks /= 64)
            out_.targets.push_back(wrap(out_.nodes[picks % 64 % out_.nodes.size()]));
    }
    Graph take() { return std::move(out_); }

  private:
    Shape narrowed(Shape s) {
        for (auto& e : s)
            if (random_() % 2) e = 1;
        return s;
    }

    NodePtr leaf(const Shape& s) {
        std::vector<double> v(static_cast<std::size_t>(s.numel()));
        for (auto& x : v)
            x = static_cast<float>(static_cast<int>(random_() % 4001) - 2000) / 1000.0f;
        Tensor t = cast(tensor(v, s), dtype_).to(device_).eval();
        if (smooth_) t.requires_grad_();
        out_.values[node_of(t).get()] = {s, t.to_vector<double>()};
        out_.leaves.push_back(t);
        note(node_of(t), "leaf");
        return node_of(t);
    }
    NodePtr index_leaf(const Shape& s, std::int64_t extent) {
        std::vector<std::int64_t> v(static_cast<std::size_t>(s.numel()));
        for (auto& x : v)
            x = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(extent));
        const Tensor t = tensor(v, s).to(device_).eval();
        out_.values[node_of(t).get()] = {s, std::vector<double>(v.begin(), v.end())};
        kept_.push_back(t);
        return node_of(t);
    }

    void note(const NodePtr& n, const std::string& how) {
        std::ostringstream line;
        line << "  n" << out_.nodes.size() << " = " << how << " -> " << n->shape.str() << "\n";
        out_.text += line.str();
        out_.nodes.push_back(n);
        if (each_) each_(n);
    }
    std::string name(const NodePtr& n) const {
        for (std::size_t i = 0; i < out_.nodes.size(); ++i)
            if (out_.nodes[i] == n) return " n" + std::to_string(i);
        return " ?";
    }
    NodePtr pick(std::uint32_t k) const { return out_.nodes[k % out_.nodes.size()]; }

    // A matrix of a's elements: its last dim and the others.
    static NodePtr matrix(const NodePtr& a) {
        const std::int64_t last = a->shape.rank() ? a->shape.back() : 1;
        return g::reshape(a, {last ? a->shape.numel() / last : 0, last});
    }

    void step(const Choice& c) {
        const NodePtr a = pick(c.a);
        if (c.op == kOmitted) {  // later steps find the nodes they had
            out_.nodes.push_back(a);
            return;
        }
        static constexpr auto table = {&Builder::unary,  &Builder::unary,    &Builder::binary,
                                       &Builder::binary, &Builder::binary,   &Builder::reduce,
                                       &Builder::reduce, &Builder::view,     &Builder::view,
                                       &Builder::region, &Builder::rows,     &Builder::rows,
                                       &Builder::index,  &Builder::products, &Builder::windows};
        const auto make = table.begin()[c.op % table.size()];
        if (!(this->*make)(c, a)) note(g::neg(a), "neg" + name(a));
    }

    bool unary(const Choice& c, const NodePtr& a) {
        switch (c.b % 15) {
            case 0:
                return note(g::tanh(a), "tanh" + name(a)), true;
            case 1:
                return note(g::sigmoid(a), "sigmoid" + name(a)), true;
            case 2:
                return note(g::mul_scalar(a, 0.5), "half" + name(a)), true;
            case 3:
                return note(g::sin(a), "sin" + name(a)), true;
            case 4:
                return note(g::cos(a), "cos" + name(a)), true;
            case 5:
                return note(g::erf(a), "erf" + name(a)), true;
            case 6:
                return note(g::log(g::add_scalar(g::mul(a, a), 1)), "log(1+x^2)" + name(a)), true;
            case 7:
                return note(g::exp(g::neg(g::mul(a, a))), "exp(-x^2)" + name(a)), true;
            case 8:
                return note(g::rsqrt(g::add_scalar(g::mul(a, a), 1)), "rsqrt(1+x^2)" + name(a)),
                       true;
            case 9:
                return note(g::reciprocal(g::add_scalar(g::mul(a, a), 1)), "1/(1+x^2)" + name(a)),
                       true;
            case 10:
                return note(g::sqrt(g::add_scalar(g::mul(a, a), 0.5)), "sqrt(.5+x^2)" + name(a)),
                       true;
            default:
                if (smooth_) return false;
                if (c.b % 3 == 0) return note(g::relu(a), "relu" + name(a)), true;
                if (c.b % 3 == 1) return note(g::abs(a), "abs" + name(a)), true;
                return note(g::maximum(a, g::full_like(a, 0.25)), "clamp(.25)" + name(a)), true;
        }
    }

    bool binary(const Choice& c, const NodePtr& a) {
        const NodePtr b = pick(c.b);
        Shape s;
        try {
            s = broadcast_shapes(a->shape, b->shape);
        } catch (const ValueError&) {
            return false;
        }
        if (s.numel() > kMostElements) return false;
        const NodePtr x = g::expand_to(a, s), y = g::expand_to(b, s);
        const std::string names = name(a) + name(b);
        switch (c.c % 9) {
            case 0:
                return note(g::add(x, y), "add" + names), true;
            case 1:
                return note(g::sub(x, y), "sub" + names), true;
            case 2:
                return note(g::mul(x, g::tanh(y)), "x*tanh(y)" + names), true;
            case 3:
                return note(g::div(x, g::add_scalar(g::mul(y, y), 1)), "x/(1+y^2)" + names), true;
            case 4:
                return note(g::add(g::mul(x, g::tanh(y)), x), "x*tanh(y)+x" + names), true;
            case 5:
                return note(g::pow(g::add_scalar(g::mul(x, x), 1), g::tanh(y)),
                            "(1+x^2)^tanh(y)" + names),
                       true;
            default:
                if (smooth_) return false;
                if (c.c % 9 == 6) return note(g::maximum(x, y), "max" + names), true;
                if (c.c % 9 == 7) return note(g::minimum(x, y), "min" + names), true;
                // continuous where the condition changes: rounding may decide it either way
                return note(g::select(g::lt(x, y), x, y), "x<y?x:y" + names), true;
        }
    }

    bool reduce(const Choice& c, const NodePtr& a) {
        g::IntList dims;
        std::string text = " {";
        for (int d = 0; d < a->shape.rank(); ++d)
            if (c.b >> d & 1) {
                dims.push_back(d);
                text += std::to_string(d) + " ";
            }
        text += "}" + name(a);
        NodePtr n;
        switch (c.c % 5) {
            case 0:
                n = g::reduce_m2(a, dims), text = "m2" + text;
                break;
            case 1:
                if (smooth_) return false;
                n = g::reduce_max(a, dims), text = "max" + text;
                break;
            case 2:
                if (smooth_) return false;
                n = g::reduce_min(a, dims), text = "min" + text;
                break;
            default:
                n = g::reduce_sum(a, dims), text = "sum" + text;
        }
        return note(g::tanh(g::mul_scalar(n, 0.1)), text), true;  // keeps values small
    }

    bool view(const Choice& c, const NodePtr& a) {
        const int rank = a->shape.rank();
        switch (c.b % 5) {
            case 0: {
                if (rank < 2) return false;
                g::IntList dims;
                for (int d = 0; d < rank; ++d)
                    dims.push_back((d + 1 + static_cast<int>(c.c % 2)) % rank);
                return note(g::permute(a, dims), "permute" + name(a)), true;
            }
            case 1: {
                if (rank == 0) return note(g::reshape(a, {1, 1}), "reshape" + name(a)), true;
                g::IntList start, stop, step;
                for (int d = 0; d < rank; ++d) {
                    start.push_back(a->shape[d] > 2 ? 1 : 0);
                    stop.push_back(a->shape[d]);
                    step.push_back(1 + (c.c >> d & 1));
                }
                return note(g::slice(a, start, stop, step), "slice" + name(a)), true;
            }
            case 2:
                return note(g::reshape(a, {a->shape.numel()}), "flatten" + name(a)), true;
            case 3: {
                if (rank == 0) return false;
                g::IntList dims;
                dims.push_back(static_cast<std::int64_t>(c.c) % rank);
                return note(g::flip(a, dims), "flip" + name(a)), true;
            }
            default: {
                if (rank == 0 || rank > 5 || a->shape.numel() > 300) return false;
                Shape s = a->shape;
                const int at = static_cast<int>(c.c) % (rank + 1);
                s.insert(at, 1);
                const NodePtr one = g::reshape(a, s);
                s[at] = 3;
                return note(g::expand(one, s), "expand " + std::to_string(at) + name(a)), true;
            }
        }
    }

    bool region(const Choice& c, const NodePtr& a) {
        const int rank = a->shape.rank();
        if (rank == 0 || a->shape.numel() > 300) return false;
        if (c.b % 2) {
            const int d = static_cast<int>(c.c) % rank;
            return note(g::concat({a, g::neg(a)}, d), "concat " + std::to_string(d) + name(a)),
                   true;
        }
        g::IntList low, high, inner;
        for (int d = 0; d < rank; ++d) {
            low.push_back(c.c >> (3 * d) & 1);
            high.push_back(c.c >> (3 * d + 1) & 1);
            inner.push_back(c.c >> (3 * d + 2) & 1);
        }
        return note(g::pad(a, low, high, inner, 0.5), "pad" + name(a)), true;
    }

    bool rows(const Choice& c, const NodePtr& a) {
        const int rank = a->shape.rank();
        if (rank == 0 || a->shape.numel() == 0) return false;
        const int d = static_cast<int>(c.c) % rank;
        const std::string at = std::to_string(d) + name(a);
        switch (c.b % 3) {
            case 0:
                return note(g::softmax(a, d), "softmax " + at), true;
            case 1:
                return note(g::log_softmax(g::tanh(a), d), "log_softmax tanh " + at), true;
            default: {  // what layer norm and batch norm are made of
                g::IntList dims;
                dims.push_back(d);
                const double n = static_cast<double>(a->shape[d]);
                const NodePtr mean = g::mul_scalar(g::reduce_sum(a, dims), 1 / n);
                const NodePtr var = g::mul_scalar(g::reduce_m2(a, dims), 1 / n);
                const NodePtr invstd = g::rsqrt(g::add_scalar(var, 0.1));
                const NodePtr y =
                    g::mul(g::sub(a, g::expand_to(mean, a->shape)), g::expand_to(invstd, a->shape));
                return note(y, "norm " + at), true;
            }
        }
    }

    bool index(const Choice& c, const NodePtr& a) {
        const int rank = a->shape.rank();
        if (rank == 0 || a->shape.numel() == 0 || a->shape.numel() > 500) return false;
        const int d = static_cast<int>(c.c) % rank;
        const std::string at = std::to_string(d) + name(a);
        Shape s = a->shape;
        switch (c.b % 4) {
            case 0:
                s[d] = 3;
                return note(g::gather(a, index_leaf(s, a->shape[d]), d), "gather " + at), true;
            case 1:
                return note(g::scatter_add(index_leaf(s, 4), a, d, 4), "scatter_add " + at), true;
            case 2:
                return note(g::index_select(a, index_leaf({5}, a->shape[d]), d),
                            "index_select " + at),
                       true;
            default:
                return note(g::index_add(index_leaf({a->shape[d]}, 3), a, d, 3), "index_add " + at),
                       true;
        }
    }

    bool products(const Choice& c, const NodePtr& a) {
        if (a->shape.numel() == 0 || a->shape.numel() > 500) return false;
        const NodePtr x = matrix(a);
        const NodePtr b = pick(c.b), y = matrix(b);
        NodePtr n;
        std::string text;
        if (x->shape[1] == y->shape[1] && y->shape[0] <= 40) {
            n = g::matmul(x, y, false, true), text = "x@y^T" + name(a) + name(b);
        } else if (x->shape[0] == y->shape[0] && y->shape[1] <= 40) {
            n = g::matmul(x, y, true, false), text = "x^T@y" + name(a) + name(b);
        } else {
            const NodePtr w = leaf({x->shape[1], 1 + c.c % 5});
            n = g::matmul(x, w, false, false), text = "x@w" + name(a) + name(w);
        }
        n = g::mul_scalar(n, 0.1);
        if (c.c % 3 == 0) {  // what becomes an epilogue
            const NodePtr bias = leaf({1, n->shape[1]});
            n = g::add(n, g::expand(bias, n->shape)), text += " + bias" + name(bias);
            if (!smooth_ && c.c % 2) n = g::relu(n), text += ", relu";
        }
        return note(g::tanh(n), "tanh(" + text + ")"), true;
    }

    bool windows(const Choice& c, const NodePtr& a) {
        if (a->shape.rank() != 4 || a->shape.numel() == 0 || a->shape.numel() > 700) return false;
        const std::int64_t h = a->shape[2], w = a->shape[3];
        if (h > 12 || w > 12) return false;
        NodePtr n;
        std::string text;
        g::PoolAttrs pool;
        switch (c.b % 4) {
            case 0: {
                g::ConvAttrs conv;
                const std::int64_t k = h >= 3 && w >= 3 ? 3 : 1;
                conv.pad[0] = conv.pad[1] = k == 3 ? c.c & 1 : 0;
                conv.stride[0] = conv.stride[1] = 1 + (c.c >> 1 & 1);
                conv.groups = a->shape[1] % 2 == 0 && (c.c >> 2 & 1) ? 2 : 1;
                const NodePtr weight = leaf({4, a->shape[1] / conv.groups, k, k});
                n = g::tanh(g::mul_scalar(g::conv2d(a, weight, conv), 0.1));
                text = "tanh(conv)" + name(a) + name(weight);
                break;
            }
            case 1:
                if (smooth_ || h < 2 || w < 2) return false;
                pool.kernel[0] = pool.kernel[1] = 2;
                pool.stride[0] = pool.stride[1] = 1 + (c.c & 1);
                pool.ceil_mode = c.c & 2;
                n = g::max_pool2d(a, pool), text = "max_pool" + name(a);
                break;
            case 2:
                if (h < 2 || w < 2) return false;
                pool.kernel[0] = pool.kernel[1] = 2;
                pool.stride[0] = pool.stride[1] = 1 + (c.c & 1);
                pool.pad[0] = pool.pad[1] = c.c >> 1 & 1;
                pool.count_include_pad = c.c & 4;
                n = g::avg_pool2d(a, pool), text = "avg_pool" + name(a);
                break;
            default:
                n = g::adaptive_avg_pool2d(a, 1 + c.c % 3, 1 + c.c / 3 % 3);
                text = "adaptive_avg_pool" + name(a);
        }
        return note(n, text), true;
    }

    std::mt19937 random_;
    DType dtype_;
    Device device_;
    bool smooth_;
    const std::function<void(const NodePtr&)>& each_;
    Graph out_;
    std::vector<Tensor> kept_;
};

// The first element that is too far from the reference's.
std::string compare(const std::string& what, const Tensor& have_tensor, const RefArray& want,
                    double tolerance) {
    const auto have = have_tensor.to_vector<double>();
    if (have.size() != want.data.size())
        return what + ": " + std::to_string(have.size()) + " elements, reference " +
               std::to_string(want.data.size()) + "\n";
    for (std::size_t i = 0; i < have.size(); ++i) {
        const double w = want.data[i];
        if (std::isnan(w) && std::isnan(have[i])) continue;
        if (std::fabs(have[i] - w) <= tolerance * (1 + std::fabs(w))) continue;
        std::ostringstream out;
        out << what << ", element " << i << ": " << have[i] << ", reference " << w << "\n";
        return out.str();
    }
    return "";
}

}  // namespace

Recipe random_recipe(std::uint32_t seed, int steps, bool smooth) {
    std::mt19937 random(seed);
    Recipe r;
    r.seed = seed;
    r.base = static_cast<std::uint32_t>(random());
    r.targets = static_cast<std::uint32_t>(random() % 4096);
    r.smooth = smooth;
    for (int i = 0; i < steps; ++i) {
        const auto draw = [&] { return static_cast<std::uint32_t>(random() >> 1); };
        const std::uint32_t op = draw(), a = draw(), b = draw(), c = draw();
        r.steps.push_back({op, a, b, c});
    }
    return r;
}

Graph build(const Recipe& r, DType dtype, Device device,
            const std::function<void(const NodePtr&)>& each) {
    return Builder(r, dtype, device, each).take();
}

std::string difference(const Recipe& r, DType dtype, double tolerance, Device device) {
    Graph b = build(r, dtype, device);
    // References first: a flush lets the graph go.
    std::vector<RefArray> wants, gradient_wants;
    for (auto& t : b.targets)
        wants.push_back(g::evaluate_reference(node_of(t), b.values));
    std::vector<Tensor> with_gradient;
    if (r.smooth) {
        Tensor loss;
        for (auto& t : b.targets)
            if (t.requires_grad()) {
                const Tensor part = (t * t).sum();
                loss = loss.defined() ? loss + part : part;
            }
        if (loss.defined()) {
            loss.backward();
            for (auto& leaf : b.leaves)
                if (leaf.grad().defined()) with_gradient.push_back(leaf);
        }
        for (auto& leaf : with_gradient)
            gradient_wants.push_back(g::evaluate_reference(node_of(leaf.grad()), b.values));
    }
    std::string found;
    for (std::size_t k = 0; k < b.targets.size() && found.empty(); ++k)
        found = compare("target " + std::to_string(k), b.targets[k], wants[k], tolerance);
    for (std::size_t k = 0; k < with_gradient.size() && found.empty(); ++k)
        found = compare("gradient " + std::to_string(k), with_gradient[k].grad(), gradient_wants[k],
                        tolerance);
    if (found.empty()) {
        const Graph alone = build(r, dtype, device, [](const NodePtr& n) { wrap(n).eval(); });
        for (std::size_t k = 0; k < alone.targets.size() && found.empty(); ++k)
            found = compare("op by op, target " + std::to_string(k), alone.targets[k], wants[k],
                            tolerance);
    }
    return found.empty() ? "" : found + b.text;
}

Shrunk shrink(Recipe r, const std::function<std::string(const Recipe&)>& fails) {
    std::string text = fails(r);
    if (text.empty()) return {r, ""};
    const auto accept = [&](const Recipe& smaller) {
        std::string t = fails(smaller);
        if (t.empty()) return false;
        r = smaller, text = std::move(t);
        return true;
    };
    for (bool again = true; again;) {
        again = false;
        for (std::size_t size = std::max<std::size_t>(r.steps.size() / 2, 1); size > 0; size /= 2)
            for (std::size_t at = 0; at + size <= r.steps.size();) {
                Recipe smaller = r;
                const auto first = smaller.steps.begin() + static_cast<std::ptrdiff_t>(at);
                smaller.steps.erase(first, first + static_cast<std::ptrdiff_t>(size));
                if (accept(smaller))
                    again = true;
                else
                    at += size;
            }
        for (std::size_t i = 0; i < r.steps.size(); ++i) {
            if (r.steps[i].op == kOmitted) continue;
            Recipe smaller = r;
            smaller.steps[i].op = kOmitted;
            again |= accept(smaller);
        }
        if (r.targets) {
            Recipe smaller = r;
            smaller.targets /= 64;
            again |= accept(smaller);
        }
        for (std::uint32_t base = 0; base < r.base % std::size(kShapes); ++base) {
            Recipe smaller = r;
            smaller.base = base;
            if (accept(smaller)) {
                again = true;
                break;
            }
        }
    }
    return {r, text};
}

}  // namespace pippin::random_graphs
