// From pending tensors to submitted plans: tracing, the plan cache, binding buffers.
#include "tensor/flush.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "pippin/stats.h"
#include "plan/lowering.h"
#include "profile/recorder.h"
#include "runtime/allocator.h"
#include "runtime/queue.h"
#include "tensor/graph_lock.h"

namespace pippin {

using graph::Node;

namespace {

std::recursive_mutex& graph_mutex() {
    static auto* m = new std::recursive_mutex;
    return *m;
}
std::uint32_t last_mark = 0;  // under the graph lock

struct Compiled {
    std::shared_ptr<runtime::Executable> executable;
    std::vector<plan::OutputInfo> outputs;
    std::vector<std::int32_t> buffers;     ///< number of each output's buffer
    std::vector<std::int32_t> uses;        ///< how many outputs have that buffer
    std::vector<std::int32_t> written_by;  ///< the launch that writes each output last
    std::int64_t num_buffers = 0, arena_bytes = 0, launches = 0;
};

// Least recently used plans go first. Under the graph lock.
class PlanCache {
  public:
    std::shared_ptr<Compiled> find(const plan::Key& k) {
        auto it = index_.find(k.a);
        if (it == index_.end() || !(it->second->key == k)) return nullptr;
        entries_.splice(entries_.begin(), entries_, it->second);
        return it->second->compiled;
    }
    void insert(const plan::Trace& t, std::shared_ptr<Compiled> c) {
        warn_when_thrashing(t);
        entries_.push_front({t.key, std::move(c)});
        index_[t.key.a] = entries_.begin();
        ++compiled_;
        trim();
    }
    void limit(std::size_t plans) {
        limit_ = plans;
        trim();
    }
    void clear() {
        entries_.clear();
        index_.clear();
    }
    std::size_t size() const { return entries_.size(); }
    std::int64_t compiled() const { return compiled_; }

  private:
    struct Entry {
        plan::Key key;
        std::shared_ptr<Compiled> compiled;
    };

    void trim() {
        while (entries_.size() > limit_) {
            auto it = index_.find(entries_.back().key.a);
            if (it != index_.end() && it->second == std::prev(entries_.end())) index_.erase(it);
            entries_.pop_back();
        }
    }

    // The same graph compiled over and over, for shapes alone: says which inputs keep changing.
    void warn_when_thrashing(const plan::Trace& t) {
        constexpr int kMany = 64;
        if (seen_.size() > 4096) seen_.clear();
        auto& s = seen_[plan::structure(t).a];
        std::vector<Shape> shapes;
        for (auto& in : t.inputs)
            shapes.push_back(in->shape);
        if (++s.plans == kMany) {
            std::string changed;
            for (std::size_t i = 0; i < shapes.size() && i < s.shapes.size(); ++i)
                if (!(shapes[i] == s.shapes[i]))
                    changed += fmt::format("{}{} -> {}", changed.empty() ? "" : ", ",
                                           s.shapes[i].str(), shapes[i].str());
            if (changed.empty())
                fmt::print(stderr,
                           "pippin: warning: {} plans were compiled for one graph in which only "
                           "numbers or shapes written in the program change, such as x * step or "
                           "zeros({{n}}). A number that changes wants runtime_scalar().\n",
                           kMany);
            else
                fmt::print(stderr,
                           "pippin: warning: {} plans were compiled for one graph; shapes that "
                           "keep changing: {}. Pad inputs to a few fixed shapes to compile less.\n",
                           kMany, changed);
        }
        s.shapes = std::move(shapes);
    }
    struct Seen {
        int plans = 0;
        std::vector<Shape> shapes;
    };

    std::list<Entry> entries_;
    std::unordered_map<std::uint64_t, std::list<Entry>::iterator> index_;
    std::unordered_map<std::uint64_t, Seen> seen_;
    std::size_t limit_ = 256;
    std::int64_t compiled_ = 0;
};

PlanCache& plans() {
    static auto* c = new PlanCache;
    return *c;
}

std::vector<plan::Target> collect(Variable* extra) {
    std::vector<Variable*> pending = pending_variables();
    if (extra && extra->node && !extra->node->value &&
        std::find(pending.begin(), pending.end(), extra) == pending.end())
        pending.push_back(extra);
    const std::uint32_t mark = next_mark();
    std::vector<plan::Target> targets;
    targets.reserve(pending.size());
    for (Variable* v : pending) {
        Node* n = v->node.get();
        if (n->mark == mark) {
            ++targets[n->id].holders;
            continue;
        }
        n->mark = mark;
        n->id = static_cast<std::uint32_t>(targets.size());
        targets.push_back({n, 1, n->requires_grad && !n->consumed && !n->grad_leaf, v});
    }
    return targets;
}

// A plan that the whole device has no room for is refused before kernels are made for sizes that
// libraries do not expect, and before the system kills the process.
void check_memory(const plan::Plan& p, Device device) {
    double needed = static_cast<double>(p.arena_bytes);
    for (const plan::Slot& s : p.slots)
        if (s.where != plan::Slot::Where::Arena) needed += static_cast<double>(s.bytes);
    const auto there = static_cast<double>(runtime::backend(device).capabilities().memory_bytes);
    if (there <= 0 || needed <= there) return;
    std::vector<std::pair<std::int64_t, std::string>> largest;
    for (const plan::Launch& l : p.launches) {
        std::int64_t bytes = 0;
        if (l.heavy) {
            bytes = p.slots[static_cast<std::size_t>(l.heavy->output.slot)].bytes;
        } else {
            const auto& accesses = l.program->program.accesses;
            const auto& slots = l.program->segments[0].slots;
            for (std::size_t k = 0; k < slots.size(); ++k)
                if (accesses[k].writes)
                    bytes = std::max(bytes, p.slots[static_cast<std::size_t>(slots[k])].bytes);
        }
        largest.emplace_back(bytes, l.name);
    }
    std::stable_sort(largest.begin(), largest.end(),
                     [](auto& a, auto& b) { return a.first > b.first; });
    std::string names;
    for (std::size_t k = 0; k < std::min<std::size_t>(3, largest.size()); ++k)
        names += fmt::format("{}{} ({:.1f} MiB)", k ? ", " : "", largest[k].second,
                             static_cast<double>(largest[k].first) / (1 << 20));
    throw OutOfMemoryError(
        fmt::format("out of memory on {}: this needs {:.1f} MiB and the device has {:.1f} MiB; the "
                    "largest results are those of {}; use a smaller batch or model",
                    device.str(), needed / (1 << 20), there / (1 << 20), names));
}

plan::Plan planned(const plan::Trace& t) {
    const recording::Range range("make plan");
    return plan::make_plan(t);
}

std::shared_ptr<Compiled> compile(const plan::Trace& t, Device device) {
    const recording::Range range("compile");
    plan::Plan p = planned(t);
    static const bool show = std::getenv("PIPPIN_EXPLAIN") != nullptr;
    if (show) fmt::print(stderr, "{}", p.str());
    check_memory(p, device);
    auto c = std::make_shared<Compiled>();
    c->outputs = p.outputs;
    for (auto& o : p.outputs)
        c->buffers.push_back(
            o.same_as_input >= 0 ? -1 : p.slots[static_cast<std::size_t>(o.slot)].index);
    for (auto& o : p.outputs)
        c->written_by.push_back(o.launch);
    c->num_buffers = p.num_outputs;
    c->uses.resize(static_cast<std::size_t>(p.num_outputs));
    for (auto b : c->buffers)
        if (b >= 0) ++c->uses[static_cast<std::size_t>(b)];
    c->arena_bytes = p.arena_bytes;
    c->launches = static_cast<std::int64_t>(p.launches.size());
    const recording::Range kernels("prepare kernels");
    c->executable = runtime::backend(device).compile(p);
    c->arena_bytes += c->executable->scratch_bytes();
    return c;
}

// Whether target k is written over its variable's own former value.
bool is_former_value(const plan::Trace& t, std::size_t k, std::int32_t donated) {
    const Variable* v = t.targets[k].holder;
    if (donated < 0 || !v || t.targets[k].holders != 1) return false;
    const graph::NodePtr& in = t.inputs[static_cast<std::size_t>(donated)];
    return !v->settled.owner_before(in) && !in.owner_before(v->settled);
}

void run(plan::Trace& t) {
    const Device device = t.targets[0].node->device;
    std::shared_ptr<Compiled> c = plans().find(t.key);
    if (!c) {
        c = compile(t, device);
        plans().insert(t, c);
    }
    runtime::Submission s;
    s.executable = c->executable;
    s.arena_bytes = c->arena_bytes;
    s.launches = c->launches;
    s.scalars = std::move(t.scalars);
    s.fence = std::make_shared<Fence>();
    s.inputs.reserve(t.inputs.size());
    for (auto& in : t.inputs) {
        // What an earlier run may lose takes what depends on it along.
        if (auto& f = in->value->ready; f && (!f->done() || f->lost(in->value->result)))
            s.waits_for.push_back(
                {f, in->value->result, static_cast<std::int32_t>(s.inputs.size())});
        s.inputs.push_back(in->value->buffer);
    }
    s.outputs.resize(static_cast<std::size_t>(c->num_buffers));
    std::vector<std::shared_ptr<const Value>> values;
    values.reserve(t.targets.size());
    for (std::size_t k = 0; k < c->outputs.size(); ++k) {
        const plan::OutputInfo& o = c->outputs[k];
        s.results.push_back({o.launch, is_former_value(t, k, o.donated_input)});
        if (o.same_as_input >= 0) {
            const Value& in = *t.inputs[static_cast<std::size_t>(o.same_as_input)]->value;
            in.shared = true;
            auto v = std::make_shared<Value>(in);
            v->order = o.order;
            values.push_back(std::move(v));
            continue;
        }
        auto v = std::make_shared<Value>();
        v->bytes = static_cast<std::size_t>(o.shape.numel()) * size_of(o.dtype);
        v->order = o.order;
        v->ready = s.fence;
        v->result = static_cast<std::int32_t>(k);
        BufferPtr& b = s.outputs[static_cast<std::size_t>(c->buffers[k])];
        // Equal values are computed once: their tensors have one buffer.
        v->shared = c->uses[static_cast<std::size_t>(c->buffers[k])] > 1;
        if (!b)
            b = o.donated_input >= 0
                    ? s.inputs[static_cast<std::size_t>(o.donated_input)]
                    : runtime::allocate(device, std::max<std::size_t>(v->bytes, 1));
        v->buffer = b;
        values.push_back(std::move(v));
    }
    for (std::size_t k = 0; k < t.targets.size(); ++k)
        t.targets[k].node->value = std::move(values[k]);
    s.fence->set_launches(c->written_by);
    runtime::submit(device, std::move(s));
}

// Computed variables are no longer pending, and what led to them is let go.
void finish(plan::Trace& t, const std::vector<Variable*>& pending) {
    for (Variable* v : pending)
        if (v->node->value) {
            v->unlink();
            v->settled.reset();
        }
    std::vector<graph::NodePtr> released;  // die after the loop: a target may hold another one
    for (auto& target : t.targets) {
        if (target.keeps_graph) continue;
        for (auto& in : target.node->inputs)
            released.push_back(std::move(in));
        target.node->inputs.clear();
    }
    t.inputs.clear();
}

std::vector<Variable*> pending_with(Variable* extra) {
    std::vector<Variable*> pending = pending_variables();
    if (extra && extra->list) pending.push_back(extra);
    return pending;
}

// A flush that failed before anything ran (out of memory, an op that the device cannot do) must not
// fail again with every later one: variables go back to their former values; what has none tells
// the error whenever it is read.
void give_up(Variable* extra, std::exception_ptr error) {
    const auto fence = std::make_shared<Fence>();
    fence->signal(std::move(error));
    for (Variable* v : pending_with(extra)) {
        if (graph::NodePtr former = v->settled.lock(); former && former->value) {
            v->set(std::move(former));
            continue;
        }
        auto none = std::make_shared<Value>();
        none->ready = fence;
        v->node->value = std::move(none);
        v->unlink();
        v->settled.reset();
    }
}

plan::Trace traced(std::vector<plan::Target> targets) {
    const recording::Range range("trace");
    return plan::trace(std::move(targets), next_mark());
}

void flush_all(Variable* extra) {
    // No graph has nodes of two devices: tensors move between them at once. One plan a device.
    std::vector<plan::Target> targets = collect(extra);
    while (!targets.empty()) {
        const recording::Range range("flush");
        const Device device = targets[0].node->device;
        const auto others =
            std::stable_partition(targets.begin(), targets.end(),
                                  [&](const plan::Target& t) { return t.node->device == device; });
        std::vector<plan::Target> rest(others, targets.end());
        targets.erase(others, targets.end());
        plan::Trace t = traced(std::move(targets));
        run(t);
        finish(t, pending_with(extra));
        targets = std::move(rest);
    }
}

void flush_pending(Variable* extra) {
    GraphLock lock;
    try {
        flush_all(extra);
    } catch (...) {
        give_up(extra, std::current_exception());
        throw;
    }
}

}  // namespace

GraphLock::GraphLock() : lock_(graph_mutex()) {}

std::uint32_t next_mark() { return ++last_mark; }

void flush() { flush_pending(nullptr); }
void flush_for(Variable& v) { flush_pending(&v); }

void synchronize() {
    flush();
    runtime::drain();
}

std::optional<plan::Plan> pending_plan(const Tensor& t) {
    GraphLock lock;
    node_of(t);
    std::vector<plan::Target> targets = collect(t.variable().get());
    const Device device = t.device();
    std::erase_if(targets, [&](const plan::Target& x) { return !(x.node->device == device); });
    if (targets.empty()) return std::nullopt;
    return plan::make_plan(plan::trace(std::move(targets), next_mark()));
}

std::string explain(const Tensor& t) {
    const auto p = pending_plan(t);
    return p ? p->str() : "plan: nothing is pending\n";
}

PlanCost plan_cost(const Tensor& t) {
    PlanCost cost;
    const auto p = pending_plan(t);
    if (!p) return cost;
    for (const plan::Launch& l : p->launches)
        if (l.heavy) cost.heavy_flops += l.flops;
    cost.launches = static_cast<std::int64_t>(p->launches.size());
    cost.arena_bytes = p->arena_bytes;
    for (const plan::OutputInfo& o : p->outputs)
        if (o.donated_input < 0 && o.same_as_input < 0)
            cost.output_bytes += p->slots[static_cast<std::size_t>(o.slot)].bytes;
    return cost;
}

Stats stats() {
    GraphLock lock;
    const auto q = runtime::queue_stats();
    Stats s;
    s.launches = q.launches;
    s.fallbacks = q.fallbacks;
    s.flushes = q.runs;
    s.plans_compiled = plans().compiled();
    s.plans_cached = static_cast<std::int64_t>(plans().size());
    for (const Device d : runtime::devices_in_use()) {
        const auto m = runtime::memory_stats(d);
        s.bytes_live += m.live;
        s.bytes_cached += m.cached;
        s.bytes_peak += m.peak;
    }
    return s;
}

void reset_peak_memory() { runtime::reset_peak(); }

std::int64_t memory_allocated(Device d) { return runtime::memory_stats(d).live; }
std::int64_t max_memory_allocated(Device d) { return runtime::memory_stats(d).peak; }
std::int64_t memory_cached(Device d) { return runtime::memory_stats(d).cached; }
std::int64_t memory_total(Device d) { return runtime::backend(d).capabilities().memory_bytes; }

void set_memory_fraction(double fraction, Device d) {
    if (!(fraction > 0 && fraction <= 1))
        throw ValueError(fmt::format(
            "set_memory_fraction: expected a number above 0 and at most 1, got {}", fraction));
    runtime::limit_memory(d, fraction);
}

void empty_cache() {
    GraphLock lock;
    runtime::drain();
    plans().clear();
    for (const Device d : runtime::devices_in_use())
        runtime::drop_idle_arena(d);
    runtime::release_cached();
}

void set_plan_cache_limit(std::int64_t limit) {
    if (limit < 1)
        throw ValueError(fmt::format("set_plan_cache_limit: expected at least 1, got {}", limit));
    GraphLock lock;
    plans().limit(static_cast<std::size_t>(limit));
}

}  // namespace pippin
