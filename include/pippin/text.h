// BERT's tokenizer: texts into ids of a WordPiece vocabulary, as Hugging Face's tokenizers give
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::text {

/// How texts are cleaned and split. The defaults are bert-base-uncased's.
struct WordPieceOptions {
    bool lower_case = true;
    std::optional<bool> strip_accents = std::nullopt;  ///< unset: as lower_case
    bool clean_text = true;      ///< control characters go, every kind of space becomes a blank
    bool chinese_chars = true;   ///< each Chinese character is a word
    std::size_t max_word = 100;  ///< a word of more characters is unknown
    std::string unknown = "[UNK]", separator = "[SEP]", padding = "[PAD]", start = "[CLS]",
                mask = "[MASK]";
};

/// Ids of one text, or of a pair: [CLS] text [SEP], and with a pair, pair [SEP].
struct Encoding {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> types;  ///< 0; for the pair and the separator after it, 1
};

struct EncodeOptions {
    /// Tokens in all, special ones included. What is beyond is cut off; of a pair, off the longer
    /// one first. 0: no limit.
    std::int64_t max_length = 512;
    bool special_tokens = true;  ///< false: no [CLS] and [SEP]
};

enum class Padding : std::uint8_t {
    Longest,   ///< to the longest of the batch
    MaxLength  ///< to max_length
};

struct BatchOptions {
    std::int64_t max_length = 512;
    Padding padding = Padding::Longest;
    /// Lengths are rounded up to this, not beyond max_length. Each length is a plan of its own in
    /// Pippin, so a few lengths are better than all.
    std::int64_t multiple_of = 1;
    std::optional<Device> device = std::nullopt;  ///< unset: default_device()
};

/// What BERT takes; int64 (N, L) each.
struct TokenBatch {
    Tensor input_ids;
    Tensor attention_mask;  ///< 1 for a token, 0 for padding
    Tensor token_type_ids;
};

/// WordPiece (Schuster and Nakajima 2012; Wu et al. 2016) with BERT's splitting into words: clean,
/// set Chinese characters apart, lower-case and strip accents, split at spaces and around
/// punctuation, then the longest pieces from the left. A text of special tokens' names ("[MASK]")
/// gives these. Bytes that are not UTF-8 count as U+FFFD, which cleaning drops.
/// Characters younger than Hugging Face's Unicode tables (about 600, in rare scripts) may be
/// classed differently there. Copies share the vocabulary; safe for many threads.
class WordPiece {
  public:
    /// From a vocabulary, one token a line, whose number is its id. FileError when the file is
    /// missing, no UTF-8, or without one of the special tokens.
    explicit WordPiece(const std::filesystem::path& vocabulary, WordPieceOptions options = {});
    /// From a list of tokens. ValueError without the special ones.
    explicit WordPiece(std::vector<std::string> tokens, WordPieceOptions options = {});
    /// From a Hugging Face folder: vocab.txt or tokenizer.json, with the settings of
    /// tokenizer_config.json and tokenizer.json. FileError, also for another kind of tokenizer.
    static WordPiece from_folder(const std::filesystem::path& folder);

    /// The pieces: "unaffable" gives "una", "##ffa", "##ble".
    std::vector<std::string> tokenize(std::string_view text) const;
    /// ValueError when max_length has no room for the special tokens.
    Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
    Encoding encode(std::string_view text, std::string_view pair,
                    const EncodeOptions& options = {}) const;
    /// Encodes and pads. `pairs` is empty or as long as `texts` (ValueError).
    TokenBatch batch(std::span<const std::string> texts, const BatchOptions& options = {}) const;
    TokenBatch batch(std::span<const std::string> texts, std::span<const std::string> pairs,
                     const BatchOptions& options = {}) const;

    std::int64_t vocabulary_size() const;
    /// Nothing for a token that the vocabulary lacks.
    std::optional<std::int64_t> id(std::string_view token) const;
    /// IndexError outside of the vocabulary.
    const std::string& token(std::int64_t id) const;
    std::int64_t padding_id() const;
    const WordPieceOptions& options() const;
    /// What tokenizer_config.json says a model takes at most; 512 without it.
    std::int64_t model_max_length() const;

  private:
    struct Impl;
    explicit WordPiece(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
    std::shared_ptr<const Impl> impl_;
};

/// The length to which texts of these lengths are padded.
std::int64_t padded_length(std::span<const Encoding> encodings, std::int64_t max_length,
                           Padding padding, std::int64_t multiple_of);
/// Writes the encodings row by row into (N, length) arrays; `padding_id` and zeros behind each.
void pad_into(std::span<const Encoding> encodings, std::int64_t length, std::int64_t padding_id,
              std::int64_t* ids, std::int64_t* mask, std::int64_t* types);

}  // namespace pippin::text
