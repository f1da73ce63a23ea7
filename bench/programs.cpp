// Fused programs on the processor: bytes per second beside a plain copy of memory, and time per
// element.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backends/cpu/program_kernel.h"
#include "backends/cpu/threads.h"

namespace {

using namespace pippin;
using plan::Form;
using plan::Instr;
using plan::Opcode;

// Just enough to write programs down.
struct Builder {
    plan::Program p;
    int stage = 0;
    bool kept = false;
    std::int64_t read = 0, written = 0;  // bytes of a run

    Builder(Form form, std::vector<std::int64_t> extents, int split) {
        p.form = form;
        p.rank = static_cast<int>(extents.size());
        p.split = split;
        for (std::size_t d = 0; d < extents.size(); ++d)
            p.extents[d] = extents[d];
    }
    std::int32_t push(Instr i) {
        i.stage = static_cast<std::uint8_t>(stage);
        i.kept = kept;
        p.body.push_back(i);
        return static_cast<std::int32_t>(p.body.size() - 1);
    }
    std::int32_t access(std::vector<std::int64_t> strides, bool writes, DType t) {
        plan::Access a;
        a.dtype = t;
        a.writes = writes;
        std::int64_t bytes = static_cast<std::int64_t>(size_of(t));
        for (std::size_t d = 0; d < strides.size(); ++d) {
            a.strides[d] = strides[d];
            if (strides[d]) bytes *= p.extents[d];
        }
        (writes ? written : read) += bytes;
        p.accesses.push_back(a);
        return static_cast<std::int32_t>(p.accesses.size() - 1);
    }
    std::int32_t load(std::vector<std::int64_t> strides, DType t = DType::Float32) {
        Instr i;
        i.op = Opcode::Load;
        i.aux = access(std::move(strides), false, t);
        return push(i);
    }
    void store(std::int32_t v, std::vector<std::int64_t> strides, DType t = DType::Float32) {
        Instr i;
        i.op = Opcode::Store;
        i.a = v;
        i.aux = access(std::move(strides), true, t);
        push(i);
    }
    std::int32_t op(Opcode o, std::int32_t a, std::int32_t b = -1, std::int32_t c = -1) {
        Instr i;
        i.op = o;
        i.a = a, i.b = b, i.c = c;
        return push(i);
    }
    std::int32_t constant(double x) {
        Instr i;
        i.op = Opcode::Const;
        i.imm = x;
        return push(i);
    }
    std::int32_t scalar(int n) {
        Instr i;
        i.op = Opcode::Scalar;
        i.aux = n;
        return push(i);
    }
};

void run_program(benchmark::State& state, const Builder& b) {
    cpu::ProgramKernel kernel(b.p);
    std::vector<std::vector<float>> memory;
    std::vector<void*> pointers;
    for (const auto& a : b.p.accesses) {
        std::int64_t last = 0;
        for (int d = 0; d < b.p.rank; ++d)
            last += a.strides[static_cast<std::size_t>(d)] *
                    (b.p.extents[static_cast<std::size_t>(d)] - 1);
        memory.emplace_back(static_cast<std::size_t>(last) + 1);
        for (std::size_t k = 0; k < memory.back().size(); ++k)
            memory.back()[k] = static_cast<float>((k * 37) % 1001) * 0.002f - 1.0f;
    }
    for (auto& m : memory)
        pointers.push_back(m.data());
    const cpu::ProgramKernel::Run run{-1, pointers.data()};
    const double numbers[] = {0.001, 0.9, 0.999, 1e-8};
    std::vector<std::uint64_t> scalars(4);
    std::memcpy(scalars.data(), numbers, sizeof numbers);
    for (auto _ : state)
        kernel.run(std::span(&run, 1), scalars);
    const auto elements = static_cast<double>(b.p.outer() * b.p.inner());
    state.counters["GB/s"] = benchmark::Counter(static_cast<double>(b.read + b.written) * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
    state.counters["s/element"] = benchmark::Counter(
        elements, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void copy(benchmark::State& state) {
    const std::int64_t n = state.range(0);
    std::vector<float> a(static_cast<std::size_t>(n), 1.0f), b(a.size());
    for (auto _ : state)
        cpu::parallel_ranges(n, n, [&](std::int64_t begin, std::int64_t end, int) {
            std::memcpy(b.data() + begin, a.data() + begin,
                        static_cast<std::size_t>(end - begin) * 4);
        });
    state.counters["GB/s"] = benchmark::Counter(static_cast<double>(n) * 8e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void saxpy(benchmark::State& state) {
    Builder b(Form::Map, {state.range(0)}, 1);
    const auto x = b.load({1}), y = b.load({1});
    b.store(b.op(Opcode::Add, b.op(Opcode::Mul, b.scalar(0), x), y), {1});
    run_program(state, b);
}

void tanh(benchmark::State& state) {
    Builder b(Form::Map, {state.range(0)}, 1);
    b.store(b.op(Opcode::Tanh, b.load({1})), {1});
    run_program(state, b);
}

void unary(benchmark::State& state, Opcode o) {
    Builder b(Form::Map, {16384}, 1);
    auto x = b.load({1});
    if (o == Opcode::Log || o == Opcode::Sqrt || o == Opcode::Rsqrt) x = b.op(Opcode::Abs, x);
    b.store(b.op(o, x), {1});
    run_program(state, b);
}

void bias_tanh(benchmark::State& state) {
    Builder b(Form::Map, {64 * 28 * 28, 6}, 2);
    b.store(b.op(Opcode::Tanh, b.op(Opcode::Add, b.load({6, 1}), b.load({0, 1}))), {6, 1});
    run_program(state, b);
}

void relu_backward(benchmark::State& state) {
    Builder b(Form::Map, {state.range(0)}, 1);
    const auto y = b.load({1}), g = b.load({1});
    const auto zero = b.constant(0);
    Instr compare;
    compare.op = Opcode::Lt;
    compare.type = DType::Bool;
    compare.a = zero, compare.b = y;
    const auto positive = b.push(compare);
    b.store(b.op(Opcode::Select, positive, g, zero), {1});
    run_program(state, b);
}

void batch_norm_statistics(benchmark::State& state) {
    const std::int64_t rows = state.range(0), c = state.range(1);
    Builder b(Form::ColReduce, {rows, c}, 1);
    const auto x = b.load({c, 1});
    const auto sum = b.op(Opcode::ReduceSum, x), m2 = b.op(Opcode::ReduceM2, x);
    b.stage = 1;
    b.kept = true;
    const auto n = b.constant(1.0 / static_cast<double>(rows));
    b.store(b.op(Opcode::Mul, sum, n), {0, 1});
    b.store(b.op(Opcode::Mul, m2, n), {0, 1});
    run_program(state, b);
}

void batch_norm_apply_relu(benchmark::State& state) {
    const std::int64_t rows = state.range(0), c = state.range(1);
    Builder b(Form::Map, {rows, c}, 2);
    const auto x = b.load({c, 1}), mean = b.load({0, 1}), var = b.load({0, 1});
    const auto gamma = b.load({0, 1}), beta = b.load({0, 1});
    const auto r = b.op(Opcode::Rsqrt, b.op(Opcode::Add, b.op(Opcode::Abs, var), b.constant(1e-5)));
    const auto y = b.op(Opcode::Mul, b.op(Opcode::Sub, x, mean), b.op(Opcode::Mul, r, gamma));
    b.store(b.op(Opcode::Relu, b.op(Opcode::Add, y, beta)), {c, 1});
    run_program(state, b);
}

void batch_norm_backward_sums(benchmark::State& state) {
    const std::int64_t rows = state.range(0), c = state.range(1);
    Builder b(Form::ColReduce, {rows, c}, 1);
    const auto x = b.load({c, 1}), g = b.load({c, 1}), mean = b.load({0, 1}), r = b.load({0, 1});
    const auto normal = b.op(Opcode::Mul, b.op(Opcode::Sub, x, mean), r);
    const auto sum = b.op(Opcode::ReduceSum, g);
    const auto dot = b.op(Opcode::ReduceSum, b.op(Opcode::Mul, g, normal));
    b.stage = 1;
    b.kept = true;
    b.store(sum, {0, 1});
    b.store(dot, {0, 1});
    run_program(state, b);
}

void softmax(benchmark::State& state) {
    const std::int64_t rows = state.range(0), c = state.range(1);
    Builder b(Form::RowReduce, {rows, c}, 1);
    const auto x = b.load({c, 1});
    const auto most = b.op(Opcode::ReduceMax, x);
    b.stage = 1;
    const auto e = b.op(Opcode::Exp, b.op(Opcode::Sub, x, most));
    const auto sum = b.op(Opcode::ReduceSum, e);
    b.stage = 2;
    b.store(b.op(Opcode::Div, e, sum), {c, 1});
    run_program(state, b);
}

void layer_norm(benchmark::State& state) {
    const std::int64_t rows = state.range(0), c = state.range(1);
    Builder b(Form::RowReduce, {rows, c}, 1);
    const auto x = b.load({c, 1});
    const auto sum = b.op(Opcode::ReduceSum, x), m2 = b.op(Opcode::ReduceM2, x);
    b.stage = 1;
    b.kept = true;
    const auto n = b.constant(1.0 / static_cast<double>(c));
    const auto mean = b.op(Opcode::Mul, sum, n);
    const auto r =
        b.op(Opcode::Rsqrt, b.op(Opcode::Add, b.op(Opcode::Mul, m2, n), b.constant(1e-5)));
    b.kept = false;
    const auto y = b.op(Opcode::Mul, b.op(Opcode::Sub, x, mean), r);
    b.store(b.op(Opcode::Add, b.op(Opcode::Mul, y, b.load({0, 1})), b.load({0, 1})), {c, 1});
    run_program(state, b);
}

void sum_all(benchmark::State& state) {
    Builder b(Form::RowReduce, {state.range(0)}, 0);
    const auto sum = b.op(Opcode::ReduceSum, b.load({1}));
    b.stage = 1;
    b.kept = true;
    b.store(sum, {0});
    run_program(state, b);
}

void bias_gradient(benchmark::State& state) {
    Builder b(Form::ColReduce, {state.range(0), state.range(1)}, 1);
    const auto sum = b.op(Opcode::ReduceSum, b.load({state.range(1), 1}));
    b.stage = 1;
    b.kept = true;
    b.store(sum, {0, 1});
    run_program(state, b);
}

Builder adam_step(std::int64_t n) {
    Builder b(Form::Map, {n}, 1);
    const auto p = b.load({1}), g = b.load({1}), m = b.load({1}), v = b.load({1});
    const auto lr = b.scalar(0), b1 = b.scalar(1), b2 = b.scalar(2), eps = b.scalar(3);
    const auto one = b.constant(1);
    const auto c1 = b.op(Opcode::Sub, one, b1), c2 = b.op(Opcode::Sub, one, b2);
    const auto m2 = b.op(Opcode::Add, b.op(Opcode::Mul, m, b1), b.op(Opcode::Mul, g, c1));
    const auto v2 =
        b.op(Opcode::Add, b.op(Opcode::Mul, v, b2), b.op(Opcode::Mul, b.op(Opcode::Mul, g, g), c2));
    const auto d = b.op(Opcode::Add, b.op(Opcode::Sqrt, v2), eps);
    const auto p2 = b.op(Opcode::Sub, p, b.op(Opcode::Div, b.op(Opcode::Mul, m2, lr), d));
    b.store(p2, {1});
    b.store(m2, {1});
    b.store(v2, {1});
    return b;
}

void adam(benchmark::State& state) { run_program(state, adam_step(state.range(0))); }

// An optimizer's update of many parameters, in place, as one batched launch.
void adam_batched(benchmark::State& state) {
    const Builder b = adam_step(10);
    cpu::ProgramKernel kernel(b.p);
    const std::int64_t segments = state.range(0), n = state.range(1);
    std::vector<std::vector<float>> memory;
    for (std::int64_t s = 0; s < 4 * segments; ++s)
        memory.emplace_back(static_cast<std::size_t>(n), 0.5f);
    std::vector<void*> pointers;
    for (std::size_t s = 0; s < static_cast<std::size_t>(segments); ++s)
        for (const std::size_t k : {0, 1, 2, 3, 0, 2, 3})
            pointers.push_back(memory[4 * s + k].data());
    std::vector<cpu::ProgramKernel::Run> runs;
    for (std::int64_t s = 0; s < segments; ++s)
        runs.push_back({n, pointers.data() + 7 * s});
    const double numbers[] = {0.001, 0.9, 0.999, 1e-8};
    std::vector<std::uint64_t> scalars(4);
    std::memcpy(scalars.data(), numbers, sizeof numbers);
    for (auto _ : state)
        kernel.run(runs, scalars);
    state.counters["s/segment"] = benchmark::Counter(
        static_cast<double>(segments),
        benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void dropout(benchmark::State& state) {
    Builder b(Form::Map, {state.range(0)}, 1);
    Instr iota;
    iota.op = Opcode::Iota;
    iota.type = DType::Int64;
    iota.aux = b.access({0}, false, DType::Float32);
    b.p.accesses.back().strides[0] = 1;
    const auto at = b.push(iota);
    Instr random;
    random.op = Opcode::RandomUniform;
    random.a = at;
    random.aux = 0;
    const auto u = b.push(random);
    Instr less;
    less.op = Opcode::Lt;
    less.type = DType::Bool;
    less.a = b.constant(0.1), less.b = u;
    const auto stays = b.push(less);
    const auto x = b.load({1});
    const auto scale = b.constant(1 / 0.9), zero = b.constant(0);
    b.store(b.op(Opcode::Select, stays, b.op(Opcode::Mul, x, scale), zero), {1});
    run_program(state, b);
}

void to_bfloat16(benchmark::State& state) {
    Builder b(Form::Map, {state.range(0)}, 1);
    b.store(b.load({1}), {1}, DType::BFloat16);
    run_program(state, b);
}

void nchw_to_nhwc(benchmark::State& state) {
    const std::int64_t c = state.range(0), hw = state.range(1);
    Builder b(Form::Map, {16, hw, c}, 3);
    b.store(b.load({c * hw, 1, hw}), {c * hw, c, 1});
    run_program(state, b);
}

BENCHMARK(copy)->Arg(16384)->Arg(1 << 20)->Arg(3 << 20)->Arg(64 << 20);
BENCHMARK(saxpy)->Arg(10)->Arg(1000)->Arg(16384)->Arg(1 << 20)->Arg(3 << 20)->Arg(16 << 20)->Arg(
    64 << 20);
BENCHMARK(tanh)->Arg(416000);
BENCHMARK(bias_tanh);
BENCHMARK_CAPTURE(unary, exp, Opcode::Exp);
BENCHMARK_CAPTURE(unary, log, Opcode::Log);
BENCHMARK_CAPTURE(unary, sigmoid, Opcode::Sigmoid);
BENCHMARK_CAPTURE(unary, erf, Opcode::Erf);
BENCHMARK_CAPTURE(unary, sin, Opcode::Sin);
BENCHMARK_CAPTURE(unary, rsqrt, Opcode::Rsqrt);
BENCHMARK_CAPTURE(unary, relu, Opcode::Relu);
BENCHMARK(relu_backward)->Arg(16384)->Arg(4 << 20);
BENCHMARK(batch_norm_statistics)->Args({50176, 64})->Args({50176, 6})->Args({3136, 512});
BENCHMARK(batch_norm_apply_relu)
    ->Args({50176, 64})
    ->Args({50176, 6})
    ->Args({3136, 64})
    ->Args({784, 256})
    ->Args({196, 1024});
BENCHMARK(batch_norm_backward_sums)
    ->Args({50176, 64})
    ->Args({3136, 64})
    ->Args({784, 256})
    ->Args({196, 1024});
BENCHMARK(softmax)->Args({64, 10})->Args({64, 1000})->Args({1536, 128})->Args({64, 30522});
BENCHMARK(layer_norm)->Args({4096, 768});
BENCHMARK(sum_all)->Arg(16384)->Arg(10 << 20);
BENCHMARK(bias_gradient)->Args({64, 10})->Args({64, 4096})->Args({8192, 768});
BENCHMARK(adam)->Arg(10)->Arg(4096)->Arg(1 << 20);
BENCHMARK(adam_batched)->Args({60, 10})->Args({60, 20000});
BENCHMARK(dropout)->Arg(16384)->Arg(1 << 20);
BENCHMARK(to_bfloat16)->Arg(16384)->Arg(4 << 20);
BENCHMARK(nchw_to_nhwc)->Args({3, 50176})->Args({64, 3136})->Args({2048, 49})->Args({4096, 256});

}  // namespace

int main(int argc, char** argv) {
    // One thread and its own processor time: what other programs do disturbs that least.
    const char* threads = std::getenv("PIPPIN_BENCH_THREADS");
    pippin::set_num_threads(threads ? std::max(1, std::atoi(threads)) : 1);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
