#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "io/file_error.h"
#include "pippin/error.h"

namespace pippin::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, and nothing here swaps bytes");

using json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct FileDType {
    std::string_view name;
    std::uint64_t bytes;
    std::optional<DType> dtype;
};
constexpr FileDType kDTypes[] = {
    {"F64", 8, DType::Float64},   {"F32", 4, DType::Float32},   {"F16", 2, DType::Float16},
    {"BF16", 2, DType::BFloat16}, {"I64", 8, DType::Int64},     {"I32", 4, DType::Int32},
    {"U8", 1, DType::UInt8},      {"BOOL", 1, DType::Bool},     {"I16", 2, std::nullopt},
    {"I8", 1, std::nullopt},      {"U64", 8, std::nullopt},     {"U32", 4, std::nullopt},
    {"U16", 2, std::nullopt},     {"C64", 8, std::nullopt},     {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt}, {"F8_E8M0", 1, std::nullopt},
};

const FileDType* find_dtype(std::string_view name) {
    for (const FileDType& t : kDTypes)
        if (t.name == name) return &t;
    return nullptr;
}

// Takes the parser's events and allows exactly the header's grammar, so that nothing nests deeply,
// no key is silently overwritten, and memory stays in proportion to the file.
class HeaderReader : public nlohmann::json_sax<json> {
  public:
    explicit HeaderReader(Header& out) : out_(out) {}

    const std::string& error() const { return error_; }

    bool start_object(std::size_t) override {
        if (state_ == State::Start) return enter(State::Root);
        if (state_ == State::Entry) {
            if (name_ == kMetadataKey) return enter(State::Metadata);
            out_.tensors.push_back({name_, {}, {}, 0, 0});
            has_dtype_ = has_shape_ = has_offsets_ = false;
            return enter(State::Tensor);
        }
        return unexpected("an object");
    }

    bool key(std::string& text) override {
        if (state_ == State::Root) {
            name_ = text;
            if (!names_.insert(text).second) return fail("comes twice");
            return enter(State::Entry);
        }
        if (state_ == State::Metadata) {
            if (out_.metadata.contains(text))
                return fail("has the key " + in_quotes(text) + " twice");
            field_ = text;
            return enter(State::MetadataValue);
        }
        // State::Tensor: the parser gives keys in objects only.
        bool* seen = text == "dtype"          ? &has_dtype_
                     : text == "shape"        ? &has_shape_
                     : text == "data_offsets" ? &has_offsets_
                                              : nullptr;
        if (!seen) return fail("has the unknown key " + in_quotes(text));
        if (*seen) return fail("has the key " + in_quotes(text) + " twice");
        *seen = true;
        return enter(seen == &has_dtype_   ? State::DType
                     : seen == &has_shape_ ? State::Shape
                                           : State::Offsets);
    }

    bool end_object() override {
        if (state_ == State::Tensor) {
            if (!has_dtype_) return fail("has no dtype");
            if (!has_shape_) return fail("has no shape");
            if (!has_offsets_) return fail("has no data_offsets");
            return enter(State::Root);
        }
        if (state_ == State::Metadata) return enter(State::Root);
        return enter(State::End);
    }

    bool string(std::string& text) override {
        if (state_ == State::MetadataValue) {
            out_.metadata.emplace(std::move(field_), text);
            return enter(State::Metadata);
        }
        if (state_ == State::DType) {
            out_.tensors.back().dtype = text;
            return enter(State::Tensor);
        }
        return unexpected("text");
    }

    bool start_array(std::size_t) override {
        if (state_ == State::Shape) return enter(State::ShapeItem);
        if (state_ == State::Offsets) {
            offsets_ = 0;
            return enter(State::OffsetItem);
        }
        return unexpected("an array");
    }

    bool end_array() override {
        if (state_ == State::OffsetItem && offsets_ != 2)
            return fail("has data_offsets that are not two numbers");
        return enter(State::Tensor);
    }

    bool number_unsigned(std::uint64_t value) override {
        if (state_ == State::ShapeItem) {
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return fail(fmt::format("has the extent {}, which is too large", value));
            out_.tensors.back().shape.push_back(static_cast<std::int64_t>(value));
            return true;
        }
        if (state_ == State::OffsetItem) {
            if (offsets_ == 2) return fail("has data_offsets that are not two numbers");
            // The end is kept in `bytes` until all entries are known.
            TensorInfo& info = out_.tensors.back();
            (offsets_++ == 0 ? info.offset : info.bytes) = value;
            return true;
        }
        return unexpected("a number");
    }

    // The parser calls this for negative numbers only.
    bool number_integer(std::int64_t value) override {
        if (state_ == State::ShapeItem) return fail(fmt::format("has the extent {}", value));
        if (state_ == State::OffsetItem) return fail(fmt::format("has the offset {}", value));
        return unexpected("a number");
    }

    // Also what does not fit into 64 bits.
    bool number_float(double, const std::string& text) override {
        if (state_ == State::ShapeItem || state_ == State::OffsetItem)
            return fail("has " + in_quotes(text) + " where a whole number below 2^63 was expected");
        return unexpected("a number");
    }

    bool null() override { return unexpected("null"); }
    bool boolean(bool) override { return unexpected("true or false"); }
    bool binary(json::binary_t&) override { return unexpected("binary data"); }

    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& e) override {
        // After the library's own prefix, which names its exception.
        const std::string_view text = e.what();
        const std::size_t from = text.find("] ");
        error_ = fmt::format("the header is not valid JSON, at its byte {}: {}", position,
                             text.substr(from == text.npos ? 0 : from + 2).substr(0, 300));
        return false;
    }

  private:
    enum class State {
        Start,
        Root,
        Entry,
        Metadata,
        MetadataValue,
        Tensor,
        DType,
        Shape,
        ShapeItem,
        Offsets,
        OffsetItem,
        End
    };

    bool enter(State state) {
        state_ = state;
        return true;
    }
    bool fail(const std::string& what) {
        error_ =
            (name_ == kMetadataKey ? std::string(kMetadataKey) : "tensor " + in_quotes(name_)) +
            " " + what;
        return false;
    }
    bool unexpected(const std::string& what) {
        switch (state_) {
            case State::Start:
                error_ = "the header is " + what + " instead of an object";
                break;
            case State::Entry:
                fail("is " + what + " instead of an object");
                break;
            case State::MetadataValue:
                fail("has " + what + " instead of text at " + in_quotes(field_));
                break;
            case State::DType:
                fail("has a dtype that is " + what + " instead of text");
                break;
            case State::Shape:
                fail("has a shape that is " + what + " instead of an array");
                break;
            case State::ShapeItem:
                fail("has " + what + " in its shape");
                break;
            case State::Offsets:
                fail("has data_offsets that are " + what + " instead of an array");
                break;
            default:
                fail("has " + what + " in its data_offsets");
                break;
        }
        return false;
    }

    Header& out_;
    State state_ = State::Start;
    std::unordered_set<std::string> names_;
    std::string name_, field_, error_;
    bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
    int offsets_ = 0;
};

// Bytes of a tensor by its dtype and shape; nothing for a dtype of unknown size.
std::optional<std::uint64_t> expected_bytes(const TensorInfo& info,
                                            const std::filesystem::path& path) {
    const bool empty = std::ranges::find(info.shape, 0) != info.shape.end();
    const FileDType* dtype = find_dtype(info.dtype);
    std::uint64_t n = dtype ? dtype->bytes : 1;
    for (const std::int64_t extent : info.shape) {
        const auto e = static_cast<std::uint64_t>(extent);
        // With a zero among them the others multiply to nothing, however large.
        if (!empty && n > static_cast<std::uint64_t>(INT64_MAX) / e)
            throw_file_error(path, fmt::format("tensor {} has a shape that overflows: [{}]",
                                               in_quotes(info.name), fmt::join(info.shape, ", ")));
        n = empty ? 0 : n * e;
    }
    if (empty) n = 0;
    return dtype ? std::optional(n) : std::nullopt;
}

// Turns [begin, end) within the data into a place in the file, and checks that the tensors tile it.
void place_tensors(Header& header, std::uint64_t data_start, std::uint64_t file_size,
                   const std::filesystem::path& path) {
    const std::uint64_t data_bytes = file_size - data_start;
    for (TensorInfo& info : header.tensors) {
        const std::uint64_t begin = info.offset, end = info.bytes;
        if (begin > end)
            throw_file_error(path, fmt::format("tensor {} ends (at {}) before it begins (at {})",
                                               in_quotes(info.name), end, begin));
        if (const auto expected = expected_bytes(info, path); expected && *expected != end - begin)
            throw_file_error(
                path, fmt::format("tensor {} of dtype {} and shape [{}] needs {} bytes, but its "
                                  "data_offsets [{}, {}] have {}",
                                  in_quotes(info.name), info.dtype, fmt::join(info.shape, ", "),
                                  *expected, begin, end, end - begin));
        if (end > data_bytes)
            throw_file_error(
                path, fmt::format("tensor {} ends at byte {} of the data, but the file has only {} "
                                  "(is it truncated?)",
                                  in_quotes(info.name), end, data_bytes));
        info.offset = data_start + begin;
        info.bytes = end - begin;
    }

    std::vector<const TensorInfo*> order;
    for (const TensorInfo& info : header.tensors)
        order.push_back(&info);
    std::ranges::sort(order, [](const TensorInfo* a, const TensorInfo* b) {
        return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
    });
    std::uint64_t at = data_start;
    const TensorInfo* before = nullptr;
    for (const TensorInfo* info : order) {
        if (info->offset < at)
            throw_file_error(path, fmt::format("tensors {} and {} overlap", in_quotes(before->name),
                                               in_quotes(info->name)));
        if (info->offset > at)
            throw_file_error(path, fmt::format("{} bytes before tensor {} belong to no tensor",
                                               info->offset - at, in_quotes(info->name)));
        at = info->offset + info->bytes;
        before = info;
    }
    if (at != file_size)
        throw_file_error(
            path, fmt::format("the last {} bytes of the file belong to no tensor", file_size - at));
}

}  // namespace

std::optional<DType> dtype_from_file(std::string_view name) {
    const FileDType* t = find_dtype(name);
    return t ? t->dtype : std::nullopt;
}

std::string_view dtype_in_file(DType dtype) {
    for (const FileDType& t : kDTypes)
        if (t.dtype == dtype) return t.name;
    throw TypeError(fmt::format("safetensors has no dtype {}", name_of(dtype)));
}

Header parse_header(std::span<const std::byte> file, const std::filesystem::path& path) {
    if (file.size() < kLengthBytes)
        throw_file_error(path,
                         fmt::format("is no safetensors file: it has only {} bytes", file.size()));
    std::uint64_t length;
    std::memcpy(&length, file.data(), kLengthBytes);
    if (length > kMaxHeaderBytes)
        throw_file_error(path, fmt::format("is no safetensors file, or a corrupt one: its header "
                                           "would have {} bytes; {} are allowed",
                                           length, kMaxHeaderBytes));
    if (length > file.size() - kLengthBytes)
        throw_file_error(path, fmt::format("its header should have {} bytes, but the file has only "
                                           "{} in all (is it truncated?)",
                                           length, file.size()));
    const char* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
    if (length == 0 || text[0] != '{')
        throw_file_error(path, "is no safetensors file: its header does not begin with '{'");

    Header header;
    HeaderReader reader(header);
    if (!json::sax_parse(text, text + length, &reader)) throw_file_error(path, reader.error());
    place_tensors(header, kLengthBytes + length, file.size(), path);
    return header;
}

std::string make_header(std::vector<TensorInfo>& tensors, const Metadata& metadata) {
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::size_t i) { return find_dtype(tensors[i].dtype)->bytes; });
    std::uint64_t at = 0;
    for (const std::size_t i : order) {
        TensorInfo& info = tensors[i];
        info.bytes = find_dtype(info.dtype)->bytes;
        for (const std::int64_t extent : info.shape)
            info.bytes *= static_cast<std::uint64_t>(extent);
        info.offset = at;
        at += info.bytes;
    }

    std::unordered_set<std::string_view> names;
    nlohmann::ordered_json root = nlohmann::ordered_json::object();
    if (!metadata.empty()) root[std::string(kMetadataKey)] = metadata;
    std::string text;
    try {
        text = root.dump();
        text.pop_back();  // the closing brace; entries are added one by one, which stays linear
        for (const TensorInfo& info : tensors) {
            if (info.name == kMetadataKey || !names.insert(info.name).second)
                throw ValueError(fmt::format("save_safetensors: {} {}", in_quotes(info.name),
                                             info.name == kMetadataKey
                                                 ? "is reserved for the metadata"
                                                 : "is the name of two tensors"));
            if (text.size() > 1) text += ',';
            text += nlohmann::ordered_json(info.name).dump() + ':';
            text +=
                nlohmann::ordered_json{{"dtype", info.dtype},
                                       {"shape", info.shape},
                                       {"data_offsets", {info.offset, info.offset + info.bytes}}}
                    .dump();
        }
    } catch (const json::type_error& e) {
        throw ValueError(
            fmt::format("save_safetensors: names and metadata must be UTF-8: {}", e.what()));
    }
    text += '}';
    text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
    if (text.size() > kMaxHeaderBytes)
        throw ValueError(
            fmt::format("save_safetensors: the header would have {} bytes; {} are allowed",
                        text.size(), kMaxHeaderBytes));
    const std::uint64_t length = text.size();
    for (TensorInfo& info : tensors)
        info.offset += kLengthBytes + length;
    std::string out(kLengthBytes, '\0');
    std::memcpy(out.data(), &length, kLengthBytes);
    return out + text;
}

}  // namespace pippin::io
