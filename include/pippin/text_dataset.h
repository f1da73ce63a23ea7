// Texts with labels, tokenized and padded batch by batch.
//
//   for (auto& batch : loader)
//       model(batch.data, batch["attention_mask"], batch["token_type_ids"]);
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pippin/dataset.h"
#include "pippin/text.h"

namespace pippin::data {

/// Texts, one label each.
struct LabelledTexts {
    std::vector<std::string> texts;
    std::vector<std::string> pairs = {};  ///< empty, or a second text for each
    std::vector<std::int64_t> labels;
    std::vector<std::string> classes = {};  ///< names of the labels 0, 1, ...
};

/// Where Debian's packages fortunes and fortunes-min put their files.
inline constexpr const char* kFortunesFolder = "/usr/share/games/fortunes";

/// Texts of the program fortune: a file is a class, named after it, and lines of "%" part its
/// texts. `files`: which ones, in the order of their labels; empty: all, by name. Files named *.dat
/// and *.u8 are passed over. FileError when the folder or a file is missing or has no texts.
LabelledTexts read_fortunes(const std::filesystem::path& folder = kFortunesFolder,
                            const std::vector<std::string>& files = {});

struct TextOptions {
    std::int64_t max_length = 128;  ///< of tokens; what is beyond is cut off
    text::Padding padding = text::Padding::Longest;
    /// Lengths are rounded up to this, since each is a plan of its own.
    std::int64_t multiple_of = 32;
};

/// Samples for BERT: data is the int64 input_ids (L), target the int64 label; "attention_mask" and
/// "token_type_ids" (L) are further inputs. A batch is padded: (N, L), with L the longest of the
/// batch, rounded up. Copies share the texts.
class TextDataset : public Dataset {
  public:
    /// ValueError unless there are as many labels (and pairs) as texts.
    TextDataset(LabelledTexts texts, text::WordPiece tokenizer, TextOptions options = {});
    std::int64_t size() const override;
    Example load(std::int64_t index, Draws draws) const override;
    void load_batch(std::span<const std::int64_t> indices, Draws draws,
                    Example& batch) const override;

    const LabelledTexts& texts() const { return *texts_; }
    const std::vector<std::string>& classes() const { return texts_->classes; }
    const text::WordPiece& tokenizer() const { return tokenizer_; }

  private:
    text::Encoding encode(std::int64_t index) const;

    std::shared_ptr<const LabelledTexts> texts_;
    text::WordPiece tokenizer_;
    TextOptions options_;
};

}  // namespace pippin::data
