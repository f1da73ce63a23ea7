// tokenizer_config.json and tokenizer.json: every text is read as both.
#include <nlohmann/json.hpp>

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
        text::TokenizerSettings settings;
        text::read_tokenizer_json(root, "file", settings);
        fuzz::check(settings.tokens.size() <= size, "tokens come from the file");
    });
    return 0;
}
