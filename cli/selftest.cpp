// pippin test: trains y = a x + b on every device in every precision and checks what training rests
// on: the loader, the random state, checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "commands.h"
#include "pippin/accelerator.h"
#include "pippin/pippin.h"
#include "processes.h"
#include "system.h"
#include "train/distributed.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) { throw Error(what); }

data::TensorDataset line_samples(int count = 96) {
    std::vector<float> x, y;
    for (int i = 0; i < count; ++i) {
        x.push_back(static_cast<float>(i * 37 % 96) / 48 - 1);
        y.push_back(2 * x.back() + 3 + 0.1f * static_cast<float>(i % 5 - 2));
    }
    return data::TensorDataset(tensor(x, {count, 1}), tensor(y, {count, 1}));
}

struct Line {
    double a = 0, b = 0;
};

// Three epochs of SGD with a rate of 0.1 by hand, in double precision, in the loader's order.
Line by_hand(data::DataLoader& loader) {
    Line l;
    for (int epoch = 0; epoch < 3; ++epoch)
        for (const auto& batch : loader) {
            const auto x = batch.data.to_vector<double>(), y = batch.target.to_vector<double>();
            double da = 0, db = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double error = l.a * x[i] + l.b - y[i];
                da += 2 * error * x[i] / static_cast<double>(x.size());
                db += 2 * error / static_cast<double>(x.size());
            }
            l.a -= 0.1 * da;
            l.b -= 0.1 * db;
        }
    return l;
}

Line trained(Accelerator& accelerator, data::DataLoader& loader) {
    const auto model = nn::make<nn::Linear>(1, 1);
    {
        const NoGrad no_grad;
        model->weight.zero_();
        model->bias.zero_();
    }
    optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    accelerator.prepare(*model, optimizer, loader);
    for (int epoch = 0; epoch < 3; ++epoch)
        for (const auto& batch : loader) {
            Tensor loss;
            {
                const auto autocast = accelerator.autocast();
                loss = mse_loss((*model)(batch.data), batch.target);
            }
            accelerator.backward(loss);
            optimizer.step();
            optimizer.zero_grad();
        }
    return {model->weight.item<double>(), model->bias.item<double>()};
}

void check_training(Device device, const char* precision, double tolerance) {
    set_default_device(device);
    data::DataLoader loader(line_samples(), {.batch_size = 16, .shuffle = true, .seed = 42});
    const Line want = by_hand(loader);
    loader.set_epoch(0);
    // A scale at which no step overflows: a skipped one would leave another line.
    Accelerator accelerator(
        {.mixed_precision = precision, .scaler = {.init_scale = 256}, .quiet = true});
    const Line have = trained(accelerator, loader);
    if (!(std::fabs(have.a - want.a) <= tolerance && std::fabs(have.b - want.b) <= tolerance))
        fail(
            fmt::format("training on {} in precision {} gave a = {:.6f}, b = {:.6f} where {:.6f} "
                        "and {:.6f} are right",
                        device.str(), precision, have.a, have.b, want.a, want.b));
    fmt::print("training on {} in precision {}: a = {:.4f}, b = {:.4f}, as by hand\n", device.str(),
               precision, have.a, have.b);
}

void check_loader() {
    for (const int workers : {0, 2}) {
        data::DataLoader loader(line_samples(), {.batch_size = 20,
                                                 .shuffle = true,
                                                 .seed = 3,
                                                 .workers = workers,
                                                 .device = Device(Device::Type::CPU)});
        std::vector<double> seen;
        for (const auto& batch : loader)
            for (const double v : batch.data.to_vector<double>())
                seen.push_back(v);
        std::sort(seen.begin(), seen.end());
        if (seen.size() != 96 || std::adjacent_find(seen.begin(), seen.end()) != seen.end())
            fail(fmt::format("a loader with {} workers did not give each sample once", workers));
    }
    fmt::print("loader: each sample once an epoch, with and without workers\n");
}

void check_random(Device device) {
    manual_seed(7);
    const RandomState state = random_state();
    const auto first = randn({64}, device).to_vector<float>();
    set_random_state(state);
    if (randn({64}, device).to_vector<float>() != first)
        fail("the same random state gave other numbers on " + device.str());
    manual_seed(7);
    const auto on_cpu = rand({64}, Device(Device::Type::CPU)).to_vector<float>();
    manual_seed(7);
    if (rand({64}, device).to_vector<float>() != on_cpu)
        fail("one seed gives other numbers on " + device.str() + " than on cpu");
    fmt::print("random state: repeats on {}, with the same numbers as on cpu\n", device.str());
}

void check_checkpoint(const fs::path& folder) {
    set_default_device(Device::Type::CPU);
    const auto losses = [&](bool resume) {
        manual_seed(1);
        Accelerator accelerator({.quiet = true});
        const auto model = nn::make<nn::Linear>(1, 1);
        optim::AdamW optimizer(model->parameters(), {.lr = 0.05});
        data::DataLoader loader(line_samples(), {.batch_size = 16, .shuffle = true, .seed = 5});
        accelerator.prepare(*model, optimizer, loader);
        if (resume) accelerator.load_state(folder / "state");
        std::vector<float> out;
        for (const auto& batch : loader) {
            const Tensor loss = mse_loss((*model)(dropout(batch.data, 0.2)), batch.target);
            accelerator.backward(loss);
            optimizer.step();
            optimizer.zero_grad();
            out.push_back(loss.item<float>());
            if (!resume && batch.index == 2) accelerator.save_state(folder / "state");
        }
        return out;
    };
    const auto whole = losses(false), rest = losses(true);
    if (rest.size() != 3 || !std::equal(rest.begin(), rest.end(), whole.begin() + 3))
        fail("a resumed run is not the uninterrupted one");
    fmt::print("checkpoint: a run resumed in the middle of an epoch goes on bit for bit\n");
}

// Run by each of several processes.
int run_as_one_of_several(const dist::Place& place) {
    set_default_device(Device::Type::CPU);
    const auto say = [&](const std::string& line) {
        if (place.rank == 0) fmt::print("{}\n", line);
        std::fflush(stdout);
    };
    const int n = place.size;
    {  // 96 samples, which batches of 20 do not divide: each once, and equally many batches
        Accelerator accelerator({.quiet = true});
        data::DataLoader loader(line_samples(), {.batch_size = 20, .shuffle = true, .seed = 3});
        accelerator.prepare(loader);
        std::vector<double> seen;
        for (const auto& batch : loader) {
            if (batch.data.size(0) != 20) fail("a process got a batch that is not full");
            for (const double v : accelerator.gather_for_metrics(batch.data).to_vector<double>())
                seen.push_back(v);
        }
        std::sort(seen.begin(), seen.end());
        if (seen.size() != 96 || std::adjacent_find(seen.begin(), seen.end()) != seen.end())
            fail(fmt::format("{} processes did not see each sample once together", n));
        say(fmt::format("loader: {} processes see each sample once, together", n));
    }
    {  // batches of 4 in each process are batches of 4 n in one
        data::DataLoader whole(line_samples(24 * n),
                               {.batch_size = 4 * n, .shuffle = true, .seed = 42});
        data::DataLoader loader(line_samples(24 * n),
                                {.batch_size = 4, .shuffle = true, .seed = 42});
        const Line want = by_hand(whole);
        Accelerator accelerator({.mixed_precision = "no", .quiet = true});
        const Line have = trained(accelerator, loader);
        if (!(std::fabs(have.a - want.a) <= 1e-5 && std::fabs(have.b - want.b) <= 1e-5))
            fail(
                fmt::format("{} processes gave a = {:.6f}, b = {:.6f} where {:.6f} and {:.6f} are "
                            "right",
                            n, have.a, have.b, want.a, want.b));
        for (const std::string& other :
             accelerator.gather_object(fmt::format("{} {}", have.a, have.b)))
            if (other != fmt::format("{} {}", have.a, have.b))
                fail("the processes' models are not the same after training");
        say(fmt::format("training with {} processes: a = {:.4f}, b = {:.4f}, as by hand", n, have.a,
                        have.b));
    }
    return 0;
}

int run(int processes) {
    if (const dist::Place& place = dist::place(); place.size > 1)
        return run_as_one_of_several(place);
    std::vector<Device> devices{Device::Type::CPU};
    try {
        (void)Device(Device::Type::GPU).description();
        devices.emplace_back(Device::Type::GPU);
    } catch (const DeviceError&) {
        fmt::print("no GPU that Pippin can use: testing the processor\n");
    }
    for (const Device device : devices) {
        check_training(device, "no", 1e-5);
        check_training(device, "bf16", 0.03);
        check_training(device, "fp16", 0.01);
        check_random(device);
    }
    check_loader();
    std::string name = (fs::temp_directory_path() / "pippin-test-XXXXXX").string();
    if (!::mkdtemp(name.data()))
        fail("cannot make a folder in " + fs::temp_directory_path().string());
    try {
        check_checkpoint(name);
    } catch (...) {
        fs::remove_all(name);
        throw;
    }
    fs::remove_all(name);
    if (processes > 1) {
        std::fflush(stdout);
        set_environment("OMP_NUM_THREADS", std::to_string(std::max(1, num_threads() / processes)));
        if (const int code = run_together(own_path(), {"test"}, processes); code != 0)
            fail(
                fmt::format("the test with {} processes ended with exit code {}", processes, code));
    }
    fmt::print("Test is a success!\n");
    return 0;
}

std::function<int()> setup(CLI::App& app) {
    auto processes = std::make_shared<int>(1);
    app.add_option(flag("num_processes"), *processes,
                   "also train with that many processes, over MPI")
        ->check(CLI::PositiveNumber);
    app.footer("Examples:\n  pippin test\n  pippin test --num_processes 2");
    return [processes] { return run(*processes); };
}

const Register command{{"test", "check that training works on this machine, in seconds", setup}};

}  // namespace
}  // namespace pippin::cli
