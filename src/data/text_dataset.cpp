#include "pippin/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "pippin/error.h"

namespace pippin::data {

TextDataset::TextDataset(LabelledTexts texts, text::WordPiece tokenizer, TextOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
    if (texts.labels.size() != texts.texts.size() ||
        (!texts.pairs.empty() && texts.pairs.size() != texts.texts.size()))
        throw ValueError(fmt::format("TextDataset: {} texts, {} pairs and {} labels",
                                     texts.texts.size(), texts.pairs.size(), texts.labels.size()));
    if (options.max_length < 3 || options.multiple_of < 1)
        throw ValueError(
            fmt::format("TextDataset: max_length {} must be at least 3 and "
                        "multiple_of {} positive",
                        options.max_length, options.multiple_of));
    texts_ = std::make_shared<const LabelledTexts>(std::move(texts));
}

std::int64_t TextDataset::size() const { return static_cast<std::int64_t>(texts_->texts.size()); }

text::Encoding TextDataset::encode(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    const text::EncodeOptions options{.max_length = options_.max_length};
    return texts_->pairs.empty() ? tokenizer_.encode(texts_->texts[i], options)
                                 : tokenizer_.encode(texts_->texts[i], texts_->pairs[i], options);
}

Example TextDataset::load(std::int64_t index, Draws draws) const {
    Example sample;
    load_batch({&index, 1}, draws, sample);
    const auto drop_first_dim = [](Array& a) {
        Shape shape = a.shape();
        shape.erase(0);
        a.reset(a.dtype(), shape);  // as many bytes as before, so they stay
    };
    drop_first_dim(sample.data);
    drop_first_dim(sample.target);
    for (auto& [name, array] : sample.more)
        drop_first_dim(array);
    return sample;
}

void TextDataset::load_batch(std::span<const std::int64_t> indices, Draws, Example& batch) const {
    std::vector<text::Encoding> encodings;
    encodings.reserve(indices.size());
    for (const std::int64_t i : indices)
        encodings.push_back(encode(i));
    const std::int64_t length =
        text::padded_length(encodings, options_.max_length, options_.padding, options_.multiple_of);
    const auto n = static_cast<std::int64_t>(indices.size());
    batch.more.resize(2);
    batch.more[0].first = "attention_mask";
    batch.more[1].first = "token_type_ids";
    for (Array* a : {&batch.data, &batch.more[0].second, &batch.more[1].second})
        a->reset(DType::Int64, {n, length});
    text::pad_into(encodings, length, tokenizer_.padding_id(), batch.data.data<std::int64_t>(),
                   batch.more[0].second.data<std::int64_t>(),
                   batch.more[1].second.data<std::int64_t>());
    batch.target.reset(DType::Int64, {n});
    std::ranges::transform(indices, batch.target.data<std::int64_t>(), [&](std::int64_t i) {
        return texts_->labels[static_cast<std::size_t>(i)];
    });
}

}  // namespace pippin::data
