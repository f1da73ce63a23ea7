// nlp_example with what a long run needs: checkpoints every N steps or every epoch, resuming in the
// middle of an epoch, tracking, and an orderly end on Ctrl-C.
#include "text_task.h"
#include "training_flags.h"

using namespace pippin;

struct Args : examples::TrainingFlags {
    examples::TextFlags text;
    examples::CheckpointFlags checkpoints;
};

constexpr std::int64_t kEvalBatch = 32;

int train_model(Args args) {
    if (args.lr <= 0) args.lr = 2e-5;
    Accelerator accelerator({.mixed_precision = args.mixed_precision,
                             .cpu = args.cpu,
                             .gradient_accumulation_steps = args.gradient_accumulation_steps,
                             .project_dir = args.checkpoints.project_dir,
                             .log_with = examples::trackers(args.checkpoints)});
    examples::Checkpoints checkpoints(args.checkpoints, accelerator);
    accelerator.init_trackers("complete_nlp_example", examples::settings(args));
    set_seed(args.seed);
    const auto task = examples::load_texts(args.text, args.seed);
    data::DataLoader train_loader(task.train, {.batch_size = args.batch_size,
                                               .shuffle = true,
                                               .seed = args.seed,
                                               .workers = args.workers});
    data::DataLoader eval_loader(task.eval, {.batch_size = kEvalBatch, .workers = args.workers});
    const auto model = models::load_bert_classifier(args.text.model_dir, task.num_classes);
    accelerator.print(fmt::format("{} texts of {} classes, {} to measure", task.train->size(),
                                  task.num_classes, task.eval->size()));
    optim::AdamW optimizer(model->parameters(), {.lr = args.lr});
    const std::int64_t windows = (train_loader.size() + args.gradient_accumulation_steps - 1) /
                                 args.gradient_accumulation_steps;
    const std::int64_t total = args.epochs * windows;
    optim::LinearWarmupLR schedule(optimizer, std::min<std::int64_t>(100, total / 4), total);
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);
    train::Mean mean_loss;
    checkpoints.keep(mean_loss);
    checkpoints.resume(args.checkpoints.resume_from_checkpoint, train_loader);
    train::ProgressBar bar({.epochs = args.epochs,
                            .images_per_epoch = task.train->size(),
                            .lines_per_epoch = 0,
                            .unit = "texts",
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
                    loss = cross_entropy(examples::logits(model, batch), batch.target);
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
        const auto scores = examples::measure(accelerator, model, eval_loader, task.num_classes);
        accelerator.print(fmt::format("epoch {}: {}", epoch, scores.str()));
        accelerator.log({{"accuracy", scores.accuracy},
                         {"f1", scores.f1},
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
    args.batch_size = 16;
    args.workers = 1;
    CLI::App app("Fine-tunes BERT to classify texts, with checkpoints.");
    examples::add_training_flags(app, args, "2e-5");
    examples::add_checkpoint_flags(app, args.checkpoints);
    examples::add_text_flags(app, args.text);
    app.footer(
        "Examples:\n  pippin launch complete_nlp_example --model_dir minilm --checkpointing_steps "
        "100 "
        "--with_tracking\n  pippin launch complete_nlp_example --model_dir minilm "
        "--resume_from_checkpoint step_100");
    examples::parse(app, argc, argv);
    return examples::run([&] { return train_model(args); });
}
