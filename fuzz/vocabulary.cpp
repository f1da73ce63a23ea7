// A vocabulary and, after the first 0 byte, a text to be cut into its pieces.
#include "text/vocabulary.h"
#include "fuzz.h"
#include "pippin/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    return fuzz::run([&] {
        const std::string_view all = fuzz::text(data, size);
        const std::size_t end = std::min(all.find('\0'), size);
        std::vector<std::string> tokens = text::parse_vocabulary(all.substr(0, end), "file");
        for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
            tokens.emplace_back(special);
        const std::string_view input = all.substr(std::min(end + 1, size));
        for (const bool plain : {false, true}) {
            const text::WordPiece tokenizer(
                tokens, {.lower_case = !plain, .clean_text = !plain, .chinese_chars = !plain});
            const text::Encoding e = tokenizer.encode(input, input, {.max_length = 16});
            fuzz::check(e.ids.size() <= 16 && e.ids.size() == e.types.size(), "limits are kept");
            for (const std::int64_t id : e.ids)
                fuzz::check(id >= 0 && id < tokenizer.vocabulary_size(), "ids are in the list");
        }
    });
}
