// Time and rate of each heavy kernel over the shapes of LeNet-5 and of ResNets.
//   heavy [--filter TEXT] [--rounds N] [--dtype float32] [--threads N]
// Rounds go over all kernels in turn, so that a slow moment of the machine hits all alike; the
// median and the fastest round are printed. On one thread its processor time is taken, which other
// programs disturb less.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/system.h"
#include "backends/cpu/threads.h"
#include "graph/build.h"
#include "graph/ops/records.h"
#include "pippin/device.h"

namespace {

using namespace pippin;
using plan::Order;
namespace ops = graph::ops;

double seconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
    if (num_threads() == 1) {
        timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    }
#endif
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

struct Timing {
    std::string name;
    plan::HeavyLaunch launch;
    double flops = 0, bytes = 0;
    std::unique_ptr<cpu::HeavyKernel> kernel;
    std::vector<void*> operands;
    void* output = nullptr;
    int repeats = 1;
    std::vector<double> times;
};

// Memory as tensors have it, never given back.
void* allocate(std::size_t bytes) {
    void* data = cpu::allocate_pages(std::max<std::size_t>(bytes, 64));
    std::memset(data, 0, bytes);
    return data;
}

class Bench {
  public:
    Bench(std::string filter, DType dtype) : filter_(std::move(filter)), dtype_(dtype) {}

    // `sizes`: shapes of the inputs; rank-4 ones are maps unless they are in place `weights`.
    void add(const std::string& name, const graph::OpRecord& op, std::vector<std::int64_t> attrs,
             const std::vector<Shape>& sizes, double flops, int weights = -1,
             plan::Activation activation = plan::Activation::None, bool bias = false) {
        if (name.find(filter_) == std::string::npos) return;
        Timing t;
        t.name = name;
        t.flops = flops;
        plan::HeavyLaunch& l = t.launch;
        l.op = &op;
        for (const std::int64_t v : attrs)
            l.attrs.i.push_back(v);
        graph::Inputs inputs;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const bool is_map = sizes[i].rank() == 4 && static_cast<int>(i) != weights;
            plan::Operand o;
            o.shape = sizes[i];
            l.operands.push_back(
                cpu::dense_operand(o, is_map ? Order::ChannelsLast : Order::RowMajor, dtype_));
            inputs.push_back(graph::make_leaf(nullptr, dtype_, sizes[i], Device{}));
        }
        const graph::NodePtr node = graph::make_node(op, inputs, l.attrs);
        l.output.shape = node->shape;
        const bool is_map = node->shape.rank() == 4 && &op != &ops::kConv2dGradWeight;
        l.output = cpu::dense_operand(l.output, is_map ? Order::ChannelsLast : Order::RowMajor,
                                      node->dtype);
        if (bias) {
            plan::Operand b;
            b.shape = {node->shape.rank() == 4 ? node->shape[1] : node->shape.back()};
            l.epilogue.bias = static_cast<std::int32_t>(l.operands.size());
            l.operands.push_back(cpu::dense_operand(b, Order::RowMajor, dtype_));
        }
        l.epilogue.activation = activation;
        t.kernel = cpu::make_heavy(l);
        fill(t);
        t.kernel->scratch = allocate(t.kernel->scratch_bytes);
        timings_.push_back(std::move(t));
    }

    void conv(const std::string& name, std::int64_t n, std::int64_t ci, std::int64_t size,
              std::int64_t co, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
              bool grad_input, plan::Activation activation = plan::Activation::None,
              bool bias = false) {
        const std::int64_t out = (size + 2 * pad - kernel) / stride + 1;
        const Shape x{n, ci, size, size}, w{co, ci, kernel, kernel}, y{n, co, out, out};
        std::vector<std::int64_t> a{stride, stride, pad, pad, 1, 1, 1};
        const double flops = 2.0 * static_cast<double>(y.numel() * ci * kernel * kernel);
        add(name + " forward", ops::kConv2d, a, {x, w}, flops, 1, activation, bias);
        std::vector<std::int64_t> at_x = a, at_w = a;
        at_x.insert(at_x.end(), {size, size});
        at_w.insert(at_w.end(), {kernel, kernel});
        if (grad_input) add(name + " grad_input", ops::kConv2dGradInput, at_x, {y, w}, flops, 1);
        add(name + " grad_weight", ops::kConv2dGradWeight, at_w, {x, y}, flops);
    }

    // Every channel has a kernel of its own.
    void depthwise(const std::string& name, std::int64_t n, std::int64_t channels,
                   std::int64_t size, std::int64_t kernel, std::int64_t stride) {
        const std::int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
        const Shape x{n, channels, size, size}, w{channels, 1, kernel, kernel};
        const Shape y{n, channels, out, out};
        std::vector<std::int64_t> a{stride, stride, pad, pad, 1, 1, channels};
        const double flops = 2.0 * static_cast<double>(y.numel() * kernel * kernel);
        add(name + " forward", ops::kConv2d, a, {x, w}, flops, 1);
        std::vector<std::int64_t> at_x = a, at_w = a;
        at_x.insert(at_x.end(), {size, size});
        at_w.insert(at_w.end(), {kernel, kernel});
        add(name + " grad_input", ops::kConv2dGradInput, at_x, {y, w}, flops, 1);
        add(name + " grad_weight", ops::kConv2dGradWeight, at_w, {x, y}, flops);
    }

    void linear(const std::string& name, std::int64_t batch, std::int64_t in, std::int64_t out,
                plan::Activation activation) {
        const double flops = 2.0 * static_cast<double>(batch * in * out);
        add(name + " forward", ops::kMatmul, {0, 1}, {{batch, in}, {out, in}}, flops, -1,
            activation, true);
        add(name + " grad_input", ops::kMatmul, {0, 0}, {{batch, out}, {out, in}}, flops);
        add(name + " grad_weight", ops::kMatmul, {1, 0}, {{batch, out}, {batch, in}}, flops);
    }

    void pool(const std::string& name, std::int64_t n, std::int64_t c, std::int64_t size,
              std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
        const std::int64_t out = (size + 2 * pad - kernel) / stride + 1;
        const Shape x{n, c, size, size}, y{n, c, out, out};
        std::vector<std::int64_t> a{kernel, kernel, stride, stride, pad, pad, 1, 1, 0, 1};
        add(name + " max", ops::kMaxPool2d, a, {x}, 0);
        add(name + " max_grad", ops::kMaxPool2dGrad, a, {x, y}, 0);
        add(name + " avg", ops::kAvgPool2d, a, {x}, 0);
        a.insert(a.end(), {size, size});
        add(name + " avg_grad", ops::kAvgPool2dGrad, a, {y}, 0);
    }

    void run(int rounds) {
        for (Timing& t : timings_) {
            t.kernel->run(t.operands.data(), t.output);
            const double begin = seconds();
            t.kernel->run(t.operands.data(), t.output);
            const double once = std::max(1e-7, seconds() - begin);
            t.repeats = std::clamp(static_cast<int>(0.01 / once), 1, 1000);
        }
        for (int r = 0; r < rounds; ++r)
            for (Timing& t : timings_) {
                t.kernel->run(t.operands.data(), t.output);
                const double begin = seconds();
                for (int k = 0; k < t.repeats; ++k)
                    t.kernel->run(t.operands.data(), t.output);
                t.times.push_back((seconds() - begin) / t.repeats);
            }
        fmt::print("{:44} {:>10} {:>10} {:>9} {:>8}   ({} threads)\n", "kernel", "median ms",
                   "best ms", "GFLOP/s", "GB/s", num_threads());
        for (Timing& t : timings_) {
            std::sort(t.times.begin(), t.times.end());
            const double median = t.times[t.times.size() / 2], best = t.times[0];
            fmt::print("{:44} {:10.4f} {:10.4f} {:9.1f} {:8.1f}\n", t.name, median * 1e3,
                       best * 1e3, t.flops / best / 1e9, t.bytes / best / 1e9);
        }
    }

  private:
    void fill(Timing& t) {
        std::mt19937 gen(1);
        for (const plan::Operand& o : t.launch.operands) {
            t.bytes += static_cast<double>(cpu::bytes_of(o));
            void* data = allocate(cpu::bytes_of(o));
            for (std::int64_t i = 0; i < o.shape.numel(); ++i) {
                const float v = static_cast<float>(gen() % 2001) / 1000.f - 1.f;
                if (dtype_ == DType::BFloat16) static_cast<BFloat*>(data)[i] = BFloat(v);
                if (dtype_ == DType::Float32) static_cast<float*>(data)[i] = v;
            }
            t.operands.push_back(data);
        }
        t.bytes += static_cast<double>(cpu::bytes_of(t.launch.output));
        t.output = allocate(cpu::bytes_of(t.launch.output));
    }

    std::string filter_;
    DType dtype_;
    std::vector<Timing> timings_;
};

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Time and rate of each heavy kernel"};
    std::string filter, dtype = "float32";
    int rounds = 15, threads = 0;
    app.add_option("--filter", filter, "only kernels whose name contains this");
    app.add_option("--rounds", rounds, "how often each is timed");
    app.add_option("--dtype", dtype, "float32 or bfloat16")
        ->check(CLI::IsMember({"float32", "bfloat16"}));
    app.add_option("--threads", threads, "how many (0: as many as there are cores)");
    CLI11_PARSE(app, argc, argv);
    if (threads > 0) set_num_threads(threads);
#ifndef PIPPIN_NO_OPENMP
    omp_set_num_threads(num_threads());  // for oneDNN
#endif

    Bench b(filter, dtype == "float32" ? DType::Float32 : DType::BFloat16);
    using plan::Activation;
    b.conv("lenet conv 1-6 5x5", 64, 1, 28, 6, 5, 1, 2, false, Activation::Tanh, true);
    b.conv("lenet conv 6-16 5x5", 64, 6, 14, 16, 5, 1, 0, true, Activation::Tanh, true);
    b.linear("lenet linear 400-120", 64, 400, 120, Activation::Tanh);
    b.linear("lenet linear 120-84", 64, 120, 84, Activation::Tanh);
    b.linear("lenet linear 84-10", 64, 84, 10, Activation::None);
    b.pool("lenet pool 6x28 2x2", 64, 6, 28, 2, 2, 0);
    b.pool("lenet pool 16x10 2x2", 64, 16, 10, 2, 2, 0);

    b.conv("cifar conv 3-64 3x3", 16, 3, 32, 64, 3, 1, 1, false);
    b.conv("cifar conv 3-16 5x5", 64, 3, 32, 16, 5, 1, 2, false);
    b.conv("cifar conv 3-6 5x5", 64, 3, 32, 6, 5, 1, 0, false);
    b.conv("mnist conv 1-32 3x3", 64, 1, 28, 32, 3, 1, 1, false);
    b.conv("cifar conv 16-16 3x3", 64, 16, 32, 16, 3, 1, 1, true);

    b.conv("cifar conv 8-32 3x3", 64, 8, 16, 32, 3, 1, 1, true);
    b.conv("cifar conv 4-10 5x5", 64, 4, 16, 10, 5, 1, 2, true);

    b.conv("resnet conv 3-64 7x7 s2", 16, 3, 224, 64, 7, 2, 3, false);
    b.pool("resnet pool 64x112 3x3 s2", 16, 64, 112, 3, 2, 1);
    b.conv("resnet18 conv 64-64 3x3", 16, 64, 56, 64, 3, 1, 1, true);
    b.conv("resnet18 conv 64-128 3x3 s2", 16, 64, 56, 128, 3, 2, 1, true);
    b.conv("resnet18 conv 64-128 1x1 s2", 16, 64, 56, 128, 1, 2, 0, true);
    b.conv("resnet18 conv 128-128 3x3", 16, 128, 28, 128, 3, 1, 1, true);
    b.conv("resnet18 conv 256-256 3x3", 16, 256, 14, 256, 3, 1, 1, true);
    b.conv("resnet18 conv 512-512 3x3", 16, 512, 7, 512, 3, 1, 1, true);
    b.conv("resnet50 conv 64-64 1x1", 16, 64, 56, 64, 1, 1, 0, true);
    b.conv("resnet50 conv 64-256 1x1", 16, 64, 56, 256, 1, 1, 0, true);
    b.conv("resnet50 conv 256-64 1x1", 16, 256, 56, 64, 1, 1, 0, true);
    b.conv("resnet50 conv 512-128 1x1", 16, 512, 28, 128, 1, 1, 0, true);
    b.conv("resnet50 conv 128-512 1x1", 16, 128, 28, 512, 1, 1, 0, true);
    b.conv("resnet50 conv 1024-256 1x1", 16, 1024, 14, 256, 1, 1, 0, true);
    b.conv("resnet50 conv 2048-512 1x1", 16, 2048, 7, 512, 1, 1, 0, true);
    b.conv("resnet50 conv 256-512 1x1 s2", 16, 256, 56, 512, 1, 2, 0, true);
    b.conv("resnet50 conv 1024-2048 1x1 s2", 16, 1024, 14, 2048, 1, 2, 0, true);
    b.conv("resnet50 conv 128-128 3x3 s2", 16, 128, 56, 128, 3, 2, 1, true);
    b.conv("resnet50 conv 512-512 3x3 s2", 16, 512, 14, 512, 3, 2, 1, true);
    b.depthwise("convmixer depthwise 768x32 7x7", 4, 768, 32, 7, 1);
    b.depthwise("efficient depthwise 32x112 3x3", 4, 32, 112, 3, 1);
    b.depthwise("efficient depthwise 96x112 3x3 s2", 4, 96, 112, 3, 2);
    b.depthwise("efficient depthwise 144x56 5x5 s2", 4, 144, 56, 5, 2);
    b.depthwise("efficient depthwise 240x28 5x5", 4, 240, 28, 5, 1);
    b.depthwise("efficient depthwise 480x14 3x3", 4, 480, 14, 3, 1);
    b.depthwise("efficient depthwise 1152x7 5x5", 4, 1152, 7, 5, 1);
    b.add("resnet50 pool global", ops::kAdaptiveAvgPool2d, {1, 1}, {{16, 2048, 7, 7}}, 0);
    b.add("resnet50 pool global grad", ops::kAdaptiveAvgPool2dGrad, {7, 7}, {{16, 2048, 1, 1}}, 0);
    b.linear("resnet50 linear 2048-1000", 16, 2048, 1000, Activation::None);
    for (const std::int64_t size : {32, 64, 128, 256, 352, 512, 1024})
        b.linear(fmt::format("square {}", size), size, size, size, Activation::None);
    // What 1x1 convolutions of ResNet-50 are as products.
    b.linear("as product 50176x64-64", 50176, 64, 64, Activation::None);
    b.linear("as product 50176x64-256", 50176, 64, 256, Activation::None);
    b.linear("as product 50176x256-64", 50176, 256, 64, Activation::None);
    b.linear("as product 12544x128-512", 12544, 128, 512, Activation::None);
    b.linear("as product 12544x512-128", 12544, 512, 128, Activation::None);
    b.linear("as product 3136x1024-256", 3136, 1024, 256, Activation::None);
    b.linear("as product 784x2048-512", 784, 2048, 512, Activation::None);
    b.linear("mlp 128x784-256", 128, 784, 256, Activation::Relu);
    b.linear("mlp 32x512-512", 32, 512, 512, Activation::Relu);
    b.linear("bert 1024x768-768", 1024, 768, 768, Activation::None);
    b.linear("bert 1024x768-3072", 1024, 768, 3072, Activation::None);
    b.linear("bert 1024x3072-768", 1024, 3072, 768, Activation::None);
    b.linear("vit 3152x192-576", 3152, 192, 576, Activation::None);
    b.run(rounds);
    return 0;
}
