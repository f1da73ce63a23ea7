// Fine-tunes or trains a network on a folder of images named <label>_<number>.jpg: 80 % of them
// train, 20 % measure. Prints the accuracy after each epoch.
#include "flags.h"
#include "image_task.h"
#include "pippin/accelerator.h"
#include "pippin/train.h"

using namespace pippin;

struct Args {
    std::string data_dir, mixed_precision = "no", model = "resnet50", weights;
    bool cpu = false;
    int epochs = 3, workers = 2;
    std::int64_t batch_size = 64, image_size = 224;
    double lr = 3e-2;
    std::uint64_t seed = 42;
};

void train_model(const Args& args) {
    Accelerator accelerator({.mixed_precision = args.mixed_precision, .cpu = args.cpu});
    set_seed(args.seed);
    const auto task = examples::load_images(args.data_dir, args.image_size, args.seed);
    data::DataLoader train_loader(task.train, {.batch_size = args.batch_size,
                                               .shuffle = true,
                                               .seed = args.seed,
                                               .workers = args.workers});
    data::DataLoader eval_loader(task.eval,
                                 {.batch_size = args.batch_size, .workers = args.workers});
    const auto model = examples::make_model(args.model, task.num_classes, args.weights);
    accelerator.print(fmt::format("{} on {} images of {} classes, {} to measure, precision {}",
                                  args.model, task.train->size(), task.num_classes,
                                  task.eval->size(), accelerator.mixed_precision()));

    optim::Adam optimizer(model->parameters(), {.lr = args.lr / 25});
    optim::OneCycleLR schedule(
        optimizer, {.max_lr = args.lr, .total_steps = args.epochs * train_loader.size()});
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);
    // A bar for people; whoever reads the output from a pipe gets one line an epoch.
    train::ProgressBar bar(
        {.epochs = args.epochs, .images_per_epoch = task.train->size(), .lines_per_epoch = 0});

    for (int epoch = 0; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        for (const auto& batch : train_loader) {
            Tensor loss;
            {
                const auto autocast = accelerator.autocast();
                loss = cross_entropy((*model)(batch.data), batch.target);
            }
            accelerator.backward(loss);
            optimizer.step();
            schedule.step();
            optimizer.zero_grad();
            bar.update(batch.target.size(0), loss);
            if (accelerator.stop_requested()) return;
        }
        bar.end_epoch();

        const double accuracy = examples::measure(accelerator, *model, eval_loader);
        accelerator.print(fmt::format("epoch {}: {:.2f}", epoch, 100 * accuracy));
    }
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app("Trains a network on a folder of images named <label>_<number>.jpg.");
    app.option_defaults()->always_capture_default();
    app.add_option("--data_dir", args.data_dir, "folder of images")->required();
    app.add_option("--mixed_precision", args.mixed_precision, "no (float32), bf16 or fp16")
        ->envname("PIPPIN_MIXED_PRECISION")
        ->check(CLI::IsMember({"no", "bf16", "fp16"}));
    app.add_flag("--cpu", args.cpu, "train on the processor");
    app.add_option("--epochs", args.epochs)->check(examples::positive);
    app.add_option("--batch_size", args.batch_size)->check(examples::positive);
    app.add_option("--image_size", args.image_size)->check(examples::positive);
    app.add_option(
        "--lr", args.lr,
        "highest learning rate of the one-cycle schedule; without --weights rather 2e-3");
    app.add_option("--seed", args.seed);
    app.add_option("--model", args.model, "see `pippin models`");
    app.add_option("--weights", args.weights,
                   "pretrained weights (safetensors or .pth): only the last layer is trained");
    app.add_option("--workers", args.workers, "threads that make batches ahead");
    examples::parse(app, argc, argv);
    return examples::run([&] { train_model(args); });
}
