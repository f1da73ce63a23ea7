// tokenizer_config.json, tokenizer.json and a BERT's config.json: every text is read as all three.
#include <nlohmann/json.hpp>

#include "../models/bert_config.h"
#include "fuzz.h"
#include "io/json_file.h"
#include "text/tokenizer_settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    fuzz::run([&] {
        const nlohmann::json root = io::parse_json(fuzz::text(data, size), "file");
        fuzz::run([&] {
            text::TokenizerSettings settings;
            text::read_tokenizer_config(root, "file", settings);
        });
        fuzz::run([&] {
            const models::BertConfig config = models::parse_bert_config(root, "file");
            fuzz::check(config.hidden_size % config.heads == 0, "heads divide the size");
        });
        text::TokenizerSettings settings;
        text::read_tokenizer_json(root, "file", settings);
        fuzz::check(settings.tokens.size() <= size, "tokens come from the file");
    });
    return 0;
}
