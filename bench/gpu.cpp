// Speed of the GPU backend: products, a copy-like program, training and evaluation. Prints one line
// of JSON a measurement. bench/torch_gpu_peer.py prints the same lines for PyTorch on the same GPU.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>

#include "pippin/models.h"
#include "pippin/pippin.h"

using namespace pippin;

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Seconds of one call, the median of several rounds of `calls` calls each.
double median_time(int rounds, int calls, const std::function<void()>& f) {
    f();
    synchronize();
    std::vector<double> times;
    for (int r = 0; r < rounds; ++r) {
        const double start = now();
        for (int c = 0; c < calls; ++c)
            f();
        synchronize();
        times.push_back((now() - start) / calls);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

void report(const std::string& name, double value, const char* unit) {
    fmt::print("{{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\"}}\n", name, value, unit);
    std::fflush(stdout);
}

void matmul_speed(std::int64_t n, bool transposed, DType dtype) {
    const NoGrad no_grad;
    const Tensor a = rand({n, n}).to(dtype), b0 = rand({n, n}).to(dtype);
    const Tensor b = transposed ? b0.transpose(0, 1) : b0;
    // Alive, so that it is computed.
    Tensor c;
    const int calls = n > 4000 ? 3 : 50;
    const double t = median_time(5, calls, [&] {
        c = matmul(a, b);
        flush();
    });
    const std::string title = fmt::format("matmul {}{}{}", n, transposed ? " transposed" : "",
                                          dtype == float16 ? " fp16" : "");
    report(title, 2 * std::pow(double(n), 3) / t / 1e12, "TFLOP/s");
    // A few elements against sums in double.
    const auto x = a.to(float32).to_vector<float>(), y = b.to(float32).to_vector<float>(),
               z = c.to(float32).to_vector<float>();
    double worst = 0;
    for (std::int64_t k = 0; k < 20; ++k) {
        const std::int64_t i = (k * 7919) % n, j = (k * 104729) % n;
        double sum = 0;
        for (std::int64_t l = 0; l < n; ++l)
            sum += double(x[std::size_t(i * n + l)]) * y[std::size_t(l * n + j)];
        worst = std::max(worst, std::abs(z[std::size_t(i * n + j)] / sum - 1));
    }
    report(title + " error", worst, "relative");
}

void copy_speed(std::int64_t bytes) {
    const NoGrad no_grad;
    const Tensor x = rand({bytes / 4});
    Tensor y;
    const double t = median_time(5, 10, [&] {
        y = x + 1.0;
        flush();
    });
    report("copy-like program, 1 GB", 2.0 * double(bytes) / t / 1e9, "GB/s");
    const double s = median_time(5, 10, [&] {
        y = x.sum();
        flush();
    });
    report("sum, 1 GB", double(bytes) / s / 1e9, "GB/s");
    Tensor z;
    const double w = median_time(5, 10, [&] {
        z = softmax(x.reshape({-1, 1024}), 1);
        flush();
    });
    report("softmax of rows of 1024, 1 GB", 2.0 * double(bytes) / w / 1e9, "GB/s");
    const double c = median_time(5, 10, [&] {
        z = x.reshape({-1, 256}).sum({0});
        flush();
    });
    report("sum of columns (256 of them), 1 GB", double(bytes) / c / 1e9, "GB/s");
}

void model_speed(const std::string& name, std::int64_t batch, bool train, bool fp16,
                 double seconds) {
    manual_seed(0);
    const models::Info& info = models::info(name);
    const nn::ModulePtr model = models::create(name, info.num_classes);
    model->to(default_device());
    model->train(train);
    const Tensor x = models::example_input(info, batch);
    const Tensor y = randint(0, info.num_classes, {batch});
    optim::SGD optimizer(model->parameters(), {.lr = 1e-3, .momentum = 0.9});
    flush();
    synchronize();
    Tensor last;
    const auto step = [&] {
        std::optional<Autocast> autocast;
        if (fp16) autocast.emplace(float16);
        if (train) {
            last = cross_entropy((*model)(x), y);
            optimizer.zero_grad();
            last.backward();
            optimizer.step();
        } else {
            const NoGrad no_grad;
            last = (*model)(x);
            flush();
        }
    };
    const std::string title =
        fmt::format("{} b{} {}{}", name, batch, train ? "train" : "eval", fp16 ? " fp16" : "");
    const double start = now();
    step();
    synchronize();
    const double first = now() - start;
    report(title + " first step", first, "s");
    if (train) report(title + " first loss", last.item<float>(), "");
    const double once = median_time(first < seconds ? 3 : 1, 1, step);
    const int calls = std::clamp(static_cast<int>(seconds / 5 / once), 1, 200);
    const double t = once > seconds ? once : median_time(5, calls, step);
    report(title, double(batch) / t, "samples/s");
    report(title + " peak memory", double(stats().bytes_peak) / (1 << 20), "MiB");
    empty_cache();
    reset_peak_memory();
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Speed of the GPU backend");
    std::string device = "gpu", only;
    double seconds = 2;
    app.add_option("--device", device, "Where to run");
    app.add_option("--seconds", seconds, "Time for each model");
    app.add_option(
        "--only", only,
        "Measure what has this in its name: matmul, copy, or a model (resnet18 b1 train)");
    std::string precision;
    app.add_option("--precision", precision, "Models in fp32 or fp16 (autocast) only");
    std::vector<std::string> models;
    app.add_option("--models", models, "Other models and batches, lenet5:1 say, and nothing else")
        ->delimiter(',');
    bool small = false;
    app.add_flag("--small", small, "Sizes for a machine without a GPU");
    CLI11_PARSE(app, argc, argv);
    try {
        set_default_device(Device(device));
        fmt::print("{{\"device\": \"{}\"}}\n", default_device().description());
        const auto wanted = [&](const std::string& name) {
            return only.empty() || name.find(only) != std::string::npos;
        };
        for (const std::string& m : models) {
            const auto colon = m.find(':');
            const std::int64_t batch = colon == m.npos ? 1 : std::stoll(m.substr(colon + 1));
            for (const bool train : {true, false})
                model_speed(m.substr(0, colon), batch, train, precision == "fp16", seconds);
        }
        if (!models.empty()) return 0;
        if (wanted("matmul"))
            for (const std::int64_t n : small ? std::vector<std::int64_t>{256}
                                              : std::vector<std::int64_t>{1024, 4096, 8192})
                for (const bool transposed : {false, true})
                    for (const DType dtype : {float32, float16})
                        matmul_speed(n, transposed, dtype);
        if (wanted("copy")) copy_speed(small ? 1 << 22 : 1 << 30);
        struct Case {
            const char* model;
            std::int64_t batch;
        };
        const std::vector<Case> cases =
            small ? std::vector<Case>{{"lenet5", 64}}
                  : std::vector<Case>{{"lenet5", 64},   {"lenet5", 1},     {"resnet18", 1},
                                      {"resnet18", 64}, {"resnet50", 128}, {"vgg16", 64},
                                      {"bert_base", 64}};
        for (const Case& c : cases)
            for (const bool fp16 : {false, true})
                for (const bool train : {true, false})
                    if (wanted(
                            fmt::format("{} b{} {}", c.model, c.batch, train ? "train" : "eval")) &&
                        (precision.empty() || precision == (fp16 ? "fp16" : "fp32")))
                        model_speed(c.model, c.batch, train, fp16, seconds);
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
    return 0;
}
