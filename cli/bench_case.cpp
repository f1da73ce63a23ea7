#include "bench_case.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "pippin/models.h"
#include "pippin/pippin.h"
#include "system.h"

namespace pippin::cli {
namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

nlohmann::json to_json(const BenchCase& c) {
    const models::Info& info = models::info(c.model);
    return {{"model", c.model},
            {"mode", c.mode},
            {"precision", c.precision},
            {"batch", c.batch},
            {"seconds", c.seconds},
            {"threads", c.threads},
            // For the PyTorch side, which has no registry.
            {"input", std::vector<std::int64_t>(info.input.begin(), info.input.end())},
            {"vocabulary", info.vocabulary},
            {"num_classes", info.num_classes}};
}

BenchCase bench_case(const nlohmann::json& j) {
    return {j.at("model"), j.at("mode"),    j.at("precision"),
            j.at("batch"), j.at("seconds"), j.at("threads")};
}

std::function<void()> bench_step(const BenchCase& c) {
    set_num_threads(c.threads);
    manual_seed(0);
    const bool training = c.mode == "train";
    const models::Info& info = models::info(c.model);
    const nn::ModulePtr model = models::create(c.model, info.num_classes);
    model->train(training);
    const Tensor x = models::example_input(info, c.batch);
    const Tensor y = randint(0, info.num_classes, {c.batch});
    const auto optimizer = std::make_shared<optim::SGD>(
        model->parameters(), optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
    synchronize();
    return [=, bf16 = c.precision == "bf16"] {
        std::optional<Autocast> autocast;
        if (bf16) autocast.emplace(bfloat16);
        if (training) {
            const Tensor loss = cross_entropy((*model)(x), y);
            optimizer->zero_grad();
            loss.backward();
            optimizer->step();
        } else {
            const NoGrad no_grad;
            const Tensor logits = (*model)(x);  // alive, so that flush computes it
            flush();
        }
        synchronize();
    };
}

nlohmann::json result_of(const std::vector<std::string>& command) {
    const std::string text = output_of(command);
    // Warnings may come first; the result is the last line.
    const auto end = text.find_last_not_of("\n");
    if (end == std::string::npos) throw Error(command[0] + " printed nothing");
    const auto start = text.rfind('\n', end);
    return nlohmann::json::parse(text.substr(start == std::string::npos ? 0 : start + 1));
}

nlohmann::json bench_in_child(const nlohmann::json& what) {
    return result_of({own_path(), "bench", "--one", what.dump()});
}

nlohmann::json run_bench_case(const BenchCase& c) {
    const std::function<void()> step = bench_step(c);
    const double start = now();
    step();
    const double first = now() - start;
    for (int i = 0; i < 2; ++i)
        step();
    const std::int64_t launches = stats().launches;
    step();
    const std::int64_t a_step = stats().launches - launches;
    std::vector<double> times;
    const double end = now() + c.seconds;
    while (times.size() < 3 || now() < end) {
        const double t = now();
        step();
        times.push_back(now() - t);
    }
    std::sort(times.begin(), times.end());
    return {{"samples_per_s", double(c.batch) / times[times.size() / 2]},
            {"first_step_s", first},
            {"peak_bytes", peak_resident_bytes()},
            {"launches", a_step}};
}

}  // namespace pippin::cli
