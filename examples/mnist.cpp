// Trains LeNet-5 on Fashion-MNIST, measures it on the test images and leaves the weights, the
// metrics and a chart of them in a folder.
#include <fmt/format.h>

#include <filesystem>

#include "flags.h"
#include "pippin/data.h"
#include "pippin/io.h"
#include "pippin/models.h"
#include "pippin/pippin.h"
#include "pippin/train.h"

using namespace pippin;
namespace tf = pippin::transforms;

struct Args {
    std::string data_dir = data::MNIST::kFashionFolder, out = "runs/demo", device;
    int epochs = 3, workers = 1;
    std::int64_t batch_size = 64;
    double lr = 0.1;
    std::uint64_t seed = 42;
};

struct Result {
    double loss, accuracy;
};

Result evaluate(nn::Module& model, data::DataLoader& loader) {
    const NoGrad no_grad;
    model.eval();
    train::Mean loss;
    train::Accuracy right;
    for (const auto& batch : loader) {
        const Tensor logits = model(batch.data);
        loss.add(cross_entropy(logits, batch.target), batch.target.size(0));
        right.add(logits, batch.target);
        flush();  // work starts while the next batch is being made
    }
    model.train();
    return {loss.value(), right.value()};
}

void train_lenet(const Args& args) {
    examples::use_device(args.device);
    fmt::print("device: {}, {} ({})\n", default_device().str(), default_device().description(),
               default_device_reason());
    manual_seed(args.seed);

    // Mean and standard deviation of the training images' pixels.
    const tf::Compose transform{tf::ToTensor(), tf::Normalize({0.2860f}, {0.3530f})};
    const data::MNIST train_set(args.data_dir, true, transform),
        test_set(args.data_dir, false, transform);
    data::DataLoader train_loader(
        train_set, {.batch_size = args.batch_size, .shuffle = true, .workers = args.workers});
    data::DataLoader test_loader(test_set, {.batch_size = 500, .workers = args.workers});
    fmt::print("data: {} training and {} test images from {}\n", train_set.size(), test_set.size(),
               args.data_dir);

    const auto model = models::lenet5();
    fmt::print("model: LeNet-5, {} parameters\n", model->num_parameters());
    optim::SGD optimizer(model->parameters(), {.lr = args.lr, .momentum = 0.9});
    optim::OneCycleLR schedule(
        optimizer, {.max_lr = args.lr, .total_steps = args.epochs * train_loader.size()});

    std::filesystem::create_directories(args.out);
    const std::filesystem::path out = args.out;
    train::MetricsCsv metrics(out / "metrics.csv", {"epoch", "train_loss", "train_accuracy",
                                                    "test_loss", "test_accuracy", "images_per_s"});
    train::Series curves[4] = {
        {"training", {}}, {"test", {}, true}, {"training", {}}, {"test", {}, true}};
    train::ProgressBar bar({.epochs = args.epochs, .images_per_epoch = train_set.size()});
    const std::int64_t every =
        std::max<std::int64_t>(1, train_loader.size() / 20);  // points of the curves

    Result test{};
    for (int epoch = 1; epoch <= args.epochs; ++epoch) {
        train::Mean loss_mean;  // since the last point of the curves
        train::Accuracy right;
        Result whole_epoch{0, 0};
        bar.begin_epoch();
        for (const auto& batch : train_loader) {
            const Tensor logits = (*model)(batch.data);
            const Tensor loss = cross_entropy(logits, batch.target);
            optimizer.zero_grad();
            loss.backward();
            loss_mean.add(loss, batch.target.size(0));
            right.add(logits, batch.target);
            optimizer.step();
            schedule.step();
            bar.update(batch.target.size(0), [&] { return loss_mean.value(); });

            const std::int64_t done = batch.index + 1;
            if (done % every != 0 && done != train_loader.size()) continue;
            const double at =
                epoch - 1 + static_cast<double>(done) / static_cast<double>(train_loader.size());
            curves[0].points.emplace_back(at, loss_mean.value());
            curves[2].points.emplace_back(at, right.value());
            const double share =
                static_cast<double>(right.count()) / static_cast<double>(train_set.size());
            whole_epoch.loss += share * loss_mean.value();
            whole_epoch.accuracy += share * right.value();
            loss_mean.reset();
            right.reset();
        }
        bar.end_epoch("", whole_epoch.loss);
        test = evaluate(*model, test_loader);
        fmt::print("epoch {}/{}  test loss {:.4f}  test accuracy {:.4f}\n", epoch, args.epochs,
                   test.loss, test.accuracy);
        std::fflush(stdout);
        curves[1].points.emplace_back(epoch, test.loss);
        curves[3].points.emplace_back(epoch, test.accuracy);
        metrics.add({static_cast<double>(epoch), whole_epoch.loss, whole_epoch.accuracy, test.loss,
                     test.accuracy, bar.images_per_s()});
    }

    io::save_safetensors(out / "model.safetensors", model->state_dict(), {{"format", "pt"}});
    train::write_curves_svg(
        out / "curve.svg",
        fmt::format("LeNet-5 on Fashion-MNIST: test accuracy {:.4f}", test.accuracy),
        {{"Loss", "epoch", "cross entropy", {curves[0], curves[1]}},
         {"Accuracy", "epoch", "share of images named right", {curves[2], curves[3]}}});
    fmt::print("wrote {0}/model.safetensors, {0}/metrics.csv, {0}/curve.svg\n", args.out);
    fmt::print("test accuracy {:.4f}, {:.0f} images/s on {}\n", test.accuracy, bar.images_per_s(),
               default_device().str());
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app("Trains LeNet-5 on Fashion-MNIST (or MNIST: the files have the same form).");
    app.option_defaults()->always_capture_default();
    app.add_option("--data_dir", args.data_dir, "folder with the four IDX files");
    app.add_option("--out", args.out, "folder for weights, metrics and chart");
    app.add_option("--epochs", args.epochs)->check(examples::positive);
    app.add_option("--batch_size", args.batch_size)->check(examples::positive);
    app.add_option("--lr", args.lr, "highest learning rate of the one-cycle schedule")
        ->check(CLI::PositiveNumber);
    app.add_option("--seed", args.seed);
    app.add_option("--workers", args.workers, "threads that make batches ahead")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--device", args.device, "cpu or gpu; the best one found unless given")
        ->check(examples::device_name);
    app.footer(
        "Examples:\n  pippin launch mnist\n  pippin launch --cpu mnist --epochs 1 --out runs/a");
    examples::parse(app, argc, argv);
    return examples::run([&] { train_lenet(args); });
}
