// What the text examples share: texts of several files split in two, a BERT with a new classifier,
// accuracy and F1.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "flags.h"
#include "pippin/accelerator.h"
#include "pippin/bert_folder.h"
#include "pippin/pippin.h"
#include "pippin/text_dataset.h"
#include "pippin/train.h"

namespace examples {

struct TextFlags {
    std::string model_dir, data_dir = pippin::data::kFortunesFolder;
    std::vector<std::string> files;
    std::int64_t max_length = 128, max_samples = 0;
};

inline void add_text_flags(CLI::App& app, TextFlags& f) {
    app.add_option("--model_dir", f.model_dir,
                   "Hugging Face folder with config.json, the weights and the tokenizer")
        ->required();
    app.add_option("--data_dir", f.data_dir, "folder of files in fortune's format: a class each");
    app.add_option("--files", f.files, "which files; all of them by default");
    app.add_option("--max_length", f.max_length, "tokens of a text")->check(positive);
    app.add_option("--max_samples", f.max_samples, "texts to use; 0: all")
        ->check(CLI::NonNegativeNumber);
}

inline pippin::data::LabelledTexts at_most(pippin::data::LabelledTexts all, std::int64_t n,
                                           std::uint64_t seed) {
    if (n <= 0 || n >= static_cast<std::int64_t>(all.texts.size())) return all;
    pippin::manual_seed(seed);
    const auto order =
        pippin::randperm(static_cast<std::int64_t>(all.texts.size())).to_vector<std::int64_t>();
    pippin::data::LabelledTexts some;
    some.classes = all.classes;
    for (std::int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
        some.texts.push_back(all.texts[k]);
        some.labels.push_back(all.labels[k]);
    }
    return some;
}

struct TextTask {
    pippin::data::DatasetPtr train, eval;  ///< 80 % and 20 % of the texts
    std::int64_t num_classes = 0;
};

inline TextTask load_texts(const TextFlags& f, std::uint64_t seed) {
    namespace data = pippin::data;
    // Half precision likes lengths that are multiples of 8; fewer lengths are fewer plans.
    const auto dataset = std::make_shared<const data::TextDataset>(
        at_most(data::read_fortunes(f.data_dir, f.files), f.max_samples, seed),
        pippin::text::WordPiece::from_folder(f.model_dir),
        data::TextOptions{.max_length = f.max_length, .multiple_of = 32});
    const auto parts = data::random_split(dataset, {0.8, 0.2}, seed);
    if (parts[0]->size() == 0 || parts[1]->size() == 0)
        throw pippin::ValueError(
            fmt::format("{} texts in {} are too few to split", dataset->size(), f.data_dir));
    return {parts[0], parts[1], static_cast<std::int64_t>(dataset->classes().size())};
}

using TextModel = decltype(pippin::models::load_bert_classifier("", 2));

inline pippin::Tensor logits(const TextModel& model, const pippin::data::Batch& batch) {
    return (*model)(batch.data, batch["attention_mask"], batch["token_type_ids"]);
}

struct Scores {
    double accuracy = 0, f1 = 0;  ///< F1: the mean over the classes

    /// As Accelerate's examples print a metric.
    std::string str() const {
        return fmt::format("{{'accuracy': {:.4f}, 'f1': {:.4f}}}", accuracy, f1);
    }
};

inline Scores scores(const std::vector<std::int64_t>& predicted,
                     const std::vector<std::int64_t>& labels, std::size_t classes) {
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

inline Scores measure(const pippin::Accelerator& accelerator, const TextModel& model,
                      pippin::data::DataLoader& loader, std::int64_t classes) {
    model->eval();
    const pippin::NoGrad no_grad;
    std::vector<std::int64_t> predicted, labels;
    for (const auto& batch : loader) {
        const auto autocast = accelerator.autocast();
        const pippin::Tensor best = accelerator.gather_for_metrics(logits(model, batch).argmax(1));
        const pippin::Tensor right = accelerator.gather_for_metrics(batch.target);
        for (const auto c : best.to_vector<std::int64_t>())
            predicted.push_back(c);
        for (const auto c : right.to_vector<std::int64_t>())
            labels.push_back(c);
    }
    return scores(predicted, labels, static_cast<std::size_t>(classes));
}

}  // namespace examples
