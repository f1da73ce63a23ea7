// Fine-tunes a BERT checkpoint to tell which file a text comes from: Debian's fortunes by default,
// a class for each file. Prints accuracy and F1 (the mean over the classes) after each epoch.
#include <fmt/format.h>
#include <algorithm>

#include "flags.h"
#include "pippin/accelerator.h"
#include "pippin/bert_folder.h"
#include "pippin/pippin.h"
#include "pippin/text_dataset.h"
#include "pippin/train.h"

using namespace pippin;

struct Args {
    std::string model_dir, data_dir = data::kFortunesFolder, mixed_precision = "no", output_dir;
    std::vector<std::string> files;
    bool cpu = false;
    int epochs = 3, gradient_accumulation_steps = 1, workers = 1;
    std::int64_t batch_size = 16, max_length = 128, max_samples = 0;
    double lr = 2e-5;
    std::uint64_t seed = 42;
};

constexpr std::int64_t kEvalBatch = 32;

struct Scores {
    double accuracy = 0, f1 = 0;
};

Scores scores(const std::vector<std::int64_t>& predicted, const std::vector<std::int64_t>& labels,
              std::size_t classes) {
    std::vector<double> hits(classes), said(classes), are(classes);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const auto p = static_cast<std::size_t>(predicted[i]),
                   l = static_cast<std::size_t>(labels[i]);
        hits[l] += p == l;
        ++said[p], ++are[l];
    }
    Scores s;
    double counted = 0;
    for (std::size_t c = 0; c < classes; ++c) {
        s.accuracy += hits[c] / static_cast<double>(std::max<std::size_t>(labels.size(), 1));
        if (are[c] + said[c] == 0) continue;
        s.f1 += 2 * hits[c] / (are[c] + said[c]);
        ++counted;
    }
    s.f1 /= std::max(counted, 1.0);
    return s;
}

data::LabelledTexts at_most(data::LabelledTexts all, std::int64_t n, std::uint64_t seed) {
    if (n <= 0 || n >= static_cast<std::int64_t>(all.texts.size())) return all;
    manual_seed(seed);
    const auto order =
        randperm(static_cast<std::int64_t>(all.texts.size())).to_vector<std::int64_t>();
    data::LabelledTexts some;
    some.classes = all.classes;
    for (std::int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
        some.texts.push_back(all.texts[k]);
        some.labels.push_back(all.labels[k]);
    }
    return some;
}

void train_model(const Args& args) {
    Accelerator accelerator({.mixed_precision = args.mixed_precision,
                             .cpu = args.cpu,
                             .gradient_accumulation_steps = args.gradient_accumulation_steps});
    const auto texts =
        at_most(data::read_fortunes(args.data_dir, args.files), args.max_samples, args.seed);
    set_seed(args.seed);
    // Half precision likes lengths that are multiples of 8; fewer lengths are fewer plans.
    const auto dataset = std::make_shared<const data::TextDataset>(
        texts, text::WordPiece::from_folder(args.model_dir),
        data::TextOptions{.max_length = args.max_length, .multiple_of = 32});
    const std::size_t classes = dataset->classes().size();
    const auto parts = data::random_split(dataset, {0.8, 0.2}, args.seed);
    if (parts[0]->size() == 0 || parts[1]->size() == 0)
        throw ValueError(
            fmt::format("{} texts in {} are too few to split", dataset->size(), args.data_dir));
    data::DataLoader train_loader(parts[0], {.batch_size = args.batch_size,
                                             .shuffle = true,
                                             .seed = args.seed,
                                             .workers = args.workers});
    data::DataLoader eval_loader(parts[1], {.batch_size = kEvalBatch, .workers = args.workers});

    const auto model =
        models::load_bert_classifier(args.model_dir, static_cast<std::int64_t>(classes));
    accelerator.print(fmt::format("{} texts of {} classes, {} to measure", parts[0]->size(),
                                  classes, parts[1]->size()));
    optim::AdamW optimizer(model->parameters(), {.lr = args.lr});
    const std::int64_t windows = (train_loader.size() + args.gradient_accumulation_steps - 1) /
                                 args.gradient_accumulation_steps;
    const std::int64_t total = args.epochs * windows;
    optim::LinearWarmupLR schedule(optimizer, std::min<std::int64_t>(100, total / 4), total);
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);
    train::ProgressBar bar(
        {.epochs = args.epochs, .images_per_epoch = parts[0]->size(), .lines_per_epoch = 0});

    for (int epoch = 0; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        for (const auto& batch : train_loader) {
            const auto window = accelerator.accumulate();
            Tensor loss;
            {
                const auto autocast = accelerator.autocast();
                loss = cross_entropy(
                    (*model)(batch.data, batch["attention_mask"], batch["token_type_ids"]),
                    batch.target);
            }
            accelerator.backward(loss);
            optimizer.step();
            schedule.step();
            optimizer.zero_grad();
            bar.update(batch.target.size(0), loss);
            if (accelerator.stop_requested()) return;
        }
        bar.end_epoch();

        model->eval();
        std::vector<std::int64_t> predicted, labels;
        {
            const NoGrad no_grad;
            for (const auto& batch : eval_loader) {
                const auto autocast = accelerator.autocast();
                const Tensor logits =
                    (*model)(batch.data, batch["attention_mask"], batch["token_type_ids"]);
                for (const auto c : logits.argmax(1).to_vector<std::int64_t>())
                    predicted.push_back(c);
                for (const auto c : batch.target.to_vector<std::int64_t>())
                    labels.push_back(c);
            }
        }
        const Scores s = scores(predicted, labels, classes);
        accelerator.print(
            fmt::format("epoch {}: {{'accuracy': {:.4f}, 'f1': {:.4f}}}", epoch, s.accuracy, s.f1));
    }
    if (!args.output_dir.empty()) accelerator.save_model(*model, args.output_dir);
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app("Fine-tunes BERT to classify texts; a file of the data folder is a class.");
    app.option_defaults()->always_capture_default();
    app.add_option("--model_dir", args.model_dir,
                   "Hugging Face folder with config.json, the weights and the tokenizer")
        ->required();
    app.add_option("--data_dir", args.data_dir, "folder of files in fortune's format");
    app.add_option("--files", args.files, "which files; all of them by default");
    app.add_option("--mixed_precision", args.mixed_precision, "no (float32), bf16 or fp16")
        ->envname("PIPPIN_MIXED_PRECISION")
        ->check(CLI::IsMember({"no", "bf16", "fp16"}));
    app.add_flag("--cpu", args.cpu, "train on the processor");
    app.add_option("--epochs", args.epochs)->check(examples::positive);
    app.add_option("--batch_size", args.batch_size)->check(examples::positive);
    app.add_option("--gradient_accumulation_steps", args.gradient_accumulation_steps)
        ->check(examples::positive);
    app.add_option("--max_length", args.max_length, "tokens of a text")->check(examples::positive);
    app.add_option("--max_samples", args.max_samples, "texts to use; 0: all");
    app.add_option("--lr", args.lr);
    app.add_option("--seed", args.seed);
    app.add_option("--workers", args.workers, "threads that make batches ahead");
    app.add_option("--output_dir", args.output_dir, "where the model goes; empty: nowhere");
    examples::parse(app, argc, argv);
    return examples::run([&] { train_model(args); });
}
