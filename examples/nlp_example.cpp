// Fine-tunes a BERT checkpoint to tell which file a text comes from: Debian's fortunes by default,
// a class for each file. Prints accuracy and F1 (the mean over the classes) after each epoch.
#include "text_task.h"
#include "training_flags.h"

using namespace pippin;

struct Args : examples::TrainingFlags {
    examples::TextFlags text;
    std::string output_dir;
};

constexpr std::int64_t kEvalBatch = 32;

int train_model(Args args) {
    if (args.lr <= 0) args.lr = 2e-5;
    Accelerator accelerator({.mixed_precision = args.mixed_precision,
                             .cpu = args.cpu,
                             .gradient_accumulation_steps = args.gradient_accumulation_steps});
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
    train::ProgressBar bar({.epochs = args.epochs,
                            .images_per_epoch = task.train->size(),
                            .lines_per_epoch = 0,
                            .unit = "texts",
                            .quiet = !accelerator.is_main_process()});

    for (int epoch = 0; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        for (const auto& batch : train_loader) {
            const auto window = accelerator.accumulate();
            Tensor loss;
            {
                const auto autocast = accelerator.autocast();
                loss = cross_entropy(examples::logits(model, batch), batch.target);
            }
            accelerator.backward(loss);
            optimizer.step();
            schedule.step();
            optimizer.zero_grad();
            bar.update(batch.target.size(0), loss);
            if (accelerator.stop_requested()) return accelerator.exit_code();
        }
        bar.end_epoch();
        const auto scores = examples::measure(accelerator, model, eval_loader, task.num_classes);
        accelerator.print(fmt::format("epoch {}: {}", epoch, scores.str()));
    }
    if (!args.output_dir.empty()) accelerator.save_model(*model, args.output_dir);
    return 0;
}

int main(int argc, char** argv) {
    Args args;
    args.batch_size = 16;
    args.workers = 1;
    CLI::App app("Fine-tunes BERT to classify texts; a file of the data folder is a class.");
    examples::add_training_flags(app, args, "2e-5");
    examples::add_text_flags(app, args.text);
    app.add_option("--output_dir", args.output_dir, "where the model goes; empty: nowhere");
    app.footer(
        "Examples:\n  pippin launch nlp_example --model_dir minilm --files cookie law --epochs 2\n "
        " pippin "
        "launch --mixed_precision bf16 nlp_example --model_dir bert-base-uncased");
    examples::parse(app, argc, argv);
    return examples::run([&] { return train_model(args); });
}
