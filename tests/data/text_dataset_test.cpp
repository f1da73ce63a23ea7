// Texts as batches: padding, names, and the same whatever the workers.
#include <gtest/gtest.h>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/loader.h"
#include "pippin/text_dataset.h"

namespace pippin {
namespace {

using namespace test;
using data::LabelledTexts;
using data::TextDataset;
using Ids = std::vector<std::int64_t>;

text::WordPiece tokenizer() {
    return text::WordPiece(
        std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"});
}

TEST(TextDataset, Batches) {
    const TextDataset texts({.texts = {"a b", "c", "a a a a a"}, .labels = {1, 0, 2}}, tokenizer(),
                            {.max_length = 6, .multiple_of = 4});
    EXPECT_EQ(texts.get(1).data.shape(), Shape{4});
    EXPECT_EQ(texts.get(1).target.shape(), Shape{});
    data::DataLoader loader(texts, {.batch_size = 2});
    std::vector<data::Batch> batches;
    for (auto& batch : loader)
        batches.push_back(batch);
    ASSERT_EQ(batches.size(), 2u);
    const data::Batch& b = batches[0];
    EXPECT_EQ(b.data.shape(), (Shape{2, 4}));
    EXPECT_EQ(b.data.to_vector<std::int64_t>(), (Ids{2, 4, 5, 3, 2, 6, 3, 0}));
    EXPECT_EQ(b["attention_mask"].to_vector<std::int64_t>(), (Ids{1, 1, 1, 1, 1, 1, 1, 0}));
    EXPECT_EQ(b["token_type_ids"].to_vector<std::int64_t>(), Ids(8, 0));
    EXPECT_EQ(b.target.to_vector<std::int64_t>(), (Ids{1, 0}));
    EXPECT_EQ(batches[1].data.to_vector<std::int64_t>(), (Ids{2, 4, 4, 4, 4, 3}));  // cut
    EXPECT_ERROR(b["input_ids"], ValueError, "\"input_ids\"", "\"attention_mask\", \"token_type");
    for (auto& [x, y, index] : loader) {  // as every batch does
        EXPECT_EQ(x.size(0), y.size(0));
        EXPECT_LT(index, 2);
        static_assert(std::is_same_v<decltype(x), Tensor>);
    }
}

TEST(TextDataset, PairsAndFaults) {
    const TextDataset pairs({.texts = {"a"}, .pairs = {"b"}, .labels = {0}}, tokenizer());
    EXPECT_EQ(pairs.get(0).data.shape(), Shape{32});
    EXPECT_EQ(pairs.get(0).more[1].second.data<std::int64_t>()[3], 1);
    EXPECT_ERROR(TextDataset({.texts = {"a"}, .labels = {}}, tokenizer()), ValueError, "1 texts",
                 "0 labels");
    EXPECT_ERROR(TextDataset({.texts = {"a"}, .labels = {0}}, tokenizer(), {.max_length = 2}),
                 ValueError, "max_length 2");
}

TEST(TextDataset, WorkersChangeNothing) {
    LabelledTexts texts;
    for (int i = 0; i < 200; ++i) {
        texts.texts.push_back(std::string(static_cast<std::size_t>(i % 50), 'a') + " b c");
        texts.labels.push_back(i);
    }
    const TextDataset dataset(texts, tokenizer(), {.multiple_of = 1});
    const auto run = [&](int workers) {
        data::DataLoader loader(dataset,
                                {.batch_size = 7, .shuffle = true, .seed = 3, .workers = workers});
        std::vector<Ids> out;
        for (auto& batch : loader)
            for (const Tensor& t : {batch.data, batch.target, batch["attention_mask"]})
                out.push_back(t.to_vector<std::int64_t>());
        return out;
    };
    EXPECT_EQ(run(0), run(3));
}

// Samples with further inputs and no load_batch() of their own.
struct Named : data::Dataset {
    bool odd_name = false, odd_shape = false;
    std::int64_t size() const override { return 4; }
    data::Example load(std::int64_t i, data::Draws) const override {
        data::Example e{data::Array::scalar(i), data::Array::scalar(i)};
        e.more.emplace_back(odd_name && i == 3 ? "other" : "weight",
                            data::Array(DType::Float32, {odd_shape && i == 3 ? 2 : 3}));
        e.more[0].second.data<float>()[1] = static_cast<float>(i);
        return e;
    }
};

TEST(Dataset, FurtherInputsAreStacked) {
    Named named;
    data::DataLoader loader(named, {.batch_size = 4});
    for (auto& batch : loader) {
        EXPECT_EQ(batch["weight"].shape(), (Shape{4, 3}));
        EXPECT_EQ(batch["weight"].index({2, 1}).item<float>(), 2);
    }
    named.odd_name = true;
    EXPECT_ERROR(data::DataLoader(named, {.batch_size = 4}).begin(), ValueError,
                 "sample 3 has the further inputs [other]", "[weight]");
    named.odd_name = false;
    named.odd_shape = true;
    EXPECT_ERROR(data::DataLoader(named, {.batch_size = 4}).begin(), ValueError,
                 "the weight of sample 3");
}

TEST(Fortunes, Files) {
    const TempFolder folder;
    write_text(folder / "b", "first\n  -- someone\n%\n\n%\nsecond 50%\n100\n");
    write_text(folder / "a", "only\r\n%\r\n");
    write_text(folder / "a.dat", "index");
    std::filesystem::create_symlink("b", folder / "b.u8");
    const LabelledTexts all = data::read_fortunes(folder.path());
    EXPECT_EQ(all.classes, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(all.texts,
              (std::vector<std::string>{"only", "first\n  -- someone", "second 50%\n100"}));
    EXPECT_EQ(all.labels, (Ids{0, 1, 1}));
    EXPECT_EQ(data::read_fortunes(folder.path(), {"b"}).labels, (Ids{0, 0}));
    EXPECT_ERROR(data::read_fortunes(folder / "none"), FileError, "fortunes-min");
    EXPECT_ERROR(data::read_fortunes(folder.path(), {"c"}), FileError, "cannot open");
    write_text(folder / "c", "%\n%\n");
    EXPECT_ERROR(data::read_fortunes(folder.path()), FileError, "has no texts");
}

TEST(Fortunes, DebiansPackages) {
    if (!std::filesystem::exists(data::kFortunesFolder))
        GTEST_SKIP() << "Debian's package fortunes is not installed";
    const LabelledTexts texts = data::read_fortunes(data::kFortunesFolder, {"fortunes", "riddles"});
    EXPECT_GT(texts.texts.size(), 400u);
    EXPECT_EQ(texts.labels.back(), 1);
}

}  // namespace
}  // namespace pippin
