#include "io/torch_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "io/file_error.h"
#include "pippin/error.h"

namespace pippin::io {
namespace {

// Far above what checkpoints need, and small enough that a file made to fill the memory cannot.
constexpr std::uint64_t kMaxPickleBytes = 256 << 20;
constexpr int kMaxDepth = 64;
constexpr std::uint64_t kMaxVisits = 5'000'000;
constexpr std::uint64_t kMaxNameBytes = 512 << 20;

std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The archive's one folder, told by the pickle in it.
std::string find_folder(const ZipArchive& archive) {
    constexpr std::string_view kPickle = "/data.pkl";
    std::string folder;
    for (const std::string& name : archive.names()) {
        const std::size_t slash = name.find('/');
        if (slash == std::string::npos || std::string_view(name).substr(slash) != kPickle) continue;
        if (!folder.empty())
            throw_file_error(archive.path(), "has several data.pkl; one was expected");
        folder = name.substr(0, slash + 1);
    }
    if (folder.empty())
        throw_file_error(archive.path(),
                         "is a zip file, but no PyTorch checkpoint: it has no <folder>/data.pkl");
    return folder;
}

// Names the way to each tensor and number. Containers may be shared and even hold themselves, hence
// the limits.
class Flattener {
  public:
    Flattener(const PickleDocument& document, const std::filesystem::path& path,
              std::vector<TorchContent::Entry>& entries, std::map<std::string, Scalar>& scalars)
        : document_(document), path_(path), entries_(entries), scalars_(scalars) {}

    void walk(std::uint32_t id, const std::string& name, int depth) {
        using Kind = PickleNode::Kind;
        if (depth > kMaxDepth)
            throw_file_error(path_, fmt::format("its containers nest more than {} deep at {}",
                                                kMaxDepth, in_quotes(name)));
        name_bytes_ += name.size();
        if (++visits_ > kMaxVisits || name_bytes_ > kMaxNameBytes)
            throw_file_error(path_, "holds too many objects");
        const PickleNode& node = document_.nodes[id];
        switch (node.kind) {
            case Kind::Tuple:
            case Kind::List:
                for (std::size_t i = 0; i < node.items.size(); ++i)
                    walk(node.items[i], join(name, std::to_string(i)), depth + 1);
                return;
            case Kind::Dict:
                for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
                    walk(node.items[i + 1], join(name, key(node.items[i], name)), depth + 1);
                return;
            case Kind::Tensor:
                add_name(name);
                entries_.push_back({name, static_cast<std::uint32_t>(node.integer)});
                return;
            case Kind::None:
                return add_scalar(name, {});
            case Kind::Bool:
                return add_scalar(name, node.integer != 0);
            case Kind::Int:
                return add_scalar(name, node.integer);
            case Kind::Float:
                return add_scalar(name, node.real);
            case Kind::Text:
                return add_scalar(name, node.text);
            case Kind::Global:
            case Kind::Storage:
                throw_file_error(
                    path_,
                    fmt::format("{} is a bare {}, which a checkpoint cannot "
                                "hold",
                                in_quotes(name), node.kind == Kind::Storage ? "storage" : "type"));
        }
    }

  private:
    static std::string join(const std::string& name, const std::string& last) {
        return name.empty() ? last : name + '.' + last;
    }
    std::string key(std::uint32_t id, const std::string& name) const {
        const PickleNode& node = document_.nodes[id];
        switch (node.kind) {
            case PickleNode::Kind::Text:
                return node.text;
            case PickleNode::Kind::Int:  // optimizers number their parameters
                return std::to_string(node.integer);
            case PickleNode::Kind::Bool:
                return node.integer != 0 ? "True" : "False";
            case PickleNode::Kind::None:
                return "None";
            default:
                throw_file_error(path_, fmt::format("the dict {} has a key that is neither a text "
                                                    "nor a whole number",
                                                    in_quotes(name)));
        }
    }
    void add_name(const std::string& name) {
        if (!names_.insert(name).second)
            throw_file_error(path_, fmt::format("the name {} comes twice", in_quotes(name)));
    }
    void add_scalar(const std::string& name, Scalar value) {
        add_name(name);
        scalars_.emplace(name, std::move(value));
    }

    const PickleDocument& document_;
    const std::filesystem::path& path_;
    std::vector<TorchContent::Entry>& entries_;
    std::map<std::string, Scalar>& scalars_;
    std::unordered_set<std::string> names_;
    std::uint64_t visits_ = 0, name_bytes_ = 0;
};

bool is_row_major(const PickledTensor& t) {
    std::int64_t step = 1;
    for (std::size_t d = t.size.size(); d-- > 0;) {
        if (t.size[d] != 1 && t.stride[d] != step) return false;
        step *= t.size[d];
    }
    return true;
}

// Copies dimensions `d` and on to `to`, which moves along.
void gather(const PickledTensor& t, std::size_t d, const std::byte* from, std::size_t bytes,
            std::byte*& to) {
    if (d == t.size.size()) {
        std::memcpy(to, from, bytes);
        to += bytes;
        return;
    }
    const std::ptrdiff_t step = t.stride[d] * static_cast<std::ptrdiff_t>(bytes);
    if (d + 1 == t.size.size() && t.stride[d] == 1) {
        const std::size_t run = static_cast<std::size_t>(t.size[d]) * bytes;
        std::memcpy(to, from, run);
        to += run;
        return;
    }
    for (std::int64_t i = 0; i < t.size[d]; ++i)
        gather(t, d + 1, from + i * step, bytes, to);
}

}  // namespace

TorchContent::TorchContent(std::span<const std::byte> file, const std::filesystem::path& path)
    : archive_(file, path), file_bytes_(file.size()), folder_(find_folder(archive_)) {
    if (archive_.contains(folder_ + "constants.pkl"))
        throw_file_error(path,
                         "is a TorchScript program, not a state dict. In Python: "
                         "torch.save(torch.jit.load(path).state_dict(), other_path)");
    if (archive_.contains(folder_ + "byteorder")) {
        const std::string order = text_of(archive_.read(folder_ + "byteorder"));
        if (order == "big")
            throw_file_error(path,
                             "was written on a big-endian machine, which is not supported; "
                             "load and save it again on a little-endian one");
        if (order != "little")
            throw_file_error(path, "has the unknown byte order " + in_quotes(order));
    }
    const std::string pickle = folder_ + "data.pkl";
    if (archive_.size_of_entry(pickle) > kMaxPickleBytes)
        throw_file_error(path, fmt::format("its pickle has {} bytes; {} are allowed",
                                           archive_.size_of_entry(pickle), kMaxPickleBytes));
    document_ = parse_pickle(archive_.read(pickle), path);
    Flattener(document_, path, entries_, scalars_).walk(document_.root, "", 0);
    check_tensors();
}

// All that can be known of the tensors without their bytes.
void TorchContent::check_tensors() {
    std::uint64_t total = 0;
    for (const Entry& entry : entries_) {
        check(entry);
        std::uint64_t bytes = storage_of(entry).type->bytes;
        for (const std::int64_t extent : document_.tensors[entry.tensor].size)
            bytes *= static_cast<std::uint64_t>(extent);
        // Tensors may share a storage or repeat it by strides of 0, but not without end.
        const std::uint64_t limit = (std::uint64_t{1} << 30) + 64 * file_bytes_;
        if (bytes > limit || (total += bytes) > limit)
            throw_file_error(archive_.path(),
                             fmt::format("its tensors would take more than {} bytes, which a file "
                                         "of {} should not",
                                         limit, file_bytes_));
    }
}

void TorchContent::check(const Entry& entry) const {
    const PickledTensor& t = document_.tensors[entry.tensor];
    const PickledStorage& storage = storage_of(entry);
    const auto fail = [&](const std::string& what) {
        throw_file_error(archive_.path(), fmt::format("tensor {} {}", in_quotes(entry.name), what));
    };
    if (t.size.size() != t.stride.size())
        fail(fmt::format("has {} sizes and {} strides", t.size.size(), t.stride.size()));
    if (t.size.size() > static_cast<std::size_t>(Shape::kMaxRank))
        fail(fmt::format("has {} dimensions; Pippin has at most {}", t.size.size(),
                         Shape::kMaxRank));
    bool empty = false;
    std::int64_t numel = 1;  // without the zeros
    for (std::size_t d = 0; d < t.size.size(); ++d) {
        if (t.size[d] < 0) fail(fmt::format("has the extent {}", t.size[d]));
        if (t.stride[d] < 0) fail(fmt::format("has the stride {}", t.stride[d]));
        empty = empty || t.size[d] == 0;
        const std::int64_t extent = std::max<std::int64_t>(t.size[d], 1);
        if (numel > (std::int64_t{1} << 55) / extent)
            fail(fmt::format("has a shape that overflows: [{}]", fmt::join(t.size, ", ")));
        numel *= extent;
    }
    if (t.offset < 0) fail(fmt::format("has the offset {}", t.offset));
    if (empty) return;
    // The last element's place. Each step is checked before it is taken, so that nothing overflows.
    std::int64_t last = t.offset;
    bool fits = last < storage.numel;
    for (std::size_t d = 0; fits && d < t.size.size(); ++d) {
        const std::int64_t steps = t.size[d] - 1;
        fits = t.stride[d] == 0 || steps <= (storage.numel - 1 - last) / t.stride[d];
        if (fits) last += steps * t.stride[d];
    }
    if (!fits)
        fail(fmt::format(
            "reaches beyond its storage: sizes [{}], strides [{}] and offset {} in "
            "{} elements",
            fmt::join(t.size, ", "), fmt::join(t.stride, ", "), t.offset, storage.numel));
}

std::vector<std::byte> TorchContent::read_storage(const PickledStorage& storage) const {
    // An empty storage has an entry, too, but nobody needs it.
    if (storage.numel == 0) return {};
    const std::string name = folder_ + "data/" + storage.key;
    const std::uint64_t have = archive_.size_of_entry(name);
    if (have % storage.type->bytes != 0 ||
        have / storage.type->bytes != static_cast<std::uint64_t>(storage.numel))
        throw_file_error(archive_.path(),
                         fmt::format("its entry {} has {} bytes, but {} elements of torch.{} were "
                                     "announced",
                                     in_quotes(name), have, storage.numel, storage.type->name));
    return archive_.read(name);
}

void TorchContent::visit(const Visitor& visitor) const {
    for (const Entry& entry : entries_)
        if (const StorageType* type = storage_of(entry).type; !type->dtype)
            throw TypeError(
                fmt::format("{}: tensor {} is of torch.{}, a dtype which Pippin does "
                            "not have",
                            archive_.path().string(), in_quotes(entry.name), type->name));
    // By key, since each mention of a storage in the pickle is an object of its own.
    std::vector<std::size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) -> const std::string& {
        return storage_of(entries_[i]).key;
    });

    std::vector<std::byte> bytes, scratch;
    const PickledStorage* held = nullptr;
    for (const std::size_t i : order) {
        const PickledStorage& storage = storage_of(entries_[i]);
        const PickledTensor& t = document_.tensors[entries_[i].tensor];
        if (!held || held->key != storage.key || held->type != storage.type ||
            held->numel != storage.numel) {
            bytes = {};  // before the next is read, not after
            bytes = read_storage(storage);
            held = &storage;
            if (storage.type->dtype == DType::Bool &&
                std::ranges::any_of(bytes, [](std::byte b) { return b > std::byte{1}; }))
                throw_file_error(archive_.path(),
                                 fmt::format("tensor {} is bool, but holds bytes that are neither "
                                             "0 nor 1",
                                             in_quotes(entries_[i].name)));
        }
        const Shape shape(t.size);
        const std::size_t element = storage.type->bytes;
        const bool empty = std::ranges::find(t.size, 0) != t.size.end();
        const std::byte* from =
            empty ? nullptr : bytes.data() + static_cast<std::size_t>(t.offset) * element;
        if (!empty && !is_row_major(t)) {
            scratch.resize(static_cast<std::size_t>(shape.numel()) * element);
            std::byte* to = scratch.data();
            gather(t, 0, from, element, to);
            from = scratch.data();
        }
        visitor(i, shape, *storage.type->dtype, from);
    }
}

}  // namespace pippin::io
