// Fine-tunes or trains a network on a folder of images named <label>_<number>.jpg: 80 % of them
// train, 20 % measure. Prints the accuracy after each epoch.
#include "image_task.h"
#include "training_flags.h"

using namespace pippin;

struct Args : examples::TrainingFlags {
    std::string data_dir, model = "resnet50", weights;
    std::int64_t image_size = 0;
};

int train_model(const Args& args) {
    Accelerator accelerator({.mixed_precision = args.mixed_precision,
                             .cpu = args.cpu,
                             .gradient_accumulation_steps = args.gradient_accumulation_steps});
    set_seed(args.seed);
    const auto task = examples::load_images(
        args.data_dir, examples::image_input(args.model, args.image_size), args.seed);
    auto train_loader = examples::train_loader(task, args.batch_size, args.seed, args.workers);
    data::DataLoader eval_loader(task.eval,
                                 {.batch_size = args.batch_size, .workers = args.workers});
    const auto model = examples::make_model(args.model, task.num_classes, args.weights);
    accelerator.print(fmt::format("{} on {} images of {} classes, {} to measure, precision {}",
                                  args.model, task.train->size(), task.num_classes,
                                  task.eval->size(), accelerator.mixed_precision()));

    const double lr = args.lr > 0 ? args.lr : examples::default_lr(args.weights);
    optim::Adam optimizer(model->parameters(), {.lr = lr / 25});
    const std::int64_t windows = (train_loader.size() + args.gradient_accumulation_steps - 1) /
                                 args.gradient_accumulation_steps;
    optim::OneCycleLR schedule(optimizer, {.max_lr = lr, .total_steps = args.epochs * windows});
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);
    // A bar for people; whoever reads the output from a pipe gets one line an epoch.
    train::ProgressBar bar({.epochs = args.epochs,
                            .images_per_epoch = task.train->size(),
                            .lines_per_epoch = 0,
                            .quiet = !accelerator.is_main_process()});

    for (int epoch = 0; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        for (const auto& batch : train_loader) {
            const auto window = accelerator.accumulate();
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
            if (accelerator.stop_requested()) return accelerator.exit_code();
        }
        bar.end_epoch();

        const double accuracy = examples::measure(accelerator, *model, eval_loader);
        accelerator.print(fmt::format("epoch {}: {:.2f}", epoch, 100 * accuracy));
    }
    return 0;
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app("Trains a network on a folder of images named <label>_<number>.jpg.");
    examples::add_training_flags(app, args, examples::kDefaultLr);
    examples::add_image_flags(app, args.data_dir, args.image_size, args.model, args.weights);
    app.footer(
        "Examples:\n  pippin launch cv_example --data_dir images --model resnet18 --image_size 64\n"
        "  pippin launch cv_example --data_dir pets --weights resnet50.pth --mixed_precision bf16");
    examples::parse(app, argc, argv);
    return examples::run([&] { return train_model(args); });
}
