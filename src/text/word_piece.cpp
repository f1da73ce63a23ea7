#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "io/file_error.h"
#include "io/input_file.h"
#include "io/json_file.h"
#include "pippin/error.h"
#include "pippin/text.h"
#include "text/tokenizer_settings.h"
#include "text/unicode.h"
#include "text/vocabulary.h"
#include "text/words.h"

namespace pippin::text {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> read_vocabulary(const fs::path& path) {
    const std::vector<std::byte> file = io::read_file(path);
    return parse_vocabulary({reinterpret_cast<const char*>(file.data()), file.size()}, path);
}

}  // namespace

struct WordPiece::Impl {
    Vocabulary vocabulary;
    WordPieceOptions options;
    std::int64_t unknown = 0, separator = 0, padding = 0, start = 0;
    std::int64_t model_max_length = 512;
    struct Special {
        std::string text;
        std::int64_t id;
    };
    std::vector<Special> special;  ///< longest first

    /// Says which special tokens are missing; empty when none is.
    std::string prepare(const std::vector<std::string>& further) {
        std::vector<std::string> missing;
        const auto find = [&](const std::string& token, std::int64_t* id) {
            const auto found = vocabulary.id(token);
            if (!found) {
                missing.push_back(io::in_quotes(token));
                return;
            }
            special.push_back({token, *found});
            if (id) *id = *found;
        };
        find(options.unknown, &unknown);
        find(options.separator, &separator);
        find(options.padding, &padding);
        find(options.start, &start);
        // Only some tasks have masks, and some vocabularies none.
        if (vocabulary.id(options.mask)) find(options.mask, nullptr);
        for (const std::string& token : further)
            if (vocabulary.id(token)) find(token, nullptr);
        std::ranges::stable_sort(special, std::greater(),
                                 [](const Special& s) { return s.text.size(); });
        return fmt::format("{}", fmt::join(missing, ", "));
    }

    const Special* special_at(std::string_view text) const {
        for (const Special& s : special)
            if (!s.text.empty() && text.starts_with(s.text)) return &s;
        return nullptr;
    }

    void append_word(std::u32string_view word, std::vector<std::int64_t>& out) const {
        const std::size_t before = out.size();
        if (word.size() > options.max_word) {
            out.push_back(unknown);
            return;
        }
        // Places where characters begin in the word's bytes.
        std::string bytes;
        std::vector<std::size_t> at;
        for (const char32_t c : word) {
            at.push_back(bytes.size());
            bytes += text::encode(std::u32string_view(&c, 1));
        }
        at.push_back(bytes.size());
        std::string piece;
        for (std::size_t from = 0; from < word.size();) {
            std::size_t to = word.size();
            std::optional<std::int64_t> id;
            for (; to > from && !id; --to) {
                piece = from > 0 ? "##" : "";
                piece.append(bytes, at[from], at[to] - at[from]);
                if (piece.size() <= vocabulary.longest()) id = vocabulary.id(piece);
            }
            if (!id) {
                out.resize(before);
                out.push_back(unknown);
                return;
            }
            out.push_back(*id);
            from = to + 1;  // the loop went one further down
        }
    }

    void append_words(std::string_view text, std::vector<std::int64_t>& out) const {
        if (text.empty()) return;
        for_each_word(text, options, [&](std::u32string_view word) { append_word(word, out); });
    }

    std::vector<std::int64_t> ids_of(std::string_view text) const {
        std::vector<std::int64_t> out;
        std::size_t from = 0;
        for (std::size_t i = 0; i < text.size();) {
            const Special* s = special_at(text.substr(i));
            if (!s) {
                ++i;
                continue;
            }
            append_words(text.substr(from, i - from), out);
            out.push_back(s->id);
            i += s->text.size();
            from = i;
        }
        append_words(text.substr(from), out);
        return out;
    }

    Encoding encode_ids(std::vector<std::int64_t> a, std::optional<std::vector<std::int64_t>> b,
                        const EncodeOptions& o) const {
        const std::size_t extra = o.special_tokens ? (b ? 3 : 2) : 0;
        if (o.max_length < 0 ||
            (o.max_length > 0 && static_cast<std::size_t>(o.max_length) < extra))
            throw ValueError(
                fmt::format("WordPiece: max_length {} has no room for the {} special "
                            "tokens",
                            o.max_length, extra));
        if (o.max_length > 0) {
            const std::size_t room = static_cast<std::size_t>(o.max_length) - extra;
            std::vector<std::int64_t> none;
            truncate(a, b ? *b : none, room);
        }
        Encoding out;
        const auto add = [&](std::int64_t token, std::int64_t type) {
            out.ids.push_back(token);
            out.types.push_back(type);
        };
        if (o.special_tokens) add(start, 0);
        for (const std::int64_t id : a)
            add(id, 0);
        if (o.special_tokens) add(separator, 0);
        if (!b) return out;
        for (const std::int64_t id : *b)
            add(id, 1);
        if (o.special_tokens) add(separator, 1);
        return out;
    }

    // Token by token off the longer of the two; where both are cut, the second keeps the odd one.
    static void truncate(std::vector<std::int64_t>& a, std::vector<std::int64_t>& b,
                         std::size_t room) {
        if (a.size() + b.size() <= room) return;
        std::vector<std::int64_t>&shorter = a.size() > b.size() ? b : a,
        &longer = a.size() > b.size() ? a : b;
        std::size_t n1 = shorter.size();
        std::size_t n2 = n1 > room ? n1 : std::max(n1, room - n1);
        if (n1 + n2 > room) {
            n1 = room / 2;
            n2 = n1 + room % 2;
        }
        shorter.resize(std::min(n1, shorter.size()));
        longer.resize(std::min(n2, longer.size()));
    }
};

WordPiece::WordPiece(const fs::path& vocabulary, WordPieceOptions options) {
    auto impl = std::make_shared<Impl>();
    impl->vocabulary = Vocabulary(read_vocabulary(vocabulary));
    impl->options = std::move(options);
    if (const std::string missing = impl->prepare({}); !missing.empty())
        io::throw_file_error(vocabulary, "is no vocabulary of BERT's kind: it lacks " + missing);
    impl_ = std::move(impl);
}

WordPiece::WordPiece(std::vector<std::string> tokens, WordPieceOptions options) {
    auto impl = std::make_shared<Impl>();
    impl->vocabulary = Vocabulary(std::move(tokens));
    impl->options = std::move(options);
    if (const std::string missing = impl->prepare({}); !missing.empty())
        throw ValueError("WordPiece: the vocabulary lacks " + missing);
    impl_ = std::move(impl);
}

WordPiece WordPiece::from_folder(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error))
        io::throw_file_error(folder, "there is no such folder; it should hold vocab.txt");
    const fs::path vocab = folder / "vocab.txt", all = folder / "tokenizer.json",
                   config = folder / "tokenizer_config.json";
    TokenizerSettings settings;
    if (fs::exists(all, error)) read_tokenizer_json(io::read_json(all), all, settings);
    if (fs::exists(config, error)) read_tokenizer_config(io::read_json(config), config, settings);
    if (fs::exists(vocab, error)) settings.tokens = read_vocabulary(vocab);
    if (settings.tokens.empty())
        io::throw_file_error(folder, "has no vocabulary, neither vocab.txt nor in tokenizer.json");
    auto impl = std::make_shared<Impl>();
    impl->vocabulary = Vocabulary(std::move(settings.tokens));
    impl->options = std::move(settings.options);
    impl->model_max_length = settings.model_max_length;
    if (const std::string missing = impl->prepare(settings.special); !missing.empty())
        io::throw_file_error(folder, "its vocabulary is not of BERT's kind: it lacks " + missing);
    return WordPiece(std::shared_ptr<const Impl>(std::move(impl)));
}

std::vector<std::string> WordPiece::tokenize(std::string_view text) const {
    std::vector<std::string> out;
    for (const std::int64_t id : impl_->ids_of(text))
        out.push_back(impl_->vocabulary.token(id));
    return out;
}

Encoding WordPiece::encode(std::string_view text, const EncodeOptions& options) const {
    return impl_->encode_ids(impl_->ids_of(text), std::nullopt, options);
}

Encoding WordPiece::encode(std::string_view text, std::string_view pair,
                           const EncodeOptions& options) const {
    return impl_->encode_ids(impl_->ids_of(text), impl_->ids_of(pair), options);
}

std::int64_t WordPiece::vocabulary_size() const { return impl_->vocabulary.size(); }
std::optional<std::int64_t> WordPiece::id(std::string_view token) const {
    return impl_->vocabulary.id(token);
}
const std::string& WordPiece::token(std::int64_t id) const {
    if (id < 0 || id >= vocabulary_size())
        throw IndexError(fmt::format("WordPiece: token {} of {}", id, vocabulary_size()));
    return impl_->vocabulary.token(id);
}
std::int64_t WordPiece::padding_id() const { return impl_->padding; }
const WordPieceOptions& WordPiece::options() const { return impl_->options; }
std::int64_t WordPiece::model_max_length() const { return impl_->model_max_length; }

}  // namespace pippin::text
