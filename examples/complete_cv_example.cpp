// cv_example with what a long run needs: checkpoints every N steps or every epoch, resuming in the
// middle of an epoch, gradient accumulation, tracking, and an orderly end on Ctrl-C.
#include <charconv>

#include "flags.h"
#include "image_task.h"
#include "pippin/accelerator.h"
#include "pippin/train.h"

using namespace pippin;

struct Args {
    std::string data_dir, mixed_precision = "no", model = "resnet50", weights;
    std::string checkpointing_steps, output_dir = ".", resume_from_checkpoint, project_dir = "logs";
    bool cpu = false, with_tracking = false;
    int epochs = 3, workers = 2, gradient_accumulation_steps = 1;
    std::int64_t batch_size = 64, image_size = 224;
    double lr = 3e-2;
    std::uint64_t seed = 42;
};

// "epoch", a number of steps, or nothing (0).
std::int64_t steps_between_checkpoints(const std::string& text) {
    std::int64_t n = 0;
    if (text.empty() || text == "epoch") return 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, n);
    if (error != std::errc() || at != end || n < 1)
        throw ValueError("--checkpointing_steps must be \"epoch\" or a number of steps, got \"" +
                         text + "\"");
    return n;
}

int train_model(const Args& args) {
    const std::int64_t every = steps_between_checkpoints(args.checkpointing_steps);
    Accelerator accelerator(
        {.mixed_precision = args.mixed_precision,
         .cpu = args.cpu,
         .gradient_accumulation_steps = args.gradient_accumulation_steps,
         .project_dir = args.project_dir,
         .log_with = args.with_tracking ? std::vector<std::string>{"tensorboard", "csv", "jsonl"}
                                        : std::vector<std::string>{}});
    set_seed(args.seed);
    accelerator.init_trackers("complete_cv_example",
                              {{"lr", fmt::format("{}", args.lr)},
                               {"epochs", fmt::format("{}", args.epochs)},
                               {"seed", fmt::format("{}", args.seed)},
                               {"batch_size", fmt::format("{}", args.batch_size)},
                               {"model", args.model}});
    const auto task = examples::load_images(args.data_dir, args.image_size, args.seed);
    data::DataLoader train_loader(task.train, {.batch_size = args.batch_size,
                                               .shuffle = true,
                                               .seed = args.seed,
                                               .workers = args.workers});
    data::DataLoader eval_loader(task.eval,
                                 {.batch_size = args.batch_size, .workers = args.workers});
    const auto model = examples::make_model(args.model, task.num_classes, args.weights);
    optim::Adam optimizer(model->parameters(), {.lr = args.lr / 25});
    const std::int64_t windows = (train_loader.size() + args.gradient_accumulation_steps - 1) /
                                 args.gradient_accumulation_steps;
    optim::OneCycleLR schedule(optimizer,
                               {.max_lr = args.lr, .total_steps = args.epochs * windows});
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);

    const std::filesystem::path output = args.output_dir;
    if (!args.resume_from_checkpoint.empty()) {
        accelerator.load_state(args.resume_from_checkpoint);
        const auto at = train_loader.position();
        accelerator.print(fmt::format("resumed from {}: epoch {}, batch {}",
                                      args.resume_from_checkpoint, at.epoch, at.batch));
    }
    train::ProgressBar bar(
        {.epochs = args.epochs, .images_per_epoch = task.train->size(), .lines_per_epoch = 0});

    for (std::int64_t epoch = train_loader.position().epoch; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        train::Mean mean_loss;
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
            const bool stop = accelerator.stop_requested();
            if (stop ||
                (every > 0 && accelerator.steps() % every == 0 && accelerator.sync_gradients())) {
                const auto folder = output / fmt::format("step_{}", accelerator.steps());
                if (!std::filesystem::exists(folder)) accelerator.save_state(folder);
                if (stop) {
                    accelerator.print("stopped; go on with --resume_from_checkpoint " +
                                      folder.string());
                    return accelerator.exit_code();
                }
            }
        }
        bar.end_epoch();
        const double accuracy = examples::measure(accelerator, *model, eval_loader);
        accelerator.print(fmt::format("epoch {}: {:.2f}", epoch, 100 * accuracy));
        accelerator.log({{"accuracy", 100 * accuracy}, {"train_loss", mean_loss.value()}}, epoch);
        if (args.checkpointing_steps == "epoch") {
            const auto folder = output / fmt::format("epoch_{}", epoch);
            if (!std::filesystem::exists(folder)) accelerator.save_state(folder);
        }
    }
    accelerator.end_training();
    return 0;
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app(
        "Trains a network on a folder of images named <label>_<number>.jpg, with checkpoints.");
    app.option_defaults()->always_capture_default();
    app.add_option("--data_dir", args.data_dir, "folder of images")->required();
    app.add_option("--mixed_precision", args.mixed_precision, "no (float32), bf16 or fp16")
        ->envname("PIPPIN_MIXED_PRECISION")
        ->check(CLI::IsMember({"no", "bf16", "fp16"}));
    app.add_flag("--cpu", args.cpu, "train on the processor");
    app.add_option("--checkpointing_steps", args.checkpointing_steps,
                   "save every so many steps, or \"epoch\"");
    app.add_option("--output_dir", args.output_dir, "where checkpoints go");
    app.add_option("--resume_from_checkpoint", args.resume_from_checkpoint,
                   "a folder step_N or epoch_N");
    app.add_flag("--with_tracking", args.with_tracking, "log to TensorBoard, CSV and JSON lines");
    app.add_option("--project_dir", args.project_dir, "where logs go");
    app.add_option("--gradient_accumulation_steps", args.gradient_accumulation_steps)
        ->check(examples::positive);
    app.add_option("--epochs", args.epochs)->check(examples::positive);
    app.add_option("--batch_size", args.batch_size)->check(examples::positive);
    app.add_option("--image_size", args.image_size)->check(examples::positive);
    app.add_option("--lr", args.lr, "highest learning rate of the one-cycle schedule");
    app.add_option("--seed", args.seed);
    app.add_option("--model", args.model, "see `pippin models`");
    app.add_option("--weights", args.weights,
                   "pretrained weights (safetensors or .pth): only the last layer is trained");
    app.add_option("--workers", args.workers, "threads that make batches ahead");
    examples::parse(app, argc, argv);
    return examples::run([&] { return train_model(args); });
}
