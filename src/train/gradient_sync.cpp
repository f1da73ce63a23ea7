#include "train/gradient_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "graph/build.h"
#include "pippin/error.h"
#include "pippin/ops.h"
#include "runtime/allocator.h"
#include "tensor/flush.h"
#include "tensor/variable.h"
#include "train/distributed.h"

namespace pippin::dist {
namespace {

std::atomic<std::int64_t> rounds_done{0}, buckets_done{0}, buckets_early{0}, bytes_done{0};

// Bytes that a run may still be computing.
struct Source {
    BufferPtr buffer;  ///< null: there are none
    std::shared_ptr<Fence> fence;
    std::int32_t result = 0;
    plan::Order order = plan::Order::RowMajor;

    bool lost() const { return buffer && fence && fence->lost(result); }
    bool ready() const { return !buffer || !fence || fence->has(result); }
    const void* bytes() const { return buffer->memory.host; }
};

struct Entry {
    Source from;
    BufferPtr to;  ///< may be the source's own
    Shape shape;
    DType dtype = DType::Float32;
    std::size_t count = 0;
};

// Calls f(k, j): element j of the source is element k in row-major order.
template <class F>
void each_row_major(const Shape& s, F f) {
    const std::int64_t n = s[0], c = s[1], hw = s[2] * s[3];
    std::size_t k = 0;
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < c; ++j)
            for (std::int64_t x = 0; x < hw; ++x)
                f(k++, static_cast<std::size_t>((i * hw + x) * c + j));
}

template <class S, class T>
void pack(const Entry& e, T* to) {
    const S* from = static_cast<const S*>(e.from.bytes());
    const auto convert = [](const S& v) {
        if constexpr (std::is_arithmetic_v<S>)
            return static_cast<T>(v);
        else
            return static_cast<T>(static_cast<float>(v));
    };
    if (e.from.order == plan::Order::ChannelsLast)
        each_row_major(e.shape, [&](std::size_t k, std::size_t j) { to[k] = convert(from[j]); });
    else
        std::transform(from, from + e.count, to, convert);
}

template <class S, class T>
void unpack(const T* from, const Entry& e, T factor) {
    S* to = static_cast<S*>(e.to->memory.host);
    for (std::size_t k = 0; k < e.count; ++k) {
        if constexpr (std::is_arithmetic_v<S>)
            to[k] = static_cast<S>(from[k] * factor);
        else
            to[k] = S(static_cast<float>(from[k] * factor));
    }
}

std::byte* copy_out(const Entry& e, std::byte* to) {
    const std::size_t size = size_of(e.dtype);
    const auto* from = static_cast<const std::byte*>(e.from.bytes());
    if (e.from.order == plan::Order::ChannelsLast)
        each_row_major(e.shape, [&](std::size_t k, std::size_t j) {
            std::memcpy(to + k * size, from + j * size, size);
        });
    else
        std::memcpy(to, from, e.count * size);
    return to + e.count * size;
}

// Gradients that travel together: their elements, then for each of them how many processes have
// one, then how many processes failed.
struct Bucket {
    std::vector<std::size_t> entries;
    bool wide = false;  ///< float64
    std::size_t count = 0;
    std::vector<float> single;
    std::vector<double> twice;

    std::size_t length() const { return count + entries.size() + 1; }
    void* data() { return wide ? static_cast<void*>(twice.data()) : single.data(); }

    template <class T>
    std::vector<T>& memory() {
        if constexpr (std::is_same_v<T, double>)
            return twice;
        else
            return single;
    }
    template <class T>
    void fill(const std::vector<Entry>& all) {
        std::vector<T>& m = memory<T>();
        m.resize(length());
        std::size_t at = 0, k = count;
        T failed = 0;
        for (const std::size_t i : entries) {
            const Entry& e = all[i];
            const bool there = e.from.buffer && !e.from.lost();
            if (e.from.lost()) failed = 1;
            if (!there)
                std::fill_n(m.data() + at, e.count, T{0});
            else if (e.dtype == DType::Float16)
                pack<Half>(e, m.data() + at);
            else if (e.dtype == DType::BFloat16)
                pack<BFloat>(e, m.data() + at);
            else if (e.dtype == DType::Float64)
                pack<double>(e, m.data() + at);
            else
                pack<float>(e, m.data() + at);
            at += e.count;
            m[k++] = there ? 1 : 0;
        }
        m[k] = failed;
    }
    /// False where a process failed.
    template <class T>
    bool take_in(const std::vector<Entry>& all, std::vector<char>& exists, int processes) {
        const std::vector<T>& m = memory<T>();
        const T factor = T{1} / static_cast<T>(processes);
        std::size_t at = 0, k = count;
        for (const std::size_t i : entries) {
            const Entry& e = all[i];
            exists[i] = m[k++] > 0;
            if (e.dtype == DType::Float16)
                unpack<Half>(m.data() + at, e, factor);
            else if (e.dtype == DType::BFloat16)
                unpack<BFloat>(m.data() + at, e, factor);
            else if (e.dtype == DType::Float64)
                unpack<double>(m.data() + at, e, factor);
            else
                unpack<float>(m.data() + at, e, factor);
            at += e.count;
        }
        return m[k] == 0;
    }
};

// One exchange, from its start on the program's thread to its end on the talking one.
struct Round {
    std::vector<Entry> gradients, buffers;
    std::vector<char> exists;  ///< gradients that some process has
    std::shared_ptr<std::vector<Bucket>> buckets;
    std::vector<Source> last;  ///< of the gradients
    std::int64_t signal = 0;
    std::shared_ptr<Fence> fence = std::make_shared<Fence>();  ///< of all results

    void run(Talk& talk);
    /// This process is to end: what waits for the results must not wait for ever.
    void abandon() {
        if (!fence->done())
            fence->signal(std::make_exception_ptr(
                Error("the gradients of this step were not averaged: the process ends")));
    }
};

void Round::run(Talk& talk) {
    std::exception_ptr error;
    Transport& t = talk.transport();
    const int processes = t.size();
    try {
        talk.wait(t.start_all_reduce(&signal, 1, Element::Int64, Op::Max));
        struct Flight {
            Bucket* bucket;
            Transport::Request request;
        };
        std::vector<Flight> flights;
        bool all_well = true;
        // Takes in what has arrived, which also moves on what has not.
        const auto land = [&] {
            std::erase_if(flights, [&](Flight& f) {
                if (!t.ended(f.request)) return false;
                all_well &= f.bucket->wide ? f.bucket->take_in<double>(gradients, exists, processes)
                                           : f.bucket->take_in<float>(gradients, exists, processes);
                return true;
            });
        };
        const auto await = [&](const Source& s) {
            for (int rests = 0; !s.ready() && !s.lost(); land())
                talk.rest(rests);
        };
        for (Bucket& b : *buckets) {
            for (const std::size_t i : b.entries)
                await(gradients[i].from);
            const bool computing = std::any_of(
                last.begin(), last.end(), [](const Source& s) { return !s.ready() && !s.lost(); });
            b.wide ? b.fill<double>(gradients) : b.fill<float>(gradients);
            flights.push_back(
                {&b, t.start_all_reduce(b.data(), b.length(),
                                        b.wide ? Element::Float64 : Element::Float32, Op::Sum)});
            if (computing) ++buckets_early;
            ++buckets_done;
            bytes_done += static_cast<std::int64_t>(b.count * (b.wide ? 8 : 4));
            land();
        }
        for (int rests = 0; !flights.empty(); land())
            talk.rest(rests);
        // A buffer that failed here is process 0's anyway; one that failed there is lost with the
        // process.
        std::size_t bytes = 0;
        for (const Entry& e : buffers) {
            await(e.from);
            bytes += e.count * size_of(e.dtype);
        }
        std::vector<std::byte> packed(bytes);
        std::byte* at = packed.data();
        for (const Entry& e : buffers)
            if (t.rank() == 0) at = copy_out(e, at);
        talk.wait(t.start_broadcast(packed.data(), bytes, 0));
        at = packed.data();
        for (const Entry& e : buffers)
            if (t.rank() != 0) {
                std::memcpy(e.to->memory.host, at, e.count * size_of(e.dtype));
                at += e.count * size_of(e.dtype);
            }
        if (!all_well) {
            for (const Entry& e : gradients)
                if (e.from.lost()) error = e.from.fence->error();
            if (!error)
                error = std::make_exception_ptr(
                    Error("backward failed in another process, so that this step has no "
                          "gradients; its own message says why"));
        }
        ++rounds_done;
    } catch (...) {
        abandon();
        throw;
    }
    fence->signal(error);
}

BufferPtr host_buffer(std::size_t bytes) {
    return runtime::allocate(Device{}, std::max<std::size_t>(bytes, 1));
}

// A leaf whose bytes come with the round.
graph::NodePtr coming(const Entry& e, const Round& round, std::size_t k) {
    auto v = std::make_shared<Value>();
    v->buffer = e.to;
    v->bytes = e.count * size_of(e.dtype);
    v->ready = round.fence;
    v->result = static_cast<std::int32_t>(k);
    return graph::make_leaf(std::move(v), e.dtype, e.shape, Device{});
}

// Nobody else sees these bytes.
bool is_private(const graph::NodePtr& n) {
    return n.use_count() == 1 && n->value.use_count() == 1 && !n->value->shared &&
           !n->value->host_copy && n->value->order == plan::Order::RowMajor;
}

Entry entry_of(const Tensor& like) {
    Entry e;
    e.shape = like.shape();
    e.dtype = like.dtype();
    e.count = static_cast<std::size_t>(like.numel());
    return e;
}

}  // namespace

SyncStats sync_stats() {
    barrier();
    return {rounds_done, buckets_done, buckets_early, bytes_done};
}

struct GradientSync::Impl {
    std::size_t bucket_bytes;
    std::string signature;  ///< of the parameters that the buckets are for
    std::shared_ptr<std::vector<Bucket>> buckets;
    std::shared_ptr<Round> round, before;

    // Buckets hold gradients in the order in which process 0 computes them.
    void make_buckets(const Round& r) {
        std::string now;
        for (const Entry& e : r.gradients)
            now += fmt::format("{} {};", e.count, static_cast<int>(e.dtype));
        if (buckets && now == signature) return;
        signature = now;
        std::vector<std::int64_t> order(r.gradients.size());
        std::iota(order.rbegin(), order.rend(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
            const auto launch = [&](std::int64_t k) {
                const Source& s = r.gradients[static_cast<std::size_t>(k)].from;
                return s.buffer && s.fence ? s.fence->launch_of(s.result) : -1;
            };
            return launch(a) < launch(b);
        });
        broadcast(order.data(), order.size() * sizeof order[0]);
        buckets = std::make_shared<std::vector<Bucket>>();
        for (const bool wide : {false, true}) {
            std::size_t bytes = bucket_bytes;
            for (const std::int64_t at : order) {
                const auto k = static_cast<std::size_t>(at);
                const Entry& e = r.gradients[k];
                if ((e.dtype == DType::Float64) != wide) continue;
                const std::size_t own = e.count * (wide ? 8 : 4);
                if (bytes + own > bucket_bytes) {
                    buckets->emplace_back().wide = wide;
                    bytes = 0;
                }
                buckets->back().entries.push_back(k);
                buckets->back().count += e.count;
                bytes += own;
            }
        }
    }
};

GradientSync::GradientSync(std::size_t bucket_bytes) : impl_(std::make_unique<Impl>()) {
    impl_->bucket_bytes = bucket_bytes;
}
GradientSync::~GradientSync() = default;

int GradientSync::signal_of_all() {
    if (!impl_->before) return 0;
    impl_->before->fence->block();
    return static_cast<int>(impl_->before->signal);
}

void GradientSync::average(const std::vector<Tensor>& parameters,
                           const std::vector<Tensor>& buffers, int signal) {
    flush();
    const auto round = std::make_shared<Round>();
    round->signal = signal;
    const auto take = [](Entry& e, const Tensor& t) {
        const Tensor here = t.detach().to(Device{});  // waits for other devices
        const Value& v = *node_of(here)->value;
        e.from = {v.buffer, v.ready, v.result, v.order};
    };
    for (const Tensor& p : parameters) {
        Entry& e = round->gradients.emplace_back(entry_of(p));
        const Tensor g = p.grad();
        if (g.defined()) {
            take(e, g);
            if (p.device() == Device{} && is_private(g.variable()->node)) e.to = e.from.buffer;
        }
        if (!e.to) e.to = host_buffer(e.count * size_of(e.dtype));
    }
    for (const Tensor& b : buffers) {
        Entry& e = round->buffers.emplace_back(entry_of(b));
        take(e, b);
        e.to = host_buffer(e.count * size_of(e.dtype));
    }
    round->exists.resize(parameters.size());
    impl_->make_buckets(*round);
    round->buckets = impl_->buckets;
    for (const Entry& e : round->gradients)
        if (e.from.fence) round->last.push_back(e.from);
    impl_->before = std::exchange(impl_->round, round);
    // A task may be dropped without having run.
    const std::shared_ptr<Round> task(round.get(), [round](Round* r) { r->abandon(); });
    post([task](Talk& talk) { task->run(talk); });

    const bool leader = place().rank == 0;
    const auto at_home = [](const graph::NodePtr& n, Device d) {
        return d == Device{} ? n : node_of(wrap(n).to(d));
    };
    const NoGrad no_grad;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
        Tensor p = parameters[k];
        if (!p.grad().defined()) {
            round->fence->wait();
            if (!round->exists[k]) continue;
        }
        const graph::NodePtr n =
            at_home(coming(round->gradients[k], *round, k), parameters[k].device());
        if (auto& g = p.variable()->grad)
            g->set(n);
        else
            g = std::make_shared<Variable>(n);
    }
    for (std::size_t k = 0; k < buffers.size() && !leader; ++k)
        bind_leaf(
            *buffers[k].variable(),
            at_home(coming(round->buffers[k], *round, parameters.size() + k), buffers[k].device()));
}

void make_equal(const std::vector<std::pair<std::string, Tensor>>& tensors) {
    if (place().size == 1) return;
    std::string own;
    for (const auto& [name, t] : tensors)
        own += fmt::format("{} {}{}\n", name, name_of(t.dtype()), t.shape().str());
    const std::vector<std::string> all = all_gather(own);
    for (std::size_t k = 1; k < all.size(); ++k)
        if (all[k] != all[0])
            throw ValueError(fmt::format(
                "Accelerator.prepare: process {} has another model than process 0 (the names, "
                "shapes or dtypes of its {} parameters and buffers differ); all processes must "
                "build the same one",
                k, std::count(all[k].begin(), all[k].end(), '\n')));
    const NoGrad no_grad;
    for (const auto& entry : tensors) {
        Tensor t = entry.second;
        const std::size_t bytes = static_cast<std::size_t>(t.numel()) * size_of(t.dtype());
        std::vector<std::byte> packed(bytes);
        std::memcpy(packed.data(), t.raw_data(), bytes);
        broadcast(packed.data(), bytes);
        if (place().rank != 0)
            t.assign_(from_bytes(packed.data(), t.shape(), t.dtype(), t.device()));
    }
}

}  // namespace pippin::dist
