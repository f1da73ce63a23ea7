// Memory orders: feature maps are kept channels-last; copies go in only where an operand's bytes
// must move.
#include <algorithm>
#include <map>

#include "graph/build.h"
#include "graph/ops/records_attention.h"
#include "plan/lowering.h"

namespace pippin::plan {

using graph::Kind;
using graph::Node;
namespace ops = graph::ops;

namespace {

bool is_map_op(const Node& n) {
    return n.op == &ops::kConv2d || n.op == &ops::kConv2dGradInput || n.op == &ops::kMaxPool2d ||
           n.op == &ops::kMaxPool2dGrad || n.op == &ops::kAvgPool2d ||
           n.op == &ops::kAvgPool2dGrad || n.op == &ops::kAdaptiveAvgPool2d ||
           n.op == &ops::kAdaptiveAvgPool2dGrad;
}

bool is_moved_op(const Node& n) { return n.op->kind == Kind::Heavy || n.op->kind == Kind::Index; }

// The order that operand k of a heavy or index op must have.
Order demanded(const Node& n, std::size_t k) {
    if (n.op == &ops::kConv2dGradWeight) return Order::ChannelsLast;
    if (n.op == &ops::kConv2d || n.op == &ops::kConv2dGradInput)
        return k == 0 ? Order::ChannelsLast : Order::RowMajor;
    return is_map_op(n) ? Order::ChannelsLast : Order::RowMajor;
}

// Attention reads rows of contiguous elements, wherever they are, and any mask.
bool row_strides(const View& v, bool any) {
    const int r = v.shape.rank();
    for (int d = 0; d < r; ++d)
        if (v.shape[d] > 1 && v.strides[static_cast<std::size_t>(d)] < 0) return false;
    return any || v.shape[r - 1] == 1 || v.strides[static_cast<std::size_t>(r - 1)] == 1;
}

// Matrices may be read through strides as long as one of the last two dims is contiguous.
bool matrix_strides(const View& v) {
    const int r = v.shape.rank();
    for (int d = 0; d < r; ++d)
        if (v.shape[d] > 1 && v.strides[static_cast<std::size_t>(d)] <= 0) return false;
    auto unit = [&](int d) {
        return v.shape[d] == 1 || v.strides[static_cast<std::size_t>(d)] == 1;
    };
    return unit(r - 1) || unit(r - 2);
}

class Layouts {
  public:
    explicit Layouts(Lowering& l) : l_(l) {}

    void run() {
        forward();
        backward();
        const auto count = static_cast<std::int32_t>(l_.nodes.size());
        for (std::int32_t i = 0; i < count; ++i) {
            const Node& n = l_.node(i);
            if (is_strided_view(n) || l_[i].stored) continue;
            for (std::size_t k = 0; k < l_[i].in.size(); ++k) {
                make_strided(l_[i].in[k]);
                if (is_moved_op(n)) move_operand(i, k, n);
            }
        }
        for (auto& t : l_.targets) {
            make_strided(t);
            t = target_base(t);
        }
        renumber();
    }

  private:
    void forward() {
        for (auto& x : l_.nodes) {
            const Node& n = *x.node;
            if (x.stored) continue;
            if (is_map_op(n))
                x.order = Order::ChannelsLast;
            else if (n.op->kind == Kind::Elementwise && n.shape.rank() == 4)
                for (auto in : x.in)
                    if (!is_inline_source(l_.node(in)) && !is_strided_view(l_.node(in)) &&
                        l_[in].order == Order::ChannelsLast)
                        x.order = Order::ChannelsLast;
        }
    }

    // A fused result that a convolution reads is written channels-last in the first place.
    void backward() {
        for (std::size_t i = l_.nodes.size(); i-- > 0;) {
            LNode& x = l_.nodes[i];
            if (x.stored || x.node->op->kind != Kind::Elementwise || x.node->shape.rank() != 4)
                continue;
            for (auto u : x.users) {
                const Node& user = l_.node(u);
                if (is_moved_op(user))
                    for (std::size_t k = 0; k < l_[u].in.size(); ++k)
                        if (l_[u].in[k] == static_cast<std::int32_t>(i) &&
                            demanded(user, k) == Order::ChannelsLast)
                            x.order = Order::ChannelsLast;
            }
        }
    }

    // Makes every reshape under n readable through strides, by copies of reshapes' inputs.
    void make_strided(std::int32_t n) {
        if (!is_strided_view(l_.node(n))) return;
        make_strided(l_[n].in[0]);
        if (resolve(l_, n).view) return;
        l_[n].in[0] = copy_of(l_[n].in[0], Order::RowMajor);
    }

    void move_operand(std::int32_t i, std::size_t k, const Node& n) {
        const std::int32_t in = l_[i].in[k];
        const Order order = demanded(n, k);
        const Resolved r = resolve(l_, in);
        bool fits = r.view && !is_inline_source(l_.node(r.base));
        if (fits) {
            if (n.op == &ops::kMatmul)
                fits = matrix_strides(*r.view);
            else if (ops::is_attention(n.op))
                fits = row_strides(*r.view, k == 3 && ops::has_mask(n.attrs));
            else
                fits = same_memory(r.view->shape, r.view->strides,
                                   dense_strides(r.view->shape, order));
        }
        if (!fits) l_[i].in[k] = copy_of(in, order);
    }

    std::int32_t target_base(std::int32_t t) {
        const Node& n = l_.node(t);
        if (is_inline_source(n)) return copy_of(t, Order::RowMajor);
        if (!is_strided_view(n)) return t;
        const Resolved r = resolve(l_, t);
        if (r.view && !is_inline_source(l_.node(r.base)) && r.view->offset == 0 &&
            l_.node(r.base).shape.numel() == n.shape.numel() &&
            same_memory(n.shape, r.view->strides, dense_strides(n.shape, Order::RowMajor)))
            return r.base;
        return copy_of(t, Order::RowMajor);
    }

    std::int32_t copy_of(std::int32_t n, Order order) {
        if (l_.node(n).shape.rank() != 4) order = Order::RowMajor;
        auto [it, fresh] = copies_.emplace(std::pair{n, order}, 0);
        if (!fresh) return it->second;
        LNode c;
        auto node = graph::new_node();
        node->op = &kCopy;
        node->dtype = l_.node(n).dtype;
        node->shape = l_.node(n).shape;
        node->device = l_.node(n).device;
        c.node = std::move(node);
        c.in.push_back(n);
        c.order = order;
        it->second = static_cast<std::int32_t>(l_.nodes.size());
        l_.nodes.push_back(std::move(c));
        return it->second;
    }

    // Copies were added at the end: orders nodes anew, inputs first, and drops what nobody needs.
    void renumber() {
        std::vector<std::int32_t> id(l_.nodes.size(), -1), order;
        std::vector<std::pair<std::int32_t, std::size_t>> stack;
        for (auto t : l_.targets) {
            stack.emplace_back(t, 0);
            while (!stack.empty()) {
                auto& [n, next] = stack.back();
                if (id[static_cast<std::size_t>(n)] >= 0) {
                    stack.pop_back();
                } else if (next < l_[n].in.size()) {
                    const std::int32_t in = l_[n].in[next++];
                    if (id[static_cast<std::size_t>(in)] < 0) stack.emplace_back(in, 0);
                } else {
                    id[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(order.size());
                    order.push_back(n);
                    stack.pop_back();
                }
            }
        }
        std::vector<LNode> nodes;
        for (auto old : order) {
            LNode x = std::move(l_[old]);
            x.users.clear();
            x.target = false;
            const auto self = static_cast<std::int32_t>(nodes.size());
            for (auto& in : x.in) {
                in = id[static_cast<std::size_t>(in)];
                auto& users = nodes[static_cast<std::size_t>(in)].users;
                if (users.empty() || users.back() != self) users.push_back(self);
            }
            nodes.push_back(std::move(x));
        }
        l_.nodes = std::move(nodes);
        for (auto& t : l_.targets) {
            t = id[static_cast<std::size_t>(t)];
            l_[t].target = true;
        }
    }

    Lowering& l_;
    std::map<std::pair<std::int32_t, Order>, std::int32_t> copies_;
};

// Whether n adds one value per channel (dim 1 of a map, the last of a matrix) to `heavy`: the
// bias's node.
std::int32_t bias_of(const Lowering& l, std::int32_t add, std::int32_t heavy) {
    const Node& n = l.node(add);
    if (n.op != &ops::kAdd || l[add].in[0] == l[add].in[1]) return -1;
    const std::int32_t other = l[add].in[0] == heavy ? l[add].in[1] : l[add].in[0];
    const Resolved r = resolve(l, other);
    if (!r.view || is_inline_source(l.node(r.base)) || r.base == heavy ||
        l.node(r.base).dtype != n.dtype)
        return -1;
    const int channel = l.node(heavy).op == &ops::kMatmul ? n.shape.rank() - 1 : 1;
    for (int d = 0; d < n.shape.rank(); ++d)
        if (n.shape[d] > 1 &&
            r.view->strides[static_cast<std::size_t>(d)] != (d == channel ? 1 : 0))
            return -1;
    return other;
}

// Whether n adds to `heavy`, whose value is `sum` by now, something that lies in memory as it does.
bool adds_residual(const Lowering& l, std::int32_t add, std::int32_t sum, std::int32_t heavy) {
    const Node& n = l.node(add);
    if (n.op != &ops::kAdd || l[add].in[0] == l[add].in[1]) return false;
    const Resolved r = resolve(l, l[add].in[0] == sum ? l[add].in[1] : l[add].in[0]);
    return r.view && !is_inline_source(l.node(r.base)) && l.node(r.base).dtype == n.dtype &&
           r.view->offset == 0 &&
           same_memory(n.shape, r.view->strides, dense_strides(n.shape, l[heavy].order)) &&
           l[add].order == l[heavy].order;
}

}  // namespace

void choose_layouts(Lowering& l) { Layouts(l).run(); }

void absorb_epilogues(Lowering& l) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(l.nodes.size()); ++i) {
        const Node& n = l.node(i);
        if (!is_moved_op(n) || l[i].stored) continue;
        Unit u;
        u.node = i;
        std::int32_t last = i;
        auto only_user = [&] {
            return !l[last].target && l[last].users.size() == 1 ? l[last].users[0] : -1;
        };
        if ((n.op == &ops::kConv2d || n.op == &ops::kMatmul) && is_floating(n.dtype) &&
            n.dtype != DType::Float64) {
            // The sum of two products is one product's epilogue, and the other is its bias.
            if (const std::int32_t add = only_user();
                add >= 0 && l[add].unit < 0 && bias_of(l, add, i) >= 0) {
                u.epilogue.push_back(last = add);
                if (const std::int32_t sum = only_user();
                    sum >= 0 && l[sum].unit < 0 && adds_residual(l, sum, last, i))
                    u.epilogue.push_back(last = sum);
                if (const std::int32_t act = only_user();
                    act >= 0 && (l.node(act).op == &ops::kRelu || l.node(act).op == &ops::kTanh))
                    u.epilogue.push_back(last = act);
            }
        }
        const auto id = static_cast<std::int32_t>(l.units.size());
        l[i].unit = id;
        for (auto e : u.epilogue)
            l[e].unit = id;
        l[last].stored = true;
        u.outputs.push_back(last);
        l.units.push_back(std::move(u));
    }
}

}  // namespace pippin::plan
