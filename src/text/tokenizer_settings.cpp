#include "text/tokenizer_settings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/file_error.h"

namespace pippin::text {
namespace {

using nlohmann::json;

// One object of a file, with errors that name the key.
class Reader {
  public:
    Reader(const json& object, const std::filesystem::path& path, std::string where)
        : object_(object), path_(path), where_(std::move(where)) {
        if (!object.is_object()) io::throw_file_error(path_, where_ + " is no JSON object");
    }
    // Null where it is missing or null.
    const json* find(const char* key) const {
        const auto at = object_.find(key);
        return at == object_.end() || at->is_null() ? nullptr : &*at;
    }
    [[noreturn]] void fail(const char* key, const std::string& what) const {
        io::throw_file_error(path_, fmt::format("\"{}\" of {} {}", key, where_, what));
    }
    template <class T>
    void read(const char* key, T& out) const {
        const json* value = find(key);
        if (!value) return;
        if (!value->is_boolean()) fail(key, "is neither true nor false");
        out = value->get<bool>();
    }
    // A text, or an object with the text as its "content".
    void read_token(const char* key, std::string& out) const {
        const json* value = find(key);
        if (value && value->is_object()) {
            const auto content = value->find("content");
            value = content == value->end() ? nullptr : &*content;
        }
        if (value && !value->is_string()) fail(key, "is no token");
        if (value) out = value->get<std::string>();
    }
    void expect(const char* key, const char* expected) const {
        const json* value = find(key);
        if (value && (!value->is_string() || *value != expected))
            fail(key, fmt::format("is not \"{}\", the only one that is known", expected));
    }

  private:
    const json& object_;
    const std::filesystem::path& path_;
    std::string where_;
};

// {"[PAD]": 0, ...}: ids must count from 0 without gaps, or a few tokens could claim any memory.
std::vector<std::string> vocabulary(const json& map, const Reader& model) {
    if (!map.is_object()) model.fail("vocab", "is no object");
    std::vector<std::string> tokens(map.size());
    std::vector<bool> seen(map.size());
    for (const auto& [token, id] : map.items()) {
        const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < tokens.size() &&
                          !seen[id.get<std::size_t>()];
        if (!fits)
            model.fail("vocab", fmt::format("gives {} the id {}; 0 to {}, each once, are possible",
                                            io::in_quotes(token), id.dump().substr(0, 30),
                                            tokens.size() - 1));
        seen[id.get<std::size_t>()] = true;
        tokens[id.get<std::size_t>()] = token;
    }
    return tokens;
}

}  // namespace

void read_tokenizer_json(const json& root, const std::filesystem::path& path,
                         TokenizerSettings& settings) {
    WordPieceOptions& o = settings.options;
    const Reader top(root, path, "the file");
    if (const json* normalizer = top.find("normalizer")) {
        const Reader r(*normalizer, path, "the normalizer");
        r.expect("type", "BertNormalizer");
        r.read("lowercase", o.lower_case);
        r.read("strip_accents", o.strip_accents);
        r.read("clean_text", o.clean_text);
        r.read("handle_chinese_chars", o.chinese_chars);
    }
    if (const json* splitter = top.find("pre_tokenizer"))
        Reader(*splitter, path, "the pre_tokenizer").expect("type", "BertPreTokenizer");
    if (const json* model = top.find("model")) {
        const Reader r(*model, path, "the model");
        r.expect("type", "WordPiece");
        r.expect("continuing_subword_prefix", "##");
        r.read_token("unk_token", o.unknown);
        if (const json* longest = r.find("max_input_chars_per_word")) {
            if (!longest->is_number_unsigned()) r.fail("max_input_chars_per_word", "is no number");
            o.max_word = longest->get<std::size_t>();
        }
        if (const json* map = r.find("vocab")) settings.tokens = vocabulary(*map, r);
    }
    if (const json* added = top.find("added_tokens")) {
        if (!added->is_array()) top.fail("added_tokens", "is no list");
        for (const json& entry : *added) {
            const Reader r(entry, path, "an added token");
            bool special = false;
            std::string content;
            r.read("special", special);
            r.read_token("content", content);
            if (special && !content.empty()) settings.special.push_back(content);
        }
    }
}

void read_tokenizer_config(const json& root, const std::filesystem::path& path,
                           TokenizerSettings& settings) {
    WordPieceOptions& o = settings.options;
    const Reader r(root, path, "the file");
    r.read("do_lower_case", o.lower_case);
    r.read("strip_accents", o.strip_accents);
    r.read("tokenize_chinese_chars", o.chinese_chars);
    r.read_token("unk_token", o.unknown);
    r.read_token("sep_token", o.separator);
    r.read_token("pad_token", o.padding);
    r.read_token("cls_token", o.start);
    r.read_token("mask_token", o.mask);
    if (const json* length = r.find("model_max_length")) {
        if (!length->is_number()) r.fail("model_max_length", "is no number");
        // 1e30 says that there is no limit.
        const double value = length->get<double>();
        if (value >= 1 && value <= 1 << 24)
            settings.model_max_length = static_cast<std::int64_t>(value);
    }
}

}  // namespace pippin::text
