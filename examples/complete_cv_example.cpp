// cv_example with what a long run needs: checkpoints every N steps or every epoch, resuming in the
// middle of an epoch, gradient accumulation, tracking, and an orderly end on Ctrl-C.
#include "image_task.h"
#include "training_flags.h"

using namespace pippin;

struct Args : examples::TrainingFlags {
    examples::CheckpointFlags checkpoints;
    std::string data_dir, model = "resnet50", weights;
    std::int64_t image_size = 0;
};

int train_model(Args args) {
    Accelerator accelerator({.mixed_precision = args.mixed_precision,
                             .cpu = args.cpu,
                             .gradient_accumulation_steps = args.gradient_accumulation_steps,
                             .project_dir = args.checkpoints.project_dir,
                             .log_with = examples::trackers(args.checkpoints)});
    examples::Checkpoints checkpoints(args.checkpoints, accelerator);
    if (args.lr <= 0) args.lr = examples::default_lr(args.weights);
    set_seed(args.seed);
    auto config = examples::settings(args);
    config["model"] = args.model;
    accelerator.init_trackers("complete_cv_example", config);

    const auto task = examples::load_images(
        args.data_dir, examples::image_input(args.model, args.image_size), args.seed);
    auto train_loader = examples::train_loader(task, args.batch_size, args.seed, args.workers);
    data::DataLoader eval_loader(task.eval,
                                 {.batch_size = args.batch_size, .workers = args.workers});
    const auto model = examples::make_model(args.model, task.num_classes, args.weights);
    optim::Adam optimizer(model->parameters(), {.lr = args.lr / 25});
    const std::int64_t windows = (train_loader.size() + args.gradient_accumulation_steps - 1) /
                                 args.gradient_accumulation_steps;
    optim::OneCycleLR schedule(optimizer,
                               {.max_lr = args.lr, .total_steps = args.epochs * windows});
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);
    train::Mean mean_loss;
    checkpoints.keep(mean_loss);
    checkpoints.resume(args.checkpoints.resume_from_checkpoint, train_loader);
    train::ProgressBar bar({.epochs = args.epochs,
                            .images_per_epoch = task.train->size(),
                            .lines_per_epoch = 0,
                            .quiet = !accelerator.is_main_process()});

    for (std::int64_t epoch = train_loader.position().epoch; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        // One that resumes in the middle has the losses of its first part.
        if (train_loader.position().batch == 0) mean_loss.reset();
        for (const auto& batch : train_loader) {
            Tensor loss;
            {
                const auto window = accelerator.accumulate();
                {
                    const auto autocast = accelerator.autocast();
                    loss = cross_entropy((*model)(batch.data), batch.target);
                }
                accelerator.backward(loss);
                optimizer.step();
                schedule.step();
                optimizer.zero_grad();
            }
            mean_loss.add(loss.detach(), batch.target.size(0));
            bar.update(batch.target.size(0), loss);
            if (checkpoints.after_batch()) return accelerator.exit_code();
        }
        bar.end_epoch();
        const double accuracy = examples::measure(accelerator, *model, eval_loader);
        accelerator.print(fmt::format("epoch {}: {:.2f}", epoch, 100 * accuracy));
        accelerator.log({{"accuracy", 100 * accuracy},
                         {"train_loss", mean_loss.value()},
                         {"epoch", static_cast<double>(epoch)}},
                        accelerator.steps());
        checkpoints.after_epoch(epoch);
    }
    accelerator.end_training();
    return 0;
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app(
        "Trains a network on a folder of images named <label>_<number>.jpg, with checkpoints.");
    examples::add_training_flags(app, args, examples::kDefaultLr);
    examples::add_checkpoint_flags(app, args.checkpoints);
    examples::add_image_flags(app, args.data_dir, args.image_size, args.model, args.weights);
    app.footer(
        "Examples:\n  pippin launch complete_cv_example --data_dir images --checkpointing_steps "
        "epoch --with_tracking\n  pippin launch complete_cv_example --data_dir images "
        "--resume_from_checkpoint epoch_1");
    examples::parse(app, argc, argv);
    return examples::run([&] { return train_model(args); });
}
