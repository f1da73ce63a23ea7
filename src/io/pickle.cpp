// A machine with a stack and a memo, as Python's own unpickler, over a list of objects.
#include "io/pickle.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "io/file_error.h"
#include "io/pickle_names.h"
#include "io/utf8.h"

namespace pippin::io {
namespace {

using Kind = PickleNode::Kind;
using Id = std::uint32_t;

constexpr std::size_t kMaxNodes = 10'000'000;
constexpr const char* kAdvice =
    "a checkpoint may hold tensors, dicts, lists, tuples, numbers and texts only. In Python, save "
    "just these: torch.save(model.state_dict(), path)";

class Unpickler {
  public:
    Unpickler(std::span<const std::byte> pickle, const std::filesystem::path& path)
        : in_(pickle), path_(path) {}

    PickleDocument run() {
        while (step()) {
        }
        return std::move(out_);
    }

  private:
    // --- input ---
    [[noreturn]] void fail(const std::string& what) const {
        throw_file_error(path_, fmt::format("its pickle {} (at byte {})", what, op_at_));
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw_file_error(path_, fmt::format("its pickle asks for {} (at byte {}), which is "
                                            "refused: {}",
                                            what, op_at_, kAdvice));
    }
    std::span<const std::byte> take(std::uint64_t n) {
        if (n > in_.size() - at_) fail("ends too early");
        const auto out = in_.subspan(at_, static_cast<std::size_t>(n));
        at_ += static_cast<std::size_t>(n);
        return out;
    }
    // A little-endian unsigned number.
    std::uint64_t number(std::size_t bytes) {
        std::uint64_t n = 0;
        std::memcpy(&n, take(bytes).data(), bytes);
        return n;
    }
    std::string text(std::uint64_t bytes) {
        const auto raw = take(bytes);
        std::string out(reinterpret_cast<const char*>(raw.data()), raw.size());
        if (!is_utf8(out)) fail("has a text that is not UTF-8");
        return out;
    }
    std::string line() {
        std::string out;
        for (;;) {
            const char c = static_cast<char>(number(1));
            if (c == '\n') return out;
            if (out.size() == 1000) fail("has a name of more than 1000 bytes");
            out += c;
        }
    }

    // --- objects and the stack ---
    Id make(Kind kind) {
        if (out_.nodes.size() == kMaxNodes) fail("has too many objects");
        out_.nodes.emplace_back().kind = kind;
        return static_cast<Id>(out_.nodes.size() - 1);
    }
    PickleNode& node(Id id) { return out_.nodes[id]; }
    void push(Id id) { stack_.push_back(id); }
    PickleNode& push(Kind kind) {
        const Id id = make(kind);
        push(id);
        return node(id);
    }
    void push_integer(Kind kind, std::int64_t value) { push(kind).integer = value; }
    void push_text(std::string value) { push(Kind::Text).text = std::move(value); }
    // What lies above the last mark cannot be reached without taking the mark first.
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
    Id top() {
        if (stack_.size() <= floor()) fail("takes an object from an empty stack");
        return stack_.back();
    }
    Id pop() {
        const Id id = top();
        stack_.pop_back();
        return id;
    }
    std::vector<Id> pop_to_mark() {
        if (marks_.empty()) fail("has an instruction without its MARK");
        const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        marks_.pop_back();
        std::vector<Id> out(from, stack_.end());
        stack_.erase(from, stack_.end());
        return out;
    }
    void push_tuple(std::vector<Id> items) { push(Kind::Tuple).items = std::move(items); }
    void push_tuple_of(int n) {
        std::vector<Id> items(static_cast<std::size_t>(n));
        for (auto i = items.rbegin(); i != items.rend(); ++i)
            *i = pop();
        push_tuple(std::move(items));
    }
    void append(std::span<const Id> items, Kind kind, const char* what) {
        PickleNode& n = node(top());
        if (n.kind != kind) fail(fmt::format("adds items to something that is no {}", what));
        n.items.insert(n.items.end(), items.begin(), items.end());
    }
    void set_items(const std::vector<Id>& items) {
        if (items.size() % 2 != 0) fail("has a dict key without a value");
        append(items, Kind::Dict, "dict");
    }
    void push_remembered(std::uint64_t place) {
        const auto found = memo_.find(place);
        if (found == memo_.end()) fail(fmt::format("uses memo {} before it is set", place));
        push(found->second);
    }

    // --- numbers ---
    void push_long(std::uint64_t bytes) {
        const auto raw = take(bytes);
        if (bytes <= 8) {
            std::uint64_t n = 0;
            if (bytes > 0) std::memcpy(&n, raw.data(), raw.size());
            if (bytes > 0 && bytes < 8 && (raw.back() & std::byte{0x80}) != std::byte{})
                n |= ~std::uint64_t{0} << (8 * bytes);  // two's complement
            push_integer(Kind::Int, static_cast<std::int64_t>(n));
            return;
        }
        // Beyond 64 bits, as the nearest double: the seeds of random generators are such.
        double value = 0;
        for (std::size_t i = raw.size(); i-- > 0;)
            value = value * 256 + static_cast<double>(std::to_integer<int>(raw[i]));
        if ((raw.back() & std::byte{0x80}) != std::byte{})
            value -= std::ldexp(1.0, static_cast<int>(8 * bytes));
        push(Kind::Float).real = value;
    }
    void push_double() {  // big-endian
        std::uint64_t bits = 0;
        for (const std::byte b : take(8))
            bits = bits << 8 | std::to_integer<std::uint64_t>(b);
        double value;
        std::memcpy(&value, &bits, 8);
        push(Kind::Float).real = value;
    }

    // --- globals, storages, tensors ---
    void push_global(const std::string& module, const std::string& name) {
        const auto found = find_pickle_global(module, name);
        if (!found) refuse("the global " + in_quotes(module + "." + name));
        PickleNode& n = push(Kind::Global);
        n.integer = static_cast<std::int64_t>(found->global);
        if (found->storage) n.items.push_back(static_cast<Id>(number_of(found->storage)));
    }
    // ("storage", torch.FloatStorage, key, location, elements)
    void push_storage(Id id) {
        const PickleNode& pid = node(id);
        const auto item = [&](std::size_t i) -> const PickleNode& { return node(pid.items[i]); };
        if (pid.kind != Kind::Tuple || pid.items.size() != 5 || item(0).kind != Kind::Text ||
            item(0).text != "storage" || item(1).kind != Kind::Global ||
            item(1).integer != static_cast<std::int64_t>(PickleGlobal::Storage) ||
            item(2).kind != Kind::Text || item(3).kind != Kind::Text || item(4).kind != Kind::Int)
            fail("has a persistent id that names no storage");
        if (item(4).integer < 0) fail(fmt::format("has a storage of {} elements", item(4).integer));
        out_.storages.push_back({item(2).text, storage_type(item(1).items[0]), item(4).integer});
        push_integer(Kind::Storage, static_cast<std::int64_t>(out_.storages.size() - 1));
    }
    std::vector<std::int64_t> extents(Id id, const char* what) {
        const PickleNode& n = node(id);
        std::vector<std::int64_t> out;
        if (n.kind != Kind::Tuple) fail(fmt::format("has a tensor whose {} is no tuple", what));
        for (const Id i : n.items) {
            if (node(i).kind != Kind::Int)
                fail(fmt::format("has a tensor whose {} are no whole numbers", what));
            out.push_back(node(i).integer);
        }
        return out;
    }
    // (storage, offset, size, stride, requires_grad, hooks[, metadata])
    void push_tensor(const std::vector<Id>& args) {
        if (args.size() < 6 || args.size() > 7 || node(args[0]).kind != Kind::Storage ||
            node(args[1]).kind != Kind::Int || node(args[4]).kind != Kind::Bool ||
            node(args[5]).kind != Kind::Dict)
            fail("has a tensor with unknown arguments");
        if (!node(args[5]).items.empty()) refuse("hooks on a tensor");
        out_.tensors.push_back({static_cast<std::uint32_t>(node(args[0]).integer),
                                node(args[1]).integer, extents(args[2], "sizes"),
                                extents(args[3], "strides")});
        push_integer(Kind::Tensor, static_cast<std::int64_t>(out_.tensors.size() - 1));
    }
    void reduce() {
        const Id args_id = pop(), callee = pop();
        if (node(callee).kind != Kind::Global) fail("calls something that is no function");
        if (node(args_id).kind != Kind::Tuple) fail("calls a function without a tuple");
        const std::vector<Id> args = node(args_id).items;
        switch (static_cast<PickleGlobal>(node(callee).integer)) {
            case PickleGlobal::OrderedDict:
                if (!args.empty()) fail("makes an OrderedDict from arguments");
                push(Kind::Dict);
                return;
            case PickleGlobal::Size:
                if (args.size() != 1 || node(args[0]).kind != Kind::Tuple)
                    fail("has a torch.Size of no tuple");
                push(args[0]);
                return;
            case PickleGlobal::RebuildTensor:
                push_tensor(args);
                return;
            case PickleGlobal::RebuildParameter:  // (tensor, requires_grad, hooks)
                if (args.size() != 3 || node(args[0]).kind != Kind::Tensor ||
                    node(args[1]).kind != Kind::Bool || node(args[2]).kind != Kind::Dict)
                    fail("has a parameter with unknown arguments");
                if (!node(args[2]).items.empty()) refuse("hooks on a parameter");
                push(args[0]);
                return;
            case PickleGlobal::Storage:
                refuse("a call of a storage type");
        }
    }
    // state_dict() hangs the modules' versions onto its OrderedDict; they are of no use here.
    void build() {
        const Id state = pop();
        if (node(top()).kind != Kind::Dict || node(state).kind != Kind::Dict)
            refuse("the setting of an object's attributes");
    }

    bool step() {
        op_at_ = at_;
        const auto op = static_cast<std::uint8_t>(number(1));
        switch (op) {
            case 0x80:  // PROTO
                if (const auto version = number(1); version < 2 || version > 5)
                    fail(fmt::format("has protocol {}; 2 to 5 are read", version));
                return true;
            case 0x95:  // FRAME: only says how much to read at once
                if (number(8) > in_.size() - at_) fail("ends too early");
                return true;
            case '.':
                out_.root = pop();
                if (!stack_.empty() || !marks_.empty()) fail("leaves objects on its stack");
                return false;

            case 'N':
                push(Kind::None);
                return true;
            case 0x88:
            case 0x89:
                push_integer(Kind::Bool, op == 0x88);
                return true;
            case 'J':
                push_integer(Kind::Int, static_cast<std::int32_t>(number(4)));
                return true;
            case 'K':
                push_integer(Kind::Int, static_cast<std::int64_t>(number(1)));
                return true;
            case 'M':
                push_integer(Kind::Int, static_cast<std::int64_t>(number(2)));
                return true;
            case 0x8a:
                push_long(number(1));
                return true;
            case 'G':
                push_double();
                return true;
            case 'X':
            case 'T':
                push_text(text(number(4)));
                return true;
            case 0x8c:
            case 'U':
                push_text(text(number(1)));
                return true;
            case 0x8d:
                push_text(text(number(8)));
                return true;

            case '(':
                marks_.push_back(stack_.size());
                return true;
            case ')':
                push(Kind::Tuple);
                return true;
            case 't':
                push_tuple(pop_to_mark());
                return true;
            case 0x85:
            case 0x86:
            case 0x87:
                push_tuple_of(op - 0x84);
                return true;
            case ']':
                push(Kind::List);
                return true;
            case 'a': {
                const Id item = pop();
                append({&item, 1}, Kind::List, "list");
                return true;
            }
            case 'e':
                append(pop_to_mark(), Kind::List, "list");
                return true;
            case '}':
                push(Kind::Dict);
                return true;
            case 's': {
                const Id value = pop(), key = pop();
                set_items({key, value});
                return true;
            }
            case 'u':
                set_items(pop_to_mark());
                return true;

            case 'q':
                memo_[number(1)] = top();
                return true;
            case 'r':
                memo_[number(4)] = top();
                return true;
            case 0x94:
                memo_[memo_.size()] = top();
                return true;
            case 'h':
                push_remembered(number(1));
                return true;
            case 'j':
                push_remembered(number(4));
                return true;

            case 'c': {
                const std::string module = line();
                push_global(module, line());
                return true;
            }
            case 0x93: {
                const Id name = pop(), module = pop();
                if (node(name).kind != Kind::Text || node(module).kind != Kind::Text)
                    fail("has a global whose name is no text");
                push_global(node(module).text, node(name).text);
                return true;
            }
            case 'Q':
                push_storage(pop());
                return true;
            case 'R':
                reduce();
                return true;
            case 'b':
                build();
                return true;
            default:
                if (const auto name = pickle_instruction(op); !name.empty())
                    refuse(fmt::format("the instruction {}", name));
                fail(fmt::format("has the unknown instruction 0x{:02x}", op));
        }
    }

    std::span<const std::byte> in_;
    const std::filesystem::path& path_;
    std::size_t at_ = 0, op_at_ = 0;
    std::vector<Id> stack_;
    std::vector<std::size_t> marks_;
    std::unordered_map<std::uint64_t, Id> memo_;
    PickleDocument out_;
};

}  // namespace

PickleDocument parse_pickle(std::span<const std::byte> pickle, const std::filesystem::path& path) {
    return Unpickler(pickle, path).run();
}

}  // namespace pippin::io
