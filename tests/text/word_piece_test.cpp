// The tokenizer against what Hugging Face's gave (tools/make_text_fixtures.py), and its own edges.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/text.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;
using namespace test;
using text::WordPiece;
using Ids = std::vector<std::int64_t>;
using Tokens = std::vector<std::string>;

const fs::path kFolder = PIPPIN_FIXTURES "/text";

const nlohmann::json& fixture() {
    static const nlohmann::json all = nlohmann::json::parse(read_text(kFolder / "encodings.json"));
    return all;
}

void expect_like_fixture(const char* variant, const text::WordPieceOptions& options) {
    const WordPiece tokenizer(kFolder / "vocab.txt", options);
    std::size_t n = 0;
    for (const auto& c : fixture()["texts"]) {
        const std::string text = c["text"];
        EXPECT_EQ(tokenizer.encode(text, {.max_length = 0, .special_tokens = false}).ids,
                  c[variant].get<Ids>())
            << text;
        ++n;
    }
    EXPECT_GE(n, 500u);
}

TEST(WordPiece, Uncased) { expect_like_fixture("uncased", {}); }
TEST(WordPiece, Cased) { expect_like_fixture("cased", {.lower_case = false}); }
TEST(WordPiece, AccentsKept) { expect_like_fixture("accents", {.strip_accents = false}); }
TEST(WordPiece, WithoutCleaning) {
    expect_like_fixture(
        "bare",
        {.lower_case = false, .strip_accents = true, .clean_text = false, .chinese_chars = false});
}

TEST(WordPiece, PairsAreCutAsHuggingFaceCutsThem) {
    const WordPiece tokenizer(kFolder / "vocab.txt");
    for (const auto& c : fixture()["pairs"]) {
        const text::EncodeOptions options{.max_length = c["max_length"].get<std::int64_t>()};
        const std::string text = c["text"];
        const text::Encoding e =
            c["pair"].is_null() ? tokenizer.encode(text, options)
                                : tokenizer.encode(text, c["pair"].get<std::string>(), options);
        EXPECT_EQ(e.ids, c["ids"].get<Ids>()) << c.dump();
        EXPECT_EQ(e.types, c["types"].get<Ids>()) << c.dump();
    }
}

WordPiece tiny() {
    return WordPiece(Tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "a", "é"});
}

TEST(WordPiece, Pieces) {
    EXPECT_EQ(tiny().tokenize("unaffable a, A"),
              (Tokens{"un", "##aff", "##able", "a", "[UNK]", "a"}));
    EXPECT_EQ(tiny().tokenize("[SEP]a[MASK]").front(), "[SEP]");
    EXPECT_EQ(tiny().tokenize("[MASK]").size(), 3u);  // not in this vocabulary
    EXPECT_EQ(tiny().encode("un").ids, (Ids{2, 4, 3}));
    EXPECT_EQ(tiny().encode("un", "a").ids, (Ids{2, 4, 3, 7, 3}));
    EXPECT_EQ(tiny().encode("un", "a").types, (Ids{0, 0, 0, 1, 1}));
    EXPECT_EQ(tiny().vocabulary_size(), 9);
    EXPECT_EQ(tiny().token(5), "##aff");
    EXPECT_EQ(tiny().id("nothing"), std::nullopt);
    EXPECT_ERROR(tiny().token(9), IndexError, "9 of 9");
}

TEST(WordPiece, BytesThatAreNoUtf8AreDropped) {
    for (const char* bad : {"\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x99", "\xc0\xaf", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\x80"})
        EXPECT_EQ(tiny().tokenize(std::string("un") + bad + "aff"), (Tokens{"un", "##aff"}));
    // Where nothing is cleaned, they stay as the replacement character, which no vocabulary has.
    const WordPiece kept(Tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un"}, {.clean_text = false});
    EXPECT_EQ(kept.tokenize("un\xff"), Tokens{"[UNK]"});
}

TEST(WordPiece, LimitsThatLeaveNoRoom) {
    EXPECT_EQ(tiny().encode("un un", {.max_length = 2}).ids, (Ids{2, 3}));
    EXPECT_ERROR(tiny().encode("un", {.max_length = 1}), ValueError, "max_length 1", "2 special");
    EXPECT_ERROR(tiny().encode("un", "a", {.max_length = 2}), ValueError, "3 special");
    EXPECT_ERROR(tiny().encode("un", {.max_length = -1}), ValueError, "-1");
    EXPECT_EQ(tiny().encode("a a", {.max_length = 1, .special_tokens = false}).ids, Ids{7});
}

TEST(WordPiece, Batches) {
    const std::vector<std::string> texts = {"un", "", "a a a"}, pairs = {"a", "a", ""};
    const text::TokenBatch b = tiny().batch(texts, {.max_length = 4});
    EXPECT_EQ(b.input_ids.shape(), (Shape{3, 4}));
    EXPECT_EQ(b.input_ids.to_vector<std::int64_t>(), (Ids{2, 4, 3, 0, 2, 3, 0, 0, 2, 7, 7, 3}));
    EXPECT_EQ(b.attention_mask.to_vector<std::int64_t>(),
              (Ids{1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1}));
    EXPECT_EQ(tiny().batch(texts, {.multiple_of = 8}).input_ids.size(1), 8);
    EXPECT_EQ(tiny().batch(texts, {.max_length = 7, .multiple_of = 8}).input_ids.size(1), 7);
    EXPECT_EQ(tiny()
                  .batch(texts, {.max_length = 9, .padding = text::Padding::MaxLength})
                  .input_ids.size(1),
              9);
    const text::TokenBatch p = tiny().batch(texts, pairs);
    EXPECT_EQ(p.token_type_ids.to_vector<std::int64_t>(),
              (Ids{0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1}));
    EXPECT_ERROR(tiny().batch(texts, std::span(pairs).first(2)), ValueError, "3 texts with 2");
    EXPECT_ERROR(tiny().batch(texts, {.multiple_of = 0}), ValueError, "multiple_of 0");
}

TEST(WordPiece, Folders) {
    const TempFolder folder;
    EXPECT_ERROR(WordPiece::from_folder(folder / "none"), FileError, "no such folder");
    EXPECT_ERROR(WordPiece::from_folder(folder.path()), FileError, "no vocabulary");
    write_text(folder / "vocab.txt", "[PAD]\r\n[UNK]\n[CLS]\n[SEP]\nA \na\n");
    EXPECT_EQ(WordPiece::from_folder(folder.path()).tokenize("A"), Tokens{"a"});
    write_text(folder / "tokenizer_config.json",
               R"({"do_lower_case": false, "strip_accents": null, "model_max_length": 128,
                   "pad_token": {"content": "[PAD]"}})");
    const WordPiece cased = WordPiece::from_folder(folder.path());
    EXPECT_EQ(cased.tokenize("A"), Tokens{"A"});
    EXPECT_EQ(cased.model_max_length(), 128);
    write_text(folder / "tokenizer_config.json", R"({"model_max_length": 1e30})");
    EXPECT_EQ(WordPiece::from_folder(folder.path()).model_max_length(), 512);

    fs::remove(folder / "vocab.txt");
    write_text(folder / "tokenizer.json",
               R"({"normalizer": {"type": "BertNormalizer", "lowercase": false},
                   "added_tokens": [{"content": "<x>", "special": true}],
                   "model": {"type": "WordPiece", "max_input_chars_per_word": 2,
                     "vocab": {"[PAD]": 1, "[UNK]": 0, "[CLS]": 2, "[SEP]": 3, "B": 4, "<x>": 5,
                               "##B": 6}}})");
    const WordPiece all = WordPiece::from_folder(folder.path());
    EXPECT_EQ(all.tokenize("B<x>BB b BBB"), (Tokens{"B", "<x>", "B", "##B", "[UNK]", "[UNK]"}));
    EXPECT_EQ(all.padding_id(), 1);
}

TEST(WordPiece, FoldersThatAreSomethingElse) {
    const TempFolder folder;
    const auto refused = [&](const char* file, const char* content, const char* message) {
        write_text(folder / file, content);
        return throws<FileError>([&] { WordPiece::from_folder(folder.path()); },
                                 {(folder / file).string(), message});
    };
    EXPECT_TRUE(refused("tokenizer.json", R"({"model": {"type": "BPE"}})", "\"WordPiece\""));
    EXPECT_TRUE(refused("tokenizer.json", R"({"normalizer": {"type": "NFC"}})", "BertNormalizer"));
    EXPECT_TRUE(refused("tokenizer.json", R"({"model": {"vocab": {"a": 1}}})", "'a' the id 1"));
    EXPECT_TRUE(refused("tokenizer.json", R"({"model": {"vocab": {"a": 0, "b": 0}}})", "id 0"));
    EXPECT_TRUE(refused("tokenizer.json", R"({"added_tokens": 1})", "added_tokens"));
    EXPECT_TRUE(refused("tokenizer.json", "[]", "no JSON object"));
    EXPECT_TRUE(refused("tokenizer.json", "{", "not valid JSON"));
    fs::remove(folder / "tokenizer.json");
    EXPECT_TRUE(refused("tokenizer_config.json", R"({"do_lower_case": 1})", "do_lower_case"));
    EXPECT_TRUE(refused("tokenizer_config.json", R"({"pad_token": 1})", "pad_token"));
    fs::remove(folder / "tokenizer_config.json");
    EXPECT_TRUE(refused("vocab.txt", "", "is empty"));
    EXPECT_TRUE(refused("vocab.txt", "[PAD]\n\xff\n", "line 2 is not UTF-8"));
    write_text(folder / "vocab.txt", "[PAD]\n[CLS]\na\n");
    EXPECT_ERROR(WordPiece::from_folder(folder.path()), FileError, "'[UNK]', '[SEP]'");
    EXPECT_ERROR(WordPiece(folder / "vocab.txt"), FileError, "'[UNK]', '[SEP]'");
    EXPECT_ERROR(WordPiece(Tokens{"a"}), ValueError, "'[PAD]'");
}

}  // namespace
}  // namespace pippin
