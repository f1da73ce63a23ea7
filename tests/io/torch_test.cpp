// PyTorch's own files read right; what must not be read is refused by name.
#include <gtest/gtest.h>

#include <limits>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "io/pickles.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;
using namespace test;

fs::path fixture(const std::string& name) { return fs::path(PIPPIN_FIXTURES "/io/torch") / name; }

std::vector<std::byte> bytes_of(const Tensor& t) {
    const auto* p = static_cast<const std::byte*>(t.raw_data());
    return {p, p + static_cast<std::size_t>(t.numel()) * size_of(t.dtype())};
}

void expect_same(const io::NamedTensors& got, const fs::path& expected_path) {
    const io::SafeTensors expected = io::load_safetensors(expected_path);
    EXPECT_EQ(got.size(), expected.entries().size());
    for (const auto& [name, tensor] : got) {
        ASSERT_TRUE(expected.contains(name)) << name;
        const Tensor want = expected.tensor(name);
        EXPECT_EQ(tensor.dtype(), want.dtype()) << name;
        EXPECT_EQ(tensor.shape(), want.shape()) << name;
        EXPECT_EQ(bytes_of(tensor), bytes_of(want)) << name;
    }
}

TEST(Torch, EveryDType) {
    for (const char* name : {"every_dtype.pt", "deflated.pt", "protocol5.pt"}) {
        SCOPED_TRACE(name);
        const io::TorchCheckpoint file = io::load_torch(fixture(name));
        EXPECT_TRUE(file.scalars.empty());
        EXPECT_EQ(file.tensors.front().first, "float32");  // the order is kept
        expect_same(file.tensors, fixture("every_dtype.safetensors"));
    }
}

TEST(Torch, AsTorchWroteIt) {
    const io::NamedTensors tensors = io::load(fixture("as_written.pt"));
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors[0].second.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Torch, StridesAndSharedStorages) {
    expect_same(io::load_torch(fixture("views.pt")).tensors, fixture("views.safetensors"));
}

TEST(Torch, NestedContainersAndScalars) {
    const io::TorchCheckpoint file = io::load_torch(fixture("training.pt"));
    expect_same(io::select(file.tensors, "model"), fixture("training.safetensors"));
    const auto& s = file.scalars;
    EXPECT_EQ(std::get<std::int64_t>(s.at("epoch")), 3);
    EXPECT_EQ(std::get<double>(s.at("best")), 61.25);
    EXPECT_EQ(std::get<std::string>(s.at("name")), "größe");
    EXPECT_FALSE(std::get<bool>(s.at("done")));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(s.at("note")));
    EXPECT_EQ(std::get<double>(s.at("seed")), 0x1p64);
    EXPECT_EQ(std::get<std::int64_t>(s.at("low")), -(std::int64_t{1} << 31) - 5);
    EXPECT_EQ(std::get<double>(s.at("history.1")), 0.25);
    EXPECT_EQ(std::get<std::int64_t>(s.at("size.1")), 3);
    EXPECT_EQ(std::get<double>(s.at("optimizer.param_groups.0.lr")), 1e-3);
    EXPECT_EQ(std::get<std::int64_t>(s.at("nested.list.1.1")), 5);
    const auto find = [&](const std::string& name) {
        for (const auto& [n, t] : file.tensors)
            if (n == name) return t;
        ADD_FAILURE() << name;
        return Tensor();
    };
    EXPECT_EQ(find("parameter").to_vector<float>(), (std::vector<float>{1, 2}));
    EXPECT_EQ(find("nested.list.0").item<std::int64_t>(), 1);
    EXPECT_EQ(find("optimizer.state.0.exp_avg").shape(), (Shape{2, 1, 3, 3}));
    EXPECT_ERROR(io::select(file.tensors, "mode"), ValueError, "\"mode.\"", "model, nested");
}

TEST(Torch, ATensorAlone) {
    const io::TorchCheckpoint file = io::load_torch(fixture("bare.pt"));
    ASSERT_EQ(file.tensors.size(), 1u);
    EXPECT_EQ(file.tensors[0].first, "");
    EXPECT_EQ(file.tensors[0].second.shape(), (Shape{1, 2}));
}

TEST(Torch, RefusesByName) {
    const auto refused = [](const char* name, std::initializer_list<std::string> parts) {
        return throws<FileError>([&] { io::load_torch(fixture(name)); }, parts);
    };
    EXPECT_TRUE(refused("refused_call.pt", {"refused_call.pt", "'posix.system'", "state_dict()"}));
    EXPECT_TRUE(refused("refused_module.pt", {"'__main__.Net'", "state_dict()"}));
    EXPECT_TRUE(refused("refused_sparse.pt", {"'torch._utils._rebuild_sparse_tensor'"}));
    EXPECT_TRUE(refused("refused_uint16.pt", {"'torch._utils._rebuild_tensor_v3'"}));
    EXPECT_TRUE(refused("big_endian.pt", {"big-endian"}));
    EXPECT_TRUE(refused("no_storage.pt", {"no entry 'archive/data/0'"}));
    EXPECT_TRUE(refused("legacy.pt", {"before 1.6", "torch.save("}));
    EXPECT_TRUE(refused("torchscript.pt", {"TorchScript", "state_dict()"}));
    EXPECT_TRUE(refused("views.safetensors", {"no zip file"}));
    EXPECT_ERROR(io::load_torch(fixture("int16.pt")), TypeError, "'x'", "torch.ShortStorage");
}

TEST(Torch, EveryInstructionThatMakesObjectsIsRefused) {
    const TempFolder folder;
    const std::pair<const char*, std::string> cases[] = {
        {"INST", "(ios\nsystem\n"},
        {"OBJ", "(o"},
        {"NEWOBJ", ")\x81"},
        {"NEWOBJ_EX", "\x92"},
        {"EXT1", "\x82\x01"},
        {"PERSID", "P0\n"},
        {"EMPTY_SET", "\x8f"},
        {"BINBYTES", "B" + le(0, 4)},
        {"BYTEARRAY8", "\x96"},
        {"NEXT_BUFFER", "\x97"},
        {"INT", "I1\n"},
        {"UNICODE", "Va\n"},
        {"GET", "g0\n"},
        {"DUP", "2"},
    };
    for (const auto& [name, instructions] : cases)
        EXPECT_ERROR(io::load_torch(write_torch(folder / "x.pt", pickle(instructions))), FileError,
                     std::string("the instruction ") + name + " (at byte", "refused");
    for (const auto& [module, name] :
         {std::pair("os", "system"), std::pair("builtins", "eval"), std::pair("torch", "load"),
          std::pair("torch", "float32"), std::pair("collections", "defaultdict"),
          std::pair("torch._utils", "_rebuild_qtensor")}) {
        EXPECT_ERROR(io::load_torch(write_torch(folder / "x.pt", pickle(global(module, name)))),
                     FileError, std::string("'") + module + "." + name + "'", "refused");
        EXPECT_ERROR(io::load_torch(
                         write_torch(folder / "x.pt", pickle(text(module) + text(name) + "\x93"))),
                     FileError, std::string("'") + module + "." + name + "'", "refused");
    }
    EXPECT_ERROR(io::load_torch(
                     write_torch(folder / "x.pt", pickle(global("torch", "FloatStorage") + ")R"))),
                 FileError, "a call of a storage type");
    EXPECT_ERROR(io::load_torch(write_torch(folder / "x.pt", pickle("]}b"))), FileError,
                 "attributes");
}

TEST(Torch, MalformedPickles) {
    const TempFolder folder;
    const std::pair<std::string, const char*> cases[] = {
        {"", "ends too early"},
        {"\x80\x02", "ends too early"},
        {"\x80\x06.", "protocol 6"},
        {pickle(""), "empty stack"},
        {pickle("NN"), "leaves objects"},
        {pickle("N("), "empty stack"},
        {pickle("t"), "without its MARK"},
        {pickle("(N]"), "leaves objects"},
        {pickle("\xff"), "unknown instruction 0xff"},
        {pickle("h\x01"), "memo 1"},
        {pickle("X" + le(1000, 4) + "a"), "ends too early"},
        {pickle(text("\xff")), "not UTF-8"},
        {pickle("}(" + text("a") + "u"), "without a value"},
        {pickle("]NNs"), "no dict"},
        {pickle("}Na"), "no list"},
        {pickle("N)R"), "no function"},
        {pickle("NQ"), "no storage"},
        {pickle("\x95" + le(1000, 8)), "ends too early"},
        {pickle("}(" + tuple({1}) + "Nu"), "a key that is neither"},
        {pickle("}(" + text("a") + "N" + text("a") + "Nu"), "'a' comes twice"},
        {pickle("]q\x01h\x01"
                "a"),
         "nest more than"},
        {pickle(storage("FloatStorage", "0", 4)), "a bare storage"},
        {pickle(global("torch", "FloatStorage")), "a bare type"},
    };
    for (const auto& [bytes, message] : cases)
        EXPECT_ERROR(io::load_torch(write_torch(folder / "x.pt", bytes)), FileError, "x.pt",
                     message);
    // 2^50 objects by way of 50 lists that hold the one before twice.
    std::string kept = "(]q" + le(0, 1);
    for (int i = 0; i < 50; ++i) {
        const std::string last = "h" + le(static_cast<std::uint64_t>(i), 1);
        kept += "](" + last + last + "eq" + le(static_cast<std::uint64_t>(i) + 1, 1);
    }
    EXPECT_ERROR(io::load_torch(write_torch(folder / "x.pt", pickle(kept + "t"))), FileError,
                 "too many objects");
    // A million levels, which must not exhaust the machine's stack.
    EXPECT_ERROR(
        io::load_torch(write_torch(folder / "x.pt", pickle("N" + std::string(1'000'000, '\x85')))),
        FileError, "nest more than 64 deep");
}

TEST(Torch, LiesAboutTensors) {
    const TempFolder folder;
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    const std::string four = storage("FloatStorage", "0", 4);
    const auto load = [&](const std::string& tensor) {
        return io::load_torch(write_torch(folder / "x.pt", dict_of_x(tensor))).tensors;
    };
    EXPECT_EQ(load(tensor_of(four, 0, {2, 2}, {2, 1})).size(), 1u);
    EXPECT_EQ(load(tensor_of(four, 4, {0}, {1})).size(), 1u);         // empty, past the end
    EXPECT_EQ(load(tensor_of(four, 1, {3, 1}, {1, 99})).size(), 1u);  // a stride nobody uses
    const std::pair<std::string, const char*> cases[] = {
        {tensor_of(four, 0, {5}, {1}), "reaches beyond its storage"},
        {tensor_of(four, 1, {4}, {1}), "reaches beyond its storage"},
        {tensor_of(four, 4, {1}, {1}), "reaches beyond its storage"},
        {tensor_of(four, 0, {2, 2}, {3, 1}), "reaches beyond its storage"},
        {tensor_of(four, 0, {2}, {kHuge}), "reaches beyond its storage"},
        {tensor_of(four, kHuge, {2}, {1}), "reaches beyond its storage"},
        {tensor_of(four, -1, {1}, {1}), "offset -1"},
        {tensor_of(four, 0, {-2}, {1}), "extent -2"},
        {tensor_of(four, 0, {2}, {-1}), "stride -1"},
        {tensor_of(four, 0, {2}, {1, 1}), "1 sizes and 2 strides"},
        {tensor_of(four, 0, {kHuge, kHuge}, {0, 0}), "overflows"},
        {tensor_of(four, 0, {kHuge, kHuge, 0}, {0, 0, 0}), "overflows"},
        {tensor_of(four, 0, {1 << 30, 1 << 20}, {0, 0}), "would take more than"},
        {tensor_of(four, 0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
         "9 dimensions"},
        {tensor_of(storage("FloatStorage", "0", 3), 0, {3}, {1}), "has 16 bytes, but 3 elements"},
        {tensor_of(storage("FloatStorage", "0", kHuge), 0, {3}, {1}), "has 16 bytes"},
        {tensor_of(storage("FloatStorage", "0", -4), 0, {3}, {1}), "-4 elements"},
        {tensor_of(storage("FloatStorage", "../1", 4), 0, {3}, {1}), "no entry"},
    };
    for (const auto& [tensor, message] : cases)
        EXPECT_ERROR(load(tensor), FileError, "x.pt", message);
    const std::string flags = dict_of_x(tensor_of(storage("BoolStorage", "0", 3), 0, {3}, {1}));
    EXPECT_ERROR(io::load_torch(write_torch(folder / "x.pt", flags, std::string("\0\1\2", 3))),
                 FileError, "neither 0 nor 1");
}

TEST(Torch, DamagedArchives) {
    const TempFolder folder;
    const fs::path path = folder / "x.pt";
    const std::string good =
        dict_of_x(tensor_of(storage("FloatStorage", "0", 1024), 0, {1024}, {1}));
    for (const bool deflate : {false, true}) {
        SCOPED_TRACE(deflate);
        write_zip(path,
                  {{"data.pkl", good}, {"data/0", std::string(4096, 'x')}, {"byteorder", "little"}},
                  deflate);
        const std::string whole = read_text(path);
        ASSERT_EQ(io::load_torch(path).tensors.size(), 1u);
        // Each cut and each flipped byte is noticed, or changes nothing of the tensor.
        const io::NamedTensors expected = io::load_torch(path).tensors;
        const std::vector<std::byte> want = bytes_of(expected[0].second);
        for (std::size_t cut = 0; cut < whole.size(); cut += 1 + whole.size() / 25) {
            write_text(path, whole.substr(0, cut));
            EXPECT_ERROR(io::load_torch(path), FileError, "x.pt");
        }
        for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 150) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ 0x21);
            write_text(path, changed);
            try {
                const io::NamedTensors got = io::load_torch(path).tensors;
                ASSERT_EQ(got.size(), 1u) << at;
                EXPECT_EQ(bytes_of(got[0].second), want) << at;
            } catch (const FileError&) {
            }
        }
    }
    write_zip(path, {{"other", "x"}});
    EXPECT_ERROR(io::load_torch(path), FileError, "no PyTorch checkpoint", "data.pkl");
    write_zip(path, {{"data.pkl", good}, {"byteorder", "middle"}});
    EXPECT_ERROR(io::load_torch(path), FileError, "byte order 'middle'");
}

}  // namespace
}  // namespace pippin
